//! Batch work beside interactive requests, as the dispatcher does it.
//!
//! Interactive requests go to their engine at once. Best-effort requests are batch work: they wait
//! here until a fixed budget has room for one, or until the start limiter lets one begin. The
//! limiter is the gateway's own; before it stands the simplest gate, four fifths of the KV cache.

use std::collections::VecDeque;

use flow::start_limiter::{StartAllowance, StartLimiter, StartLimiterSettings, StartLoad};
use flow::{Band, Span, Time};

use super::direct::Direct;
use super::{Decision, EngineId, Failure, Offer, Policy, RequestId, Spent};
use crate::engine::EngineReading;

/// How often the limiter is asked while batch work waits and no rest is due.
const POLL: Span = Span::from_millis(20);
/// The share of the KV cache that requests may fill before batch work waits.
const KV_SHARE: f64 = 0.8;
/// The weight of one observed start in the moving mean, as in the gateway.
const START_WEIGHT: f64 = 0.1;
/// The seconds that a start is taken to last before one was observed.
const START_UNKNOWN: f64 = 0.5;
/// The output tokens that a request is taken to need before one has completed.
const OUTPUT_UNKNOWN: f64 = 100.0;

/// What releases batch work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Release {
    /// At most this many batch requests in flight.
    Budget(u32),
    /// The start limiter with this factor of rest after each start.
    StartLimiter(StartLimiterSettings),
}

/// Direct traffic with batch work in the gaps. All engines are treated as one.
#[derive(Debug)]
pub struct Batch {
    release: Release,
    limiter: Option<StartLimiter>,
    direct: Direct,
    requests: Vec<Tracked>,
    waiting: VecDeque<RequestId>,
    in_flight: u32,
    /// Interactive requests without a first token.
    unstarted: u32,
    /// When batch requests, whose first tokens the dispatcher does not see, are taken to start.
    presumed: Vec<Time>,
    /// Tokens of the requests in flight, by estimate, and how many the engines' caches hold.
    held: f64,
    kv_tokens: Vec<Option<u64>>,
    /// Moving means of interactive requests: seconds to a first token, prompt tokens.
    start: f64,
    prompt: f64,
    /// Moving means of output tokens: of interactive requests, and of batch work.
    output: [f64; 2],
    poll_at: Time,
}

/// The state of one request.
#[derive(Clone, Copy, Debug)]
struct Tracked {
    batch: bool,
    sent: bool,
    started: bool,
    since: Time,
    prompt: u32,
    held: f64,
}

// === impl Batch ===

impl Batch {
    /// A policy that knows no engine yet.
    pub fn new(release: Release) -> Self {
        let limiter = match release {
            Release::Budget(_) => None,
            Release::StartLimiter(settings) => Some(StartLimiter::new(settings)),
        };
        Self {
            release,
            limiter,
            direct: Direct::new(),
            requests: Vec::new(),
            waiting: VecDeque::new(),
            in_flight: 0,
            unstarted: 0,
            presumed: Vec::new(),
            held: 0.0,
            kv_tokens: Vec::new(),
            start: START_UNKNOWN,
            prompt: 0.0,
            output: [OUTPUT_UNKNOWN; 2],
            poll_at: Time::ZERO,
        }
    }

    fn send(&mut self, request: RequestId, now: Time) {
        let tracked = &mut self.requests[request as usize];
        tracked.sent = true;
        tracked.since = now;
        tracked.held = f64::from(tracked.prompt) + self.output[usize::from(tracked.batch)];
        self.held += tracked.held;
        self.direct.send(request);
    }

    /// Sends the batch work that may go now.
    fn release(&mut self, now: Time) {
        while let Some(&request) = self.waiting.front() {
            if !self.may_start(request, now) {
                return;
            }
            self.waiting.pop_front();
            self.in_flight += 1;
            self.send(request, now);
            if let Some(limiter) = &mut self.limiter {
                self.presumed.push(now.after(Span::from_secs_f64(self.start)));
                limiter.record_start(now);
                limiter.record_prompt(u64::from(self.requests[request as usize].prompt), now);
                self.poll_at = limiter.opens_at();
            }
        }
    }

