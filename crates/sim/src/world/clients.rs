//! The clients: when they send, their tenants, and when they give up.

use std::collections::BTreeMap;

use flow::{Band, Span, Time};

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
    /// Clients of a closed loop that will send again at a known time.
    returning: u32,
    random: Random,
    think_random: Random,
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
            returning: 0,
            random: random.fork(&format!("bands of source {at}")),
            think_random: random.fork(&format!("thinking of source {at}")),
            tenants: BTreeMap::new(),
        };
        sources.into_iter().enumerate().map(tap).collect()
    }

    /// Whether no request is on its way. A closed loop may send again while one of its own is open.
    pub(super) fn is_dry(&self) -> bool {
        self.next.is_none() && self.returning == 0
    }

    /// The request that is sent now.
    fn take(&mut self) -> Option<Request> {
        if self.source.closed_loop.is_none() {
            return self.next.take();
        }
        self.returning -= 1;
        self.source.arrivals.next()
    }
}

// === impl World ===

impl World<'_> {
    /// Waits for the first request of a source, or for the first one of each client in its loop.
    pub(super) fn open_source(&mut self, at: usize) {
        let Some(clients) = self.sources[at].source.closed_loop else { return self.pull(at) };
        for _ in 0..clients.outstanding {
            self.send_at(at, Some(clients.from).filter(|&from| from < clients.until));
        }
    }

    /// Takes the next request from a source and waits for its time.
    fn pull(&mut self, at: usize) {
        let tap = &mut self.sources[at];
        let end = self.rules.arrivals_end;
        tap.next = tap.source.arrivals.next().filter(|request| request.at < end);
        if let Some(request) = &tap.next {
            self.event_queue.add(request.at.max(self.now), Event::Arrive(at as u32));
        }
    }

    pub(super) fn arrive(&mut self, at: usize) {
        let Some(arrived) = self.sources[at].take() else { return };
        let tenant = self.tenant_of(at, arrived.client);
        let tap = &mut self.sources[at];
        let band = tap.source.bands.draw(&mut tap.random);
        let (patience, ttl) = (tap.source.patience, tap.source.ttl);
        let Request { prompt, output, prefix, .. } = arrived;
        let known = &self.tenants[tenant as usize];
        let arrival = Arrival { tenant, band, prompt, output };
        let request = self.recorder.arrived(arrival, known.weight, self.now);
        let open = Open { stage: Stage::Waiting, source: at as u32, prefix: prefix.clone() };
        self.open.push(open);
        self.open_count += 1;
        if let Some(patience) = patience {
            self.event_queue.add(self.now.after(patience), Event::GiveUp(request));
        }
        let prefix = &prefix;
        self.policy.offer(&Offer { request, tenant, known, band, prompt, prefix, ttl }, self.now);
        self.apply_decisions();
        if self.sources[at].source.closed_loop.is_none() {
            self.pull(at);
        }
    }

    /// The client of a request that was answered, or that it gave up, may send its next one.
    pub(super) fn send_next(&mut self, request: RequestId) {
        let (at, now) = (self.open[request as usize].source as usize, self.now);
        let tap = &mut self.sources[at];
        let Some(clients) = tap.source.closed_loop else { return };
        let next = clients.after_response(now, &mut tap.think_random);
        self.send_at(at, next);
    }

    /// The client of a request that was refused, or that failed, may try again.
    pub(super) fn try_again(&mut self, request: RequestId, retry_after: Option<Span>) {
        let at = self.open[request as usize].source as usize;
        let Some(clients) = self.sources[at].source.closed_loop else { return };
        let next = clients.after_refusal(self.now, retry_after);
        self.send_at(at, next);
    }

    /// A client in a closed loop sends at this time, if it still does.
    fn send_at(&mut self, at: usize, time: Option<Time>) {
        let Some(time) = time.filter(|&time| time < self.rules.arrivals_end) else { return };
        self.sources[at].returning += 1;
        self.event_queue.add(time, Event::Arrive(at as u32));
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
