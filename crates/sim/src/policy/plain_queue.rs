//! A plain bounded queue in front of the engines, with the same number in flight at each.
//!
//! The orders are the simplest ones: first come, first served; one request of each tenant in turn;
//! the highest band first. They share the queue's limits with the fair queue, so
//! that a comparison shows the order alone.

use std::collections::{BTreeSet, VecDeque};

use flow::{BANDS, Span, Time};

use super::{Cost, Decision, EngineId, Failure, Offer, Policy, RefusalReason, RequestId, Spent};
use crate::engine::EngineReading;

/// Which request goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// The first to arrive.
    Fifo,
    /// One request of each tenant in turn.
    RoundRobin,
    /// The highest band, and the first to arrive inside it.
    StrictBands,
}

/// The limits of a plain queue.
#[derive(Clone, Copy, Debug)]
pub struct PlainQueueConfig {
    /// Which request goes next.
    pub order: QueueOrder,
    /// The most requests in flight at each engine.
    pub watermark: u32,
    /// The most requests that wait.
    pub capacity: usize,
    /// How long a request may wait.
    pub ttl: Span,
}

/// A plain bounded queue.
#[derive(Debug)]
pub struct PlainQueue {
    config: PlainQueueConfig,
    ready: Vec<bool>,
    in_flight: Vec<u32>,
    /// When each engine was last sent something, as a count of what was sent; spreads ties.
    sent_at: Vec<u64>,
    sent: u64,
    requests: Vec<Place>,
    /// Waiting requests by tenant, by band, or all in one. Requests that left early are still in
    /// them.
    lines: Vec<VecDeque<RequestId>>,
    /// The lines that are not empty, in the order of their turns.
    turns: VecDeque<usize>,
    deadlines: BTreeSet<(Time, RequestId)>,
    decisions: VecDeque<Decision>,
}

/// The state of each request.
#[derive(Clone, Copy, Debug)]
struct Place {
    state: State,
    line: u32,
    prompt: u32,
    deadline: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    At(EngineId),
    Over,
}

// === impl PlainQueue ===

impl PlainQueue {
    /// A queue that knows no engine yet.
    pub fn new(config: PlainQueueConfig) -> Self {
        Self {
            config,
            ready: Vec::new(),
            in_flight: Vec::new(),
            sent_at: Vec::new(),
            sent: 0,
            requests: Vec::new(),
            lines: Vec::new(),
            turns: VecDeque::new(),
            deadlines: BTreeSet::new(),
            decisions: VecDeque::new(),
        }
    }

    fn line_of(&self, offer: &Offer<'_>) -> usize {
        match self.config.order {
            QueueOrder::Fifo => 0,
            QueueOrder::RoundRobin => offer.tenant as usize,
            // The lines stand in the order of their bands, the highest first.
            QueueOrder::StrictBands => BANDS - 1 - offer.band as usize,
        }
    }

    fn wait(&mut self, request: RequestId) {
        let Place { line, deadline, .. } = self.requests[request as usize];
        self.requests[request as usize].state = State::Waiting;
        self.deadlines.insert((deadline, request));
        let at = line as usize;
        if self.lines.len() <= at {
            self.lines.resize_with(at + 1, VecDeque::new);
        }
        if self.lines[at].is_empty() {
            self.turns.push_back(at);
        }
        self.lines[at].push_back(request);
    }

    /// Sends what can go.
    fn drain(&mut self) {
        while let Some(engine) = self.engine_with_room() {
            let Some(request) = self.pop() else { return };
            let place = &mut self.requests[request as usize];
            place.state = State::At(engine);
            self.deadlines.remove(&(place.deadline, request));
            let spent = Spent { prompt: place.prompt, output: 0 };
            self.sent += 1;
            self.in_flight[engine as usize] += 1;
            self.sent_at[engine as usize] = self.sent;
            let charged = Cost::Tokens.of(spent);
            self.decisions.push_back(Decision::Send { request, engine, charged });
        }
    }