    fn may_start(&mut self, request: RequestId, now: Time) -> bool {
        if let Release::Budget(budget) = self.release {
            return self.in_flight < budget;
        }
        if now < self.poll_at {
            return false;
        }
        self.poll_at = now.after(POLL);
        let load = self.start_load(now);
        let fits = self.fits(request);
        let Some(limiter) = &mut self.limiter else { return false };
        limiter.observe(load, now);
        fits && matches!(limiter.allowance(now), StartAllowance::Allowed(_))
    }

    /// Whether the cache has room for one more, where its size is known.
    fn fits(&self, request: RequestId) -> bool {
        let known: Option<u64> = self.kv_tokens.iter().copied().sum();
        let next = f64::from(self.requests[request as usize].prompt) + self.output[1];
        known.is_none_or(|tokens| self.held + next <= KV_SHARE * tokens as f64)
    }

    fn start_load(&mut self, now: Time) -> StartLoad {
        self.presumed.retain(|&starts| starts > now);
        let calm = self.unstarted == 0 && self.presumed.is_empty();
        let start = Some((Span::from_secs_f64(self.start), self.prompt as u64));
        StartLoad { ready: 1, calm: u32::from(calm), start, others: true }
    }

    /// Ends a request wherever it stands.
    fn end(&mut self, request: RequestId, now: Time) {
        let tracked = self.requests[request as usize];
        if tracked.sent {
            self.held -= tracked.held;
            self.in_flight -= u32::from(tracked.batch);
            self.unstarted -= u32::from(!tracked.batch && !tracked.started);
            self.requests[request as usize].sent = false;
        } else {
            self.waiting.retain(|&waiting| waiting != request);
        }
        self.release(now);
    }
}

impl Policy for Batch {
    fn offer(&mut self, offer: &Offer<'_>, now: Time) {
        let batch = offer.band == Band::BestEffort;
        let (prompt, request) = (offer.prompt, offer.request);
        let tracked = Tracked { batch, sent: false, started: false, since: now, prompt, held: 0.0 };
        self.requests.push(tracked);
        if batch {
            self.waiting.push_back(request);
            self.release(now);
            return;
        }
        let weight = if self.prompt == 0.0 { 1.0 } else { START_WEIGHT };
        self.prompt += (f64::from(prompt) - self.prompt) * weight;
        self.unstarted += 1;
        self.send(request, now);
    }

    fn started(&mut self, request: RequestId, now: Time) {
        let tracked = &mut self.requests[request as usize];
        tracked.started = true;
        if !tracked.batch {
            self.unstarted -= 1;
            self.start += (now.since(tracked.since).secs_f64() - self.start) * START_WEIGHT;
        }
        self.release(now);
    }

    fn streamed(&mut self, _request: RequestId, _tokens: u32, _now: Time) {}

    fn ended(&mut self, request: RequestId, spent: Spent, now: Time) {
        let mean = &mut self.output[usize::from(self.requests[request as usize].batch)];
        *mean += (f64::from(spent.output) - *mean) * START_WEIGHT;
        self.end(request, now);
    }

    fn gave_up(&mut self, request: RequestId, _spent: Spent, now: Time) {
        self.end(request, now);
    }

    fn failed(&mut self, request: RequestId, failure: Failure, now: Time) {
        if failure == Failure::Untouched {
            self.direct.send(request);
        } else {
            self.end(request, now);
        }
    }

    fn engines(&mut self, ready: &[bool], now: Time) {
        self.kv_tokens.resize(ready.len(), None);
        self.direct.engines(ready, now);
    }

    fn reading(&mut self, engine: EngineId, reading: &EngineReading, _now: Time) {
        self.kv_tokens[engine as usize] = reading.kv_tokens;
    }

    fn next_wake(&self) -> Option<Time> {
        let polls = self.limiter.is_some() && !self.waiting.is_empty();
        polls.then_some(self.poll_at)
    }

    fn wake(&mut self, now: Time) {
        self.release(now);
    }

    fn decide(&mut self) -> Option<Decision> {
        self.direct.decide()
    }
}
