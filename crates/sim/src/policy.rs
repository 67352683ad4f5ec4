//! Policies between clients and engines: one trait, five implementations.
//!
//! The world reports events to a policy and takes its decisions, one by one, so that the same
//! traffic and the same faults can be run with each of them. A policy knows only what a gateway
//! could know: never the output length of a request that has not ended, never the state of an
//! engine beyond what the engine says of itself.

pub mod batch;
pub mod direct;
pub mod plain_queue;
pub mod routed;
pub mod tidegate;

use flow::{AutoBound, Band, BlockHasher, PromptBlocks, Span, Time};

use crate::engine::EngineReading;
use crate::trace::SEGMENT_TOKENS;

/// The core counts four bytes of text as a token.
const BYTES_PER_TOKEN: usize = 4;

/// Requests are numbered in the order in which they arrive.
pub type RequestId = u32;
/// Engines are numbered by their place in the setup.
pub type EngineId = u32;

/// A tenant that shares the service with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its share of service relative to others.
    pub weight: f64,
}

/// A request as a gateway sees it.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its number.
    pub request: RequestId,
    /// The number of the tenant it belongs to.
    pub tenant: u32,
    /// Its tenant.
    pub known: &'a Tenant,
    /// Its priority.
    pub band: Band,
    /// The length of its prompt in tokens.
    pub prompt: u32,
    /// Ids of its prompt's segments, as in [`crate::trace::TraceRow::prefix`].
    pub prefix: &'a [u64],
    /// How long it may wait, where that differs from the policy's own setting.
    pub ttl: Option<Span>,
}

/// The tokens that a request has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Its prompt.
    pub prompt: u32,
    /// What came back.
    pub output: u32,
}

/// The unit of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// One for each request.
    Requests,
    /// Prompt tokens plus twice the output tokens.
    #[default]
    Tokens,
}

/// How an attempt at an engine failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Before the first token: the request may be tried again.
    Untouched,
    /// Before the first token, and it has been tried often enough: the request ends.
    Exhausted,
    /// After the first token: the answer is broken off, the request ends.
    BrokenOff(Spent),
}

/// A decision of a policy about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes to an engine.
    Send {
        /// The request.
        request: RequestId,
        /// Where it goes.
        engine: EngineId,
        /// What its tenant is charged for now, in the policy's unit of cost.
        charged: u64,
    },
    /// It will not be served.
    Refuse {
        /// The request.
        request: RequestId,
        /// The reason.
        why: RefusalReason,
        /// When a retry is likely to succeed, where the policy predicts it.
        retry_after: Option<Span>,
    },
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalReason {
    /// There was no room for it to wait.
    Full,
    /// It would have had to wait too long, or may not wait at all.
    Hopeless,
    /// It waited as long as it may.
    Expired,
    /// A request of a higher band needed its place.
    Preempted,
    /// No engine could take it.
    NoEngine,
}

/// A policy between clients and engines.
pub trait Policy {
    /// A request arrives.
    fn offer(&mut self, offer: &Offer<'_>, now: Time);

    /// The first token of a request has come.
    fn started(&mut self, request: RequestId, now: Time);

    /// A request has produced this many output tokens so far.
    fn streamed(&mut self, request: RequestId, tokens: u32, now: Time);

    /// The engine says how much of a request's prompt it found in its cache. The end follows.
    fn cached(&mut self, _request: RequestId, _tokens: u32, _now: Time) {}

    /// A request has been answered in full, and this is what it took.
    fn ended(&mut self, request: RequestId, spent: Spent, now: Time);

    /// The client has gone, wherever its request stands.
    fn gave_up(&mut self, request: RequestId, spent: Spent, now: Time);

    /// An attempt at an engine has failed.
    fn failed(&mut self, request: RequestId, failure: Failure, now: Time);

    /// Which engines take requests now.
    fn engines(&mut self, ready: &[bool], now: Time);

    /// What an engine says of itself.
    fn reading(&mut self, engine: EngineId, reading: &EngineReading, now: Time);

    /// When [`Policy::wake`] must be called next, if nothing else happens before.
    fn next_wake(&self) -> Option<Time>;

    /// Time has passed.
    fn wake(&mut self, now: Time);

    /// The next decision. Call until there is none, after everything else.
    fn decide(&mut self) -> Option<Decision>;

    /// Whether [`Policy::streamed`] must be called for every token.
    fn follows_streams(&self) -> bool {
        false
    }

    /// What this policy charges its tenants in.
    fn cost(&self) -> Cost {
        Cost::Tokens
    }

    /// How far a tenant may go ahead of its turn, in cost at weight 1.
    fn slack(&self) -> u64 {
        0
    }

    /// How many engines the demand needs, where the policy measures it.
    fn engines_wanted(&mut self, _now: Time) -> Option<u32> {
        None
    }

    /// How many requests it lets an engine have at once, where it has such a limit.
    fn limit(&self, _engine: EngineId) -> Option<f64> {
        None
    }

    /// What keeps an engine closed now, under a stock that tunes itself.
    fn binding(&self, _engine: EngineId) -> Option<AutoBound> {
        None
    }
}

// === impl Offer ===

impl Offer<'_> {
    /// The blocks of its prompt, whose segments have ids: text that only the id decides.
    pub fn blocks(&self) -> PromptBlocks {
        let mut hasher = BlockHasher::new(0);
        let (mut text, mut left) = (Vec::new(), self.prompt as usize);
        for id in self.prefix {
            let tokens = left.min(SEGMENT_TOKENS as usize);
            left -= tokens;
            text.extend(id.to_le_bytes().into_iter().cycle().take(tokens * BYTES_PER_TOKEN));
        }
        hasher.add(&text);
        hasher.finish()
    }
}

// === impl Decision ===

impl Decision {
    /// A refusal that predicts nothing.
    fn refuse(request: RequestId, why: RefusalReason) -> Self {
        Self::Refuse { request, why, retry_after: None }
    }
}

// === impl Cost ===

impl Cost {
    /// What this much use costs. Output counts twice: a token takes about twice as long to produce
    /// as to read (the weights of Sheng et al., OSDI 2024).
    pub fn of(self, spent: Spent) -> u64 {
        match self {
            Self::Requests => 1,
            Self::Tokens => u64::from(spent.prompt) + 2 * u64::from(spent.output),
        }
    }
}

#[cfg(test)]
mod tests;
