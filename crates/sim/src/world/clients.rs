//! The clients: when they send, their tenants, and when they give up.

use std::collections::BTreeMap;

use flow::Band;

use super::event_queue::Event;
use super::{Bands, Open, Source, Stage, Tenancy, World};
use crate::arrivals::Request;
use crate::measure::{Arrival, Outcome};
use crate::policy::{Offer, RequestId, Tenant};
use crate::random::Random;

/// A source with the request that comes next.
pub(super) struct ClientSource {
    source: Source,
    next: Option<Request>,
    random: Random,
    /// The tenants of its clients, as far as they have been seen.
    tenants: BTreeMap<u32, u32>,
}

// === impl ClientSource ===

impl ClientSource {
    pub(super) fn all(sources: Vec<Source>, seed: u64) -> Vec<Self> {
        let random = Random::new(seed);
        let tap = |(at, source): (usize, Source)| Self {
            source,
            next: None,
            random: random.fork(&format!("bands of source {at}")),
            tenants: BTreeMap::new(),
        };
        sources.into_iter().enumerate().map(tap).collect()
    }

    pub(super) fn is_dry(&self) -> bool {
        self.next.is_none()
    }
}

// === impl World ===

impl World<'_> {
    /// Takes the next request from a source and waits for its time.
    pub(super) fn pull(&mut self, at: usize) {
        let tap = &mut self.sources[at];
        let end = self.rules.arrivals_end;
        tap.next = tap.source.arrivals.next().filter(|request| request.at < end);
        if let Some(request) = &tap.next {
            self.event_queue.add(request.at.max(self.now), Event::Arrive(at as u32));
        }
    }

    pub(super) fn arrive(&mut self, at: usize) {
        let Some(arrived) = self.sources[at].next.take() else { return };
        let tenant = self.tenant_of(at, arrived.client);
        let tap = &mut self.sources[at];
        let band = tap.source.bands.draw(&mut tap.random);
        let (patience, ttl) = (tap.source.patience, tap.source.ttl);
        let Request { prompt, output, prefix, .. } = arrived;
        let known = &self.tenants[tenant as usize];
        let arrival = Arrival { tenant, band, prompt, output };
        let request = self.recorder.arrived(arrival, known.weight, self.now);
        self.open.push(Open { stage: Stage::Waiting, prefix });
        self.open_count += 1;
        if let Some(patience) = patience {
            self.event_queue.add(self.now.after(patience), Event::GiveUp(request));
        }
        self.policy.offer(&Offer { request, tenant, known, band, prompt, ttl }, self.now);
        self.apply_decisions();
        self.pull(at);
    }

    /// A client has waited long enough for its first token.
    pub(super) fn give_up(&mut self, request: RequestId) {
        let stage = self.open[request as usize].stage;
        let spent = self.recorder.spent(request);
        if stage == Stage::Over || spent.output > 0 {
            return;
        }
        if let Stage::At(engine) = stage {
            let arrives = self.now.after(self.rules.network);
            self.event_queue.add(arrives, Event::Abort(request, engine));
        }
        self.close(request, Outcome::GaveUp, None);
        self.policy.gave_up(request, spent, self.now);
        self.apply_decisions();
    }

    fn tenant_of(&mut self, at: usize, client: u32) -> u32 {
        let tap = &mut self.sources[at];
        let (key, name) = match &tap.source.tenancy {
            Tenancy::One(name) => (0, Some(name)),
            Tenancy::Clients(names) => (client, names.get(client as usize)),
        };
        if let Some(&known) = tap.tenants.get(&key) {
            return known;
        }
        let name = name.map_or_else(|| format!("client-{client}"), String::clone);
        let tenant = self.tenants.iter().position(|tenant| tenant.name == name);
        let tenant = tenant.unwrap_or_else(|| {
            self.tenants.push(Tenant { name, weight: 1.0 });
            self.tenants.len() - 1
        });
        tap.tenants.insert(key, tenant as u32);
        tenant as u32
    }
}

// === impl Bands ===

impl Bands {
    fn draw(self, random: &mut Random) -> Band {
        let shares = match self {
            Self::Fixed(band) => return band,
            Self::Mixed(shares) => shares,
        };
        let mut left = random.unit() * shares.iter().sum::<f64>();
        let ascending = Band::DESCENDING.into_iter().rev().zip(shares);
        for (band, share) in ascending {
            if left < share {
                return band;
            }
            left -= share;
        }
        Band::default()
    }
}
