//! The clients: when they send, who they are, and when they have had enough.

use std::collections::BTreeMap;

use flow::Band;

use super::agenda::Event;
use super::{Bands, Open, Source, Stage, Tenancy, World};
use crate::arrivals::Request;
use crate::dice::Dice;
use crate::gate::{Offer, RequestId, Tenant};
use crate::measure::{Arrival, Outcome};

/// A source with the request that comes next.
pub(super) struct Tap {
    source: Source,
    next: Option<Request>,
    dice: Dice,
    /// The tenants of its clients, as far as they have been seen.
    tenants: BTreeMap<u32, u32>,
}

// === impl Tap ===

impl Tap {
    pub(super) fn all(sources: Vec<Source>, seed: u64) -> Vec<Self> {
        let dice = Dice::new(seed);
        let tap = |(at, source): (usize, Source)| Self {
            source,
            next: None,
            dice: dice.fork(&format!("bands of source {at}")),
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
        let tap = &mut self.taps[at];
        let end = self.rules.arrivals_end;
        tap.next = tap.source.arrivals.next().filter(|request| request.at < end);
        if let Some(request) = &tap.next {
            self.agenda.add(request.at.max(self.now), Event::Arrive(at as u32));
        }
    }

    pub(super) fn arrive(&mut self, at: usize) {
        let Some(arrived) = self.taps[at].next.take() else { return };
        let tenant = self.tenant_of(at, arrived.client);
        let tap = &mut self.taps[at];
        let band = tap.source.bands.draw(&mut tap.dice);
        let (patience, ttl) = (tap.source.patience, tap.source.ttl);
        let Request { prompt, output, prefix, .. } = arrived;
        let known = &self.tenants[tenant as usize];
        let arrival = Arrival { tenant, band, prompt, output };
        let request = self.recorder.arrived(arrival, known.weight, self.now);
        self.open.push(Open { stage: Stage::Waiting, prefix });
        self.open_count += 1;
        if let Some(patience) = patience {
            self.agenda.add(self.now.after(patience), Event::GiveUp(request));
        }
        self.gate.offer(&Offer { request, tenant, known, band, prompt, ttl }, self.now);
        self.obey();
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
            self.agenda.add(arrives, Event::Abort(request, engine));
        }
        self.close(request, Outcome::GaveUp, None);
        self.gate.gave_up(request, spent, self.now);
        self.obey();
    }

    fn tenant_of(&mut self, at: usize, client: u32) -> u32 {
        let tap = &mut self.taps[at];
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
    fn draw(self, dice: &mut Dice) -> Band {
        let shares = match self {
            Self::Fixed(band) => return band,
            Self::Mixed(shares) => shares,
        };
        let mut left = dice.unit() * shares.iter().sum::<f64>();
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
