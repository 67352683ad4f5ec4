//! Chooses the backend of an ask, in the same step as its grant.
//!
//! Only backends that are ready, have room and are within the flow's limits are considered. The
//! score of [`crate::route`] decides among them, and the reason is kept for the response headers.

use super::Controller;
use super::prompts::RouteInput;
use crate::ask::{Ask, Band, ModelId, Ticket};
use crate::latency::{Latency, MeanTime};
use crate::queue::asks::Phase;
use crate::route::{Candidate, RouteChoice, RoutePreference, RouteReason, choose};
use crate::settings::{Bounds, Room, StockUnit};
use crate::supply::Backend;

/// A full backend counts as this many requests, whatever its size. Under `auto`, or with bounds in
/// tokens, one request is a large part of one backend and a small part of another.
const FULL_COUNTS_AS: f64 = 20.0;

/// The backend of an ask, and the reason if there was a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) backend: u32,
    pub(super) choice: Option<RouteChoice>,
}

// === impl Controller ===

impl Controller {
    /// Why an ask in flight went to its backend; [`RouteChoice::at`] is the backend's number.
    pub fn choice(&self, ticket: Ticket) -> Option<RouteChoice> {
        let slot = self.asks.find(ticket)?;
        let record = &self.asks[slot];
        if record.phase != Phase::InFlight {
            return None;
        }
        if let Some(choice) = self.choices.get(slot as usize).copied().flatten() {
            return Some(choice);
        }
        // There was no choice, so the score of the one backend can be computed now.
        let preference = self.preference_of(slot);
        let only = self.candidate_before(slot, &preference);
        choose(&preference, &self.settings.route, std::iter::once(only))
    }

