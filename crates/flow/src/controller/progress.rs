//! At the backend: the first token, the stream, and the engine's metrics.
//!
//! None of these changes the order of the queue. They tell `auto` how much more each backend can
//! take. With fixed bounds only routing uses them.

use super::Controller;
use crate::ask::{BackendId, COST_MAX, Ticket};
use crate::auto_watermark::{AskProgress, EngineReading, PaceLimits};
use crate::outcome::Misuse;
use crate::settings::{Bounds, Settings};
use crate::time::{Span, Time};

/// How often it is asked again whether an ask that does not stream may count as started.
const PRESUME_EVERY: Span = Span::from_millis(100);

// === impl Controller ===

impl Controller {
    /// An ask in flight has produced its first token: the first chunk with content, not the
    /// response headers, which some engines send earlier.
    pub fn started(&mut self, ticket: Ticket, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        self.learn_start(slot, now);
        if self.is_auto() {
            self.mark_started(slot, true, now);
        }
        Ok(())
    }

    /// A stream has produced this many tokens so far. Report them as they come: if the engine has
    /// no metrics, a stream that stands still beside others shows that its memory is full.
    pub fn streamed(&mut self, ticket: Ticket, tokens: u64, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        self.learn_start(slot, now);
        if !self.is_auto() {
            return Ok(());
        }
        if !self.progress[slot as usize].started {
            self.mark_started(slot, true, now);
        }
        let backend = self.asks[slot].backend;
        let places = self.known_places(backend);
        let auto = &mut self.supply.backends[backend as usize].auto;
        let tokens = tokens.min(COST_MAX);
        let Settings { pace_max, slo_tpot, .. } = self.settings;
        let limits = PaceLimits { most: pace_max, objective: slo_tpot };
        auto.streamed(&mut self.progress[slot as usize], tokens, limits, now);
        self.bounds_moved(backend, places, now);
        Ok(())
    }

    /// Takes new metrics of a backend's engine. Report every reading at once.
    pub fn reading(&mut self, backend: BackendId, reading: EngineReading, now: Time) {
        let now = self.advance(now);
        let Some(at) = self.supply.find(backend) else { return };
        if self.supply.backends[at as usize].kv_tokens != reading.kv_tokens {
            self.supply.backends[at as usize].kv_tokens = reading.kv_tokens;
            self.fit_prefix_indexes();
        }
        if !self.is_auto() {
            self.supply.backends[at as usize].auto.note(reading, now);
            return;
        }
        let places = self.known_places(at);
        self.supply.backends[at as usize].auto.read(reading, now);
        self.bounds_moved(at, places, now);
    }

    pub(super) fn is_auto(&self) -> bool {
        self.settings.bounds == Bounds::Auto
    }

    /// Counts a granted ask under `auto`.
    pub(super) fn count_grant(&mut self, slot: u32) {
        let now = self.clock;
        let record = &self.asks[slot];
        let (backend, streamed) = (record.backend, record.streamed);
        // The engine neither computes nor stores again what it has in its cache. It computes the
        // last token in any case.
        let cached = u64::from(self.expected_cached(slot));
        let prompt = record.prompt().saturating_sub(cached);
        let tokens = u64::from(record.tokens).saturating_sub(cached).max(1);
        let auto = &mut self.supply.backends[backend as usize].auto;
        let mut progress = auto.granted(prompt, tokens, now);
        if !streamed {
            // While the ask is in flight, its deadline and its place in the wheel are unused.
            let presumed = auto.presumed_start(now);
            progress.deadline = Some(std::mem::replace(&mut self.asks[slot].deadline, presumed));
            self.wheel.insert(slot, &mut self.asks);
        }
        if self.progress.len() <= slot as usize {
            self.progress.resize(slot as usize + 1, AskProgress::default());
        }
        self.progress[slot as usize] = progress;
        self.watch(backend, now);
    }

    /// Removes an ask that has ended from the counts of `auto`.
    pub(super) fn count_end(&mut self, slot: u32) {
        self.stop_presuming(slot);
        let backend = self.asks[slot].backend;
        let auto = &mut self.supply.backends[backend as usize].auto;
        auto.ended(&self.progress[slot as usize], self.clock);
        self.watch(backend, self.clock);
    }