    /// The ready engine with the least in flight that is below its limit.
    fn engine_with_room(&self) -> Option<EngineId> {
        let room = |&at: &usize| self.ready[at] && self.in_flight[at] < self.config.watermark;
        let least = |&at: &usize| (self.in_flight[at], self.sent_at[at]);
        (0..self.ready.len()).filter(room).min_by_key(least).map(|at| at as EngineId)
    }

    /// The request whose turn it is, taken out of its line.
    fn pop(&mut self) -> Option<RequestId> {
        loop {
            let turn = match self.config.order {
                QueueOrder::StrictBands => {
                    (0..self.turns.len()).min_by_key(|&turn| self.turns[turn]).unwrap_or_default()
                }
                _ => 0,
            };
            let at = *self.turns.get(turn)?;
            let request = self.lines[at].pop_front();
            self.turns.remove(turn);
            let waiting =
                request.filter(|&request| self.requests[request as usize].state == State::Waiting);
            if !self.lines[at].is_empty() {
                // A request that left early takes no turn from the others of its line.
                match waiting {
                    Some(_) => self.turns.push_back(at),
                    None => self.turns.push_front(at),
                }
            }
            if waiting.is_some() {
                return waiting;
            }
        }
    }

    /// Ends a request; says whether it was at an engine.
    fn end(&mut self, request: RequestId) -> bool {
        let place = &mut self.requests[request as usize];
        match std::mem::replace(&mut place.state, State::Over) {
            State::At(engine) => {
                self.in_flight[engine as usize] -= 1;
                return true;
            }
            State::Waiting => _ = self.deadlines.remove(&(place.deadline, request)),
            State::Over => {}
        }
        false
    }
}

impl Policy for PlainQueue {
    fn offer(&mut self, offer: &Offer<'_>, now: Time) {
        let deadline = now.after(offer.ttl.unwrap_or(self.config.ttl));
        let (line, prompt) = (self.line_of(offer) as u32, offer.prompt);
        self.requests.push(Place { state: State::Over, line, prompt, deadline });
        let request = offer.request;
        if self.deadlines.len() >= self.config.capacity && self.engine_with_room().is_none() {
            self.decisions.push_back(Decision::refuse(request, RefusalReason::Full));
            return;
        }
        self.wait(request);
        self.drain();
    }

    fn started(&mut self, _request: RequestId, _now: Time) {}

    fn streamed(&mut self, _request: RequestId, _tokens: u32, _now: Time) {}

    fn ended(&mut self, request: RequestId, _spent: Spent, _now: Time) {
        self.end(request);
        self.drain();
    }

    fn gave_up(&mut self, request: RequestId, _spent: Spent, _now: Time) {
        if self.end(request) {
            self.drain();
        }
    }

    fn failed(&mut self, request: RequestId, failure: Failure, _now: Time) {
        self.end(request);
        if failure == Failure::Untouched {
            self.wait(request);
        }
        self.drain();
    }

    fn engines(&mut self, ready: &[bool], _now: Time) {
        self.ready.clear();
        self.ready.extend_from_slice(ready);
        self.in_flight.resize(ready.len(), 0);
        self.sent_at.resize(ready.len(), 0);
        self.drain();
    }

    fn reading(&mut self, _engine: EngineId, _reading: &EngineReading, _now: Time) {}

    fn next_wake(&self) -> Option<Time> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    fn wake(&mut self, now: Time) {
        while let Some(&(deadline, request)) = self.deadlines.first() {
            if deadline > now {
                return;
            }
            self.end(request);
            self.decisions.push_back(Decision::refuse(request, RefusalReason::Expired));
        }
    }

    fn decide(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    fn limit(&self, _engine: EngineId) -> Option<f64> {
        Some(f64::from(self.config.watermark))
    }
}