    /// The backend of a pool for an ask. The input is computed only if there is a choice.
    pub(super) fn choose_backend<'a>(
        &self,
        (flow, model): (u32, ModelId),
        pool: u32,
        room: Room,
        input: impl FnOnce() -> RouteInput<'a>,
    ) -> Option<Route> {
        let members = &self.supply.pools[pool as usize].members;
        if let [only] = members[..] {
            let usable = self.is_usable(only, flow, model, room);
            return usable.then_some(Route { backend: only, choice: None });
        }
        let usable = |&at: &u32| self.is_usable(at, flow, model, room);
        let input = input();
        let warmer = self.warmer_for_critical((flow, model), members, usable, &input);
        let usable = |at: &u32| usable(at) || warmer.contains(at);
        self.choose_among(members, model, usable, input)
    }

    /// Where a critical ask that could go elsewhere finds more of its prompt cached, under `auto`:
    /// at backends that are closed, but have headroom.
    fn warmer_for_critical(
        &self,
        (flow, model): (u32, ModelId),
        members: &[u32],
        usable: impl Fn(&u32) -> bool,
        input: &RouteInput<'_>,
    ) -> Vec<u32> {
        let is_critical = input.preference.band == Band::Critical && !input.blocks.is_empty();
        if !is_critical || self.settings.bounds != Bounds::Auto || self.flows[flow].limited {
            return Vec::new();
        }
        let backend = |at: u32| &self.supply.backends[at as usize];
        let has_headroom = |at: u32| backend(at).ready && backend(at).auto.has_headroom();
        let is_closed = |at: &u32| !usable(at) && has_headroom(*at) && !self.defers(*at, model);
        let mut closed: Vec<u32> = members.iter().copied().filter(is_closed).collect();
        if closed.is_empty() {
            // Otherwise each critical ask would look its prompt up twice at every backend.
            return closed;
        }
        let held = |at: &u32| backend(*at).prefixes.held_of(input.blocks.hashes());
        let most = members.iter().filter(|at| usable(at)).map(held).max();
        closed.retain(|at| most.is_some_and(|most| held(at) > most));
        closed
    }

    /// Whether a backend has room for an ask of a flow, and takes its model now.
    #[inline(always)]
    fn is_usable(&self, at: u32, flow: u32, model: ModelId, room: Room) -> bool {
        self.supply.has_room(at, room)
            && (!self.flows[flow].limited || self.flows.may_use(flow, at))
            && !self.defers(at, model)
    }

    /// The backend of an ask among the usable members of a pool.
    #[inline(never)]
    fn choose_among(
        &self,
        members: &[u32],
        model: ModelId,
        usable: impl Fn(&u32) -> bool + Clone,
        input: RouteInput<'_>,
    ) -> Option<Route> {
        let usable = members.iter().copied().filter(usable);
        let RouteInput { preference, blocks, tokens } = input;
        let prefixes = |at: u32| &self.supply.backends[at as usize].prefixes;
        // Otherwise prompts would weigh where no cache can help: `depth` counts the asks already.
        let shared = usable.clone().any(|at| prefixes(at).begins(blocks.hashes()));
        let in_flight = |at: u32| self.supply.backends[at as usize].in_flight_total();
        let delayed = if shared { usable.clone().map(in_flight).min().unwrap_or(0) } else { 0 };
        let fastest = self.fastest_of(members);
        let candidates = usable.map(|at| {
            let load_ms = self.load_ms(at, model);
            let mut candidate = Candidate { load_ms, ..self.candidate(at, &preference) };
            if candidate.is_unknown() {
                candidate.measured_latency_ms = fastest;
            }
            if !shared {
                return candidate;
            }
            let cached = blocks.tokens_of(prefixes(at).held_of(blocks.hashes()), tokens);
            let uncomputed = self.supply.backends[at as usize].uncomputed;
            // Asks with one prompt share its memory, so that very many fit and each would count for
            // nearly nothing.
            let request_weight = candidate.request_weight.max(1.0);
            Candidate {
                cached_tokens: cached,
                uncomputed_tokens: uncomputed,
                delayed,
                request_weight,
                ..candidate
            }
        });
        let choice = choose(&preference, &self.settings.route, candidates)?;
        let backend = choice.at;
        let at = self.supply.backends[backend as usize].id.0;
        let reason = self.reason_among(members, choice.reason);
        Some(Route { backend, choice: Some(RouteChoice { at, reason, ..choice }) })
    }

    /// The least time to first token that was measured at some backends. One of which nothing is
    /// known counts as fast: otherwise it would get no ask, and never be measured.
    fn fastest_of(&self, members: &[u32]) -> Option<f32> {
        let counts = self.settings.route.terms().measured_share > 0.0;
        let measured =
            |&at: &u32| self.supply.backends[at as usize].latency.first_token.millis(self.clock);
        let measured = members.iter().filter_map(measured).filter(|_| counts);
        measured.min_by(f32::total_cmp)
    }

    /// The reason of a choice, given all backends of the pool: the only candidate may be the only
    /// one with room.
    fn reason_among(&self, members: &[u32], reason: RouteReason) -> RouteReason {
        let ready = |&&at: &&u32| self.supply.backends[at as usize].ready;
        let lone = reason == RouteReason::OnlyBackend;
        let others = lone && members.iter().filter(ready).count() > 1;
        if others { RouteReason::OnlyWithRoom } else { reason }
    }

    /// Keeps the reason of a grant.
    pub(super) fn explain(&mut self, slot: u32, route: &Route) {
        let slot = slot as usize;
        if self.choices.len() <= slot {
            if route.choice.is_none() {
                return;
            }
            self.choices.resize(slot + 1, None);
        }
        self.choices[slot] = route.choice;
    }

    pub(super) fn preference_of(&self, slot: u32) -> RoutePreference {
        let record = &self.asks[slot];
        let kept = record.has_preference.then(|| self.preferences.get(&slot)).flatten();
        kept.copied().unwrap_or(RoutePreference { band: record.band, ..RoutePreference::default() })
    }

    /// The backend of an ask in flight as it was before the ask was granted.
    fn candidate_before(&self, slot: u32, preference: &RoutePreference) -> Candidate {
        let record = &self.asks[slot];
        let after = self.candidate(record.backend, preference);
        let auto = &self.supply.backends[record.backend as usize].auto;
        let reported = auto.reading(self.clock).map_or(0, |reading| reading.waiting);
        let mut pending = after.pending;
        let count = pending.iter().sum::<u32>().max(1);
        let own = &mut pending[record.band.index()];
        *own = own.saturating_sub(1);
        Candidate {
            at: after.backend.0,
            pending,
            engine_waiting: after.engine_waiting.map(|all| reported.max(all.saturating_sub(1))),
            cached_tokens: u64::from(self.expected_cached(slot)),
            fill: after.fill * (count - 1) as f32 / count as f32,
            ..after
        }
    }

    fn candidate(&self, at: u32, preference: &RoutePreference) -> Candidate {
        let now = self.clock;
        let backend = &self.supply.backends[at as usize];
        let reading = backend.auto.reading(now);
        let Latency { first_token, whole } = backend.latency;
        let counts = self.settings.route.terms().measured_share > 0.0;
        let measured = |mean: MeanTime| mean.millis(now).filter(|_| counts);
        let full = self.full_at(backend);
        let counted = full.filter(|_| !self.settings.route.terms().flat_depth);
        let in_flight = f64::from(backend.in_flight_total());
        Candidate {
            at,
            backend: backend.id,
            traits: backend.traits,
            handicap: backend.handicap,
            measured_latency_ms: measured(first_token),
            whole_latency_ms: measured(whole),
            pending: backend.in_flight,
            request_weight: counted.map_or(1.0, |full| FULL_COUNTS_AS / full) as f32,
            engine_waiting: Some(backend.auto.engine_waiting(now)),
            kv_used: reading.map(|reading| reading.kv_used as f32),
            fill: full.map_or(0.0, |full| in_flight / full) as f32,
            cached_tokens: 0,
            uncomputed_tokens: 0,
            delayed: 0,
            prefill_rate: backend.prefill_rate.per_second().map(|rate| rate as f32),
            load_ms: 0.0,
            has_adapter: preference
                .adapter
                .is_some_and(|adapter| backend.adapters.contains(&adapter)),
            last_granted: backend.granted_at,
        }
    }

    /// The number of requests that fill a backend, unless bounds are fixed in requests.
    fn full_at(&self, backend: &Backend) -> Option<f64> {
        let in_flight = f64::from(backend.in_flight_total());
        match (self.settings.bounds, self.settings.stock) {
            (Bounds::Auto, _) => backend.auto.full_at(),
            (Bounds::Fixed(_), StockUnit::Requests) => None,
            (Bounds::Fixed(bounds), StockUnit::Tokens) => {
                let [_, watermark, _] = bounds.scaled(1);
                (backend.stock > 0).then(|| in_flight * watermark / backend.stock as f64)
            }
        }
    }
}

// === impl Ask ===

impl Ask {
    /// Its route preference.
    pub(super) fn preference(&self) -> RoutePreference {
        RoutePreference {
            band: self.band,
            latency_max: self.latency_max,
            start_max: self.objective,
            latency_critical: self.latency_critical,
            power_max: self.power_max,
            power_efficient: self.power_efficient,
            session: self.session,
            adapter: self.adapter,
        }
    }

    /// Whether it prefers anything beyond what its band implies.
    pub(super) fn has_preference(&self) -> bool {
        self.latency_max.is_some()
            || self.objective.is_some()
            || self.latency_critical
            || self.power_max.is_some()
            || self.power_efficient
            || self.session.is_some()
            || self.adapter.is_some()
    }
}