    /// An ask has started: its first token was seen, or is presumed.
    pub(super) fn mark_started(&mut self, slot: u32, seen: bool, now: Time) {
        self.stop_presuming(slot);
        self.prompt_left(slot);
        let backend = self.asks[slot].backend;
        let places = self.known_places(backend);
        let auto = &mut self.supply.backends[backend as usize].auto;
        auto.started(&mut self.progress[slot as usize], seen, now);
        self.bounds_moved(backend, places, now);
    }

    /// Takes the time to first token of an ask into the mean of its domain, once.
    fn learn_start(&mut self, slot: u32, now: Time) {
        let record = &mut self.asks[slot];
        let granted = std::mem::replace(&mut record.granted, Time::NEVER);
        if granted == Time::NEVER {
            return;
        }
        let backend = record.backend;
        let (own, ahead) = self.prompt_left(slot);
        let backend = &mut self.supply.backends[backend as usize];
        backend.prefill_rate.learn(own, ahead, now.since(granted));
        backend.latency.first_token.learn(now.since(granted), now);
        backend.loaded.started(slot, now.since(granted), now);
        let domain = backend.domain;
        if let Some(domain) = self.domains.get_mut(domain as usize) {
            domain.start_time.learn(now.since(granted));
        }
    }

    /// An ask that does not stream has usually started by now. If the engine's metrics say
    /// otherwise, it is asked again later.
    pub(super) fn presume_started(&mut self, slot: u32, now: Time) {
        let auto = &self.supply.backends[self.asks[slot].backend as usize].auto;
        if auto.may_presume(now) {
            self.mark_started(slot, false, now);
            return;
        }
        let later = auto.presumed_start(now).max(now.after(PRESUME_EVERY));
        self.wheel.remove(slot, &mut self.asks);
        self.asks[slot].deadline = later;
        self.wheel.insert(slot, &mut self.asks);
    }

    /// Counts all asks in flight, because `auto` was switched on. They have most likely started.
    pub(super) fn recount_auto(&mut self) {
        self.progress.clear();
        self.reset_auto();
        for slot in self.in_flight_slots() {
            self.count_grant(slot);
            self.stop_presuming(slot);
            let backend = self.asks[slot].backend;
            let auto = &mut self.supply.backends[backend as usize].auto;
            auto.started(&mut self.progress[slot as usize], false, self.clock);
            self.watch(backend, self.clock);
        }
    }

    /// Removes presumed starts from the timing wheel, because `auto` was switched off.
    pub(super) fn drop_auto(&mut self) {
        for slot in self.in_flight_slots() {
            self.stop_presuming(slot);
        }
        self.progress.clear();
        self.reset_auto();
    }

    fn reset_auto(&mut self) {
        for at in 0..self.supply.backends.len() as u32 {
            let auto = &mut self.supply.backends[at as usize].auto;
            *auto = auto.anew();
            self.supply.refresh(at);
        }
    }

    fn stop_presuming(&mut self, slot: u32) {
        if let Some(deadline) = self.progress[slot as usize].deadline.take() {
            self.wheel.remove(slot, &mut self.asks);
            self.asks[slot].deadline = deadline;
        }
    }

    /// Grants the asks that may go because bounds of a backend have moved; `places` are those that
    /// were known before.
    fn bounds_moved(&mut self, backend: u32, places: Option<u32>, now: Time) {
        let was_open = self.supply.is_backend_open(backend);
        self.watch(backend, now);
        if !self.supply.is_backend_open(backend) {
            return;
        }
        // Places that are unknown are not kept.
        let more = |places| self.known_places(backend).is_none_or(|known| known > places);
        if !was_open || places.is_some_and(more) {
            self.dispatch(self.supply.backends[backend as usize].domain, now);
        }
    }

    /// Updates whether a backend is open, and which bound keeps asks waiting for it: it closes the
    /// backend, or would if no places were kept free.
    fn watch(&mut self, backend: u32, now: Time) {
        let closed_by = self.supply.refresh(backend);
        let domain = self.supply.backends[backend as usize].domain;
        let wanted = self.domains.get(domain as usize).is_some_and(|domain| domain.waiting > 0);
        let is_held = || self.is_reserving() && self.keeps_places_of(backend);
        let blocking = match closed_by {
            _ if !wanted => None,
            None if is_held() => self.supply.backends[backend as usize].auto.held_by(),
            closed_by => closed_by,
        };
        self.supply.backends[backend as usize].auto.note_blocking(blocking, now);
    }
}
