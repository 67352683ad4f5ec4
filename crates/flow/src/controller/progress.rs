//! At the backend: the first token, the stream, and what the engine says of itself.
//!
//! None of this changes who is next; it tells `auto` how much more each backend can take. With
//! fixed bounds it is checked and has no effect.

use super::Controller;
use crate::ask::{BackendId, COST_MAX, Ticket};
use crate::auto::{EngineReading, Flight, Gauge};
use crate::outcome::Misuse;
use crate::settings::Bounds;
use crate::time::Time;

// === impl Controller ===

impl Controller {
    /// An ask in flight has produced its first token: its first chunk with content, not the
    /// response's headers, which some engines send before.
    pub fn started(&mut self, ticket: Ticket, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        if self.is_auto() {
            self.begin(slot, true, now);
        }
        Ok(())
    }

    /// A stream has produced this many tokens so far. Tell it as they come: where the engine has no
    /// metrics, a stream that stands still beside others shows that its memory is full.
    pub fn streamed(&mut self, ticket: Ticket, tokens: u64, now: Time) -> Result<(), Misuse> {
        let now = self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        if !self.is_auto() {
            return Ok(());
        }
        if !self.flights[slot as usize].started {
            self.begin(slot, true, now);
        }
        let backend = self.asks[slot].backend;
        let gauge = &mut self.supply.backends[backend as usize].gauge;
        let tokens = tokens.min(COST_MAX);
        gauge.streamed(&mut self.flights[slot as usize], tokens, self.settings.pace_max, now);
        self.bounds_moved(backend, now);
        Ok(())
    }

    /// A backend's engine says how it is. Tell every reading as soon as it is there.
    pub fn reading(&mut self, backend: BackendId, reading: EngineReading, now: Time) {
        let now = self.advance(now);
        let Some(at) = self.supply.find(backend).filter(|_| self.is_auto()) else { return };
        self.supply.backends[at as usize].gauge.read(reading, now);
        self.bounds_moved(at, now);
    }

    pub(super) fn is_auto(&self) -> bool {
        self.settings.bounds == Bounds::Auto
    }

    /// An ask has been granted: `auto` counts it.
    pub(super) fn take_off(&mut self, slot: u32) {
        let now = self.clock;
        let record = &self.asks[slot];
        let (backend, streamed) = (record.backend, record.streamed);
        let gauge = &mut self.supply.backends[backend as usize].gauge;
        let mut flight = gauge.granted(record.prompt(), u64::from(record.tokens), now);
        if !streamed {
            // In flight nothing else needs the ask's deadline, nor its place in the wheel.
            let presumed = gauge.presumed_start(now);
            flight.deadline = Some(std::mem::replace(&mut self.asks[slot].deadline, presumed));
            self.wheel.insert(slot, &mut self.asks);
        }
        if self.flights.len() <= slot as usize {
            self.flights.resize(slot as usize + 1, Flight::default());
        }
        self.flights[slot as usize] = flight;
        self.watch(backend, now);
    }

    /// An ask in flight has ended: `auto` forgets it.
    pub(super) fn land(&mut self, slot: u32) {
        self.stop_presuming(slot);
        let backend = self.asks[slot].backend;
        let gauge = &mut self.supply.backends[backend as usize].gauge;
        gauge.ended(&self.flights[slot as usize], self.clock);
        self.watch(backend, self.clock);
    }

    /// An ask has begun, as was seen or as is presumed by now.
    pub(super) fn begin(&mut self, slot: u32, seen: bool, now: Time) {
        self.stop_presuming(slot);
        let backend = self.asks[slot].backend;
        let gauge = &mut self.supply.backends[backend as usize].gauge;
        gauge.started(&mut self.flights[slot as usize], seen, now);
        self.bounds_moved(backend, now);
    }

    /// Counts everything in flight anew, because `auto` was switched on; what is under way by now
    /// has most likely begun.
    pub(super) fn recount_flights(&mut self) {
        self.flights.clear();
        self.reset_gauges();
        for slot in self.in_flight_slots() {
            self.take_off(slot);
            self.stop_presuming(slot);
            let backend = self.asks[slot].backend;
            let gauge = &mut self.supply.backends[backend as usize].gauge;
            gauge.started(&mut self.flights[slot as usize], false, self.clock);
            self.watch(backend, self.clock);
        }
    }

    /// Takes asks that are presumed to begin out of the wheel, because `auto` was switched off.
    pub(super) fn drop_flights(&mut self) {
        for slot in self.in_flight_slots() {
            self.stop_presuming(slot);
        }
        self.flights.clear();
        self.reset_gauges();
    }

    fn reset_gauges(&mut self) {
        for at in 0..self.supply.backends.len() as u32 {
            self.supply.backends[at as usize].gauge = Gauge::default();
            self.supply.refresh(at);
        }
    }

    fn stop_presuming(&mut self, slot: u32) {
        if let Some(deadline) = self.flights[slot as usize].deadline.take() {
            self.wheel.remove(slot, &mut self.asks);
            self.asks[slot].deadline = deadline;
        }
    }

    fn bounds_moved(&mut self, backend: u32, now: Time) {
        let was_open = self.supply.is_backend_open(backend);
        self.watch(backend, now);
        if !was_open && self.supply.is_backend_open(backend) {
            self.drain(self.supply.backends[backend as usize].domain, now);
        }
    }

    /// Sees whether a backend is open, and whether that keeps anyone waiting.
    fn watch(&mut self, backend: u32, now: Time) {
        self.supply.refresh(backend);
        let at = &mut self.supply.backends[backend as usize];
        let wanted = self.domains.get(at.domain as usize).is_some_and(|domain| domain.waiting > 0);
        at.gauge.watch(wanted, now);
    }
}
