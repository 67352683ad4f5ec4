//! W04: what the order `workload` adds to the waits of workloads that send alike.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::fixture::{Fixture, limited_to};
use crate::{Ask, Event, FlowClass, Order, Settings, Span, Ticket, Time, Usage, Verdict, Workload};

const PLACES: f64 = 8.0;
const WORKLOADS: usize = 1000;
const REQUESTS: usize = 60_000;
const TAKES: Span = Span::from_nanos(350_000);
/// From the end of a response to the next request of its client.
const BETWEEN: Span = Span::from_nanos(50_000);

/// Clients that send again when they have a response: one request of each workload in turn.
struct ClosedLoop {
    fixture: Fixture,
    /// When a client sends next, and when a response ends.
    sends: BinaryHeap<Reverse<(Time, usize)>>,
    ends: BinaryHeap<Reverse<(Time, Ticket)>>,
    /// The client of each live ask, and when it sent.
    live: BTreeMap<Ticket, (usize, Time)>,
    next_workload: usize,
    waits: Vec<u64>,
}

// === impl ClosedLoop ===

impl ClosedLoop {
    fn new(order: Order, clients: usize) -> Self {
        let ttl = Span::from_secs(9999);
        let default_class = FlowClass { capacity: 2000, ttl, ..FlowClass::default() };
        let settings =
            Settings { order, total_capacity: 2000, default_class, ..limited_to(PLACES) };
        Self {
            fixture: Fixture::new(settings, 1),
            sends: (0..clients)
                .map(|client| Reverse((Time::from_nanos(client as u64), client)))
                .collect(),
            ends: BinaryHeap::new(),
            live: BTreeMap::new(),
            next_workload: 0,
            waits: Vec::new(),
        }
    }

    fn send(&mut self, client: usize) {
        let now = self.fixture.now;
        let name = format!("load-{}", self.next_workload % WORKLOADS);
        self.next_workload += 1;
        let id = self.fixture.gate.workload(&name, now);
        let ask = Ask { workload: Workload { id, criticality: 3 }, ..self.fixture.ask("flow") };
        match self.fixture.gate.offer(ask, now) {
            Verdict::Granted { ticket, .. } => self.begin(ticket, (client, now)),
            Verdict::Queued { ticket } => _ = self.live.insert(ticket, (client, now)),
            verdict @ Verdict::Refused { .. } => panic!("{verdict:?}"),
        }
    }

    fn begin(&mut self, ticket: Ticket, (client, sent): (usize, Time)) {
        let now = self.fixture.now;
        self.live.insert(ticket, (client, sent));
        self.waits.push(now.since(sent).nanos());
        self.ends.push(Reverse((now.after(TAKES), ticket)));
    }

    fn step(&mut self) {
        let sends = self.sends.peek().map(|Reverse((at, _))| *at);
        let ends = self.ends.peek().map(|Reverse((at, _))| *at);
        if ends.is_none_or(|ends| sends.is_some_and(|sends| sends <= ends)) {
            let Reverse((at, client)) = self.sends.pop().unwrap();
            self.fixture.now = at;
            return self.send(client);
        }
        let Reverse((at, ticket)) = self.ends.pop().unwrap();
        self.fixture.now = at;
        let (client, _) = self.live.remove(&ticket).unwrap();
        self.fixture.gate.settle(ticket, Usage::Unknown, at).unwrap();
        self.sends.push(Reverse((at.after(BETWEEN), client)));
        while let Some(Event::Granted { ticket, .. }) = self.fixture.gate.poll_event() {
            let known = self.live[&ticket];
            self.begin(ticket, known);
        }
    }

    /// The 99th percentile of the waits, in milliseconds.
    fn p99(mut self) -> f64 {
        while self.waits.len() < REQUESTS {
            self.step();
        }
        self.waits.sort_unstable();
        self.waits[REQUESTS * 99 / 100] as f64 / 1e6
    }
}

/// Workloads that send alike differ by a request at most, which weighs as 5 ms of waiting.
#[test]
fn w04_workloads_that_send_alike_wait_at_most_five_milliseconds_longer() {
    for clients in [64, 1000] {
        let [fifo, workload] =
            [Order::Fifo, Order::Workload].map(|order| ClosedLoop::new(order, clients).p99());
        eprintln!("{clients} clients: p99 of the wait {fifo:.2} ms and {workload:.2} ms");
        assert!(workload - fifo <= 5.0, "{clients} clients: {fifo} ms and {workload} ms");
    }
}
