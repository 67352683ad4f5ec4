//! No queue: every request goes at once to the engine that a rule of a known router chooses.
//!
//! The rules and their thresholds are those that the routers have by default. Requests wait inside
//! the engines.

use std::collections::VecDeque;

use flow::{PrefixIndex, Time};

use super::{Decision, EngineId, Failure, Offer, Policy, RefusalReason, RequestId, Spent};
use crate::engine::EngineReading;

/// Blocks of a prompt that a router remembers of each engine (llm-d's default).
const BLOCKS_MAX: u32 = 31_250;
/// llm-d: an engine with this share of the prompt is preferred,
const AFFINITY_SHARE: f64 = 0.8;
/// unless a cold engine would start this much sooner,
const AFFINITY_SECS: f64 = 18.0;
/// at this many prompt tokens a second.
const PREFILL_RATE: f64 = 16_000.0;
/// SGLang's router: an engine with more than this share of the prompt is preferred,
const TREE_SHARE: f64 = 0.3;
/// unless the loads differ by more than this many requests
const UNBALANCED_BY: u32 = 64;
/// and by more than this factor.
const UNBALANCED_TIMES: f64 = 1.5;

/// How an engine is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingRule {
    /// The fewest requests.
    LeastLoad,
    /// The fewest tokens among the engines that have most of the prompt (llm-d).
    Affinity,
    /// The engine that has most of the prompt while the loads are balanced (SGLang's router).
    BalancedTree,
}

/// A router without a queue.
#[derive(Debug)]
pub struct Routed {
    rule: RoutingRule,
    engines: Vec<Believed>,
    /// By request: the engine it is at, and its blocks and tokens.
    requests: Vec<Sent>,
    sent: u64,
    decisions: VecDeque<Decision>,
}

/// What the router believes of an engine.
#[derive(Debug)]
struct Believed {
    ready: bool,
    requests: u32,
    tokens: u64,
    prefixes: PrefixIndex,
    /// When something was sent last, as a count of what was sent; spreads ties.
    sent_at: u64,
}

#[derive(Debug)]
struct Sent {
    engine: Option<EngineId>,
    blocks: Vec<u64>,
    tokens: u64,
}

// === impl Routed ===

impl Routed {
    /// A router that knows no engine yet.
    pub fn new(rule: RoutingRule) -> Self {
        let (engines, requests) = (Vec::new(), Vec::new());
        Self { rule, engines, requests, sent: 0, decisions: VecDeque::new() }
    }

    fn send(&mut self, request: RequestId) {
        let sent = &self.requests[request as usize];
        let Some(at) = self.choose(&sent.blocks) else {
            self.decisions.push_back(Decision::refuse(request, RefusalReason::NoEngine));
            return;
        };
        self.sent += 1;
        let engine = &mut self.engines[at];
        engine.requests += 1;
        engine.tokens += sent.tokens;
        engine.prefixes.enter(&sent.blocks);
        engine.sent_at = self.sent;
        let engine = at as EngineId;
        self.requests[request as usize].engine = Some(engine);
        self.decisions.push_back(Decision::Send { request, engine, charged: 0 });
    }

    fn choose(&self, blocks: &[u64]) -> Option<usize> {
        let by_requests = |at: &usize| (self.engines[*at].requests, self.engines[*at].sent_at);
        let least = self.ready().min_by_key(by_requests)?;
        match self.rule {
            RoutingRule::LeastLoad => Some(least),
            RoutingRule::Affinity => self.by_affinity(blocks),
            RoutingRule::BalancedTree => self.by_tree(blocks, least),
        }
    }

    fn by_affinity(&self, blocks: &[u64]) -> Option<usize> {
        let by_tokens = |at: &usize| (self.engines[*at].tokens, self.engines[*at].sent_at);
        let cold = self.ready().min_by_key(by_tokens)?;
        let matching = self.ready().filter(|at| self.share(*at, blocks) >= AFFINITY_SHARE);
        let Some(warm) = matching.min_by_key(by_tokens) else { return Some(cold) };
        let longer = self.engines[warm].tokens - self.engines[cold].tokens;
        let is_worth_it = longer as f64 / PREFILL_RATE <= AFFINITY_SECS;
        Some(if is_worth_it { warm } else { cold })
    }

    fn by_tree(&self, blocks: &[u64], least: usize) -> Option<usize> {
        let most = self.ready().map(|at| self.engines[at].requests).max()?;
        let fewest = self.engines[least].requests;
        let is_unbalanced =
            most - fewest > UNBALANCED_BY && f64::from(most) > UNBALANCED_TIMES * f64::from(fewest);
        if is_unbalanced {
            return Some(least);
        }
        let held = |at: &usize| self.engines[*at].prefixes.held_of(blocks);
        let best = self.ready().max_by_key(held)?;
        if self.share(best, blocks) > TREE_SHARE {
            return Some(best);
        }
        self.ready().min_by_key(|at| (self.engines[*at].prefixes.len(), self.engines[*at].sent_at))
    }

    fn ready(&self) -> impl Iterator<Item = usize> {
        (0..self.engines.len()).filter(|&at| self.engines[at].ready)
    }

    /// The share of a prompt that an engine is believed to have.
    fn share(&self, at: usize, blocks: &[u64]) -> f64 {
        self.engines[at].prefixes.held_of(blocks) as f64 / blocks.len().max(1) as f64
    }

    fn end(&mut self, request: RequestId) {
        let sent = &mut self.requests[request as usize];
        let Some(engine) = sent.engine.take() else { return };
        let engine = &mut self.engines[engine as usize];
        engine.requests -= 1;
        engine.tokens -= sent.tokens;
    }
}

impl Policy for Routed {
    fn offer(&mut self, offer: &Offer<'_>, _now: Time) {
        let blocks = offer.blocks().hashes().to_vec();
        self.requests.push(Sent { engine: None, blocks, tokens: u64::from(offer.prompt) });
        self.send(offer.request);
    }

    fn started(&mut self, _request: RequestId, _now: Time) {}

    fn streamed(&mut self, _request: RequestId, _tokens: u32, _now: Time) {}

    fn ended(&mut self, request: RequestId, _spent: Spent, _now: Time) {
        self.end(request);
    }

    fn gave_up(&mut self, request: RequestId, _spent: Spent, _now: Time) {
        self.end(request);
    }

    fn failed(&mut self, request: RequestId, failure: Failure, _now: Time) {
        self.end(request);
        if failure == Failure::Untouched {
            self.send(request);
        }
    }

    fn engines(&mut self, ready: &[bool], _now: Time) {
        while self.engines.len() < ready.len() {
            let prefixes = PrefixIndex::new(BLOCKS_MAX);
            let engine = Believed { ready: false, requests: 0, tokens: 0, prefixes, sent_at: 0 };
            self.engines.push(engine);
        }
        for (engine, &ready) in self.engines.iter_mut().zip(ready) {
            engine.ready = ready;
        }
    }

    fn reading(&mut self, _engine: EngineId, _reading: &EngineReading, _now: Time) {}

    fn next_wake(&self) -> Option<Time> {
        None
    }

    fn wake(&mut self, _now: Time) {}

    fn decide(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }
}
