//! The end of a request: reports its cost to the core and its outcome to the log, each exactly
//! once.

use flow::{BackendId, Time, Usage};

use super::{Request, RequestRecord};
use crate::config::settings::Cost;
use crate::ingress::BYTES_PER_TOKEN;
use crate::observe::ChargedTokens;
use crate::reply::{Fault, Refused};
use crate::upstream::InnerError;

/// The tokens of a request, as its backend reported them or as they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenUsage {
    pub(crate) prompt: Option<u64>,
    pub(crate) output: Option<u64>,
    /// Those of the prompt that the backend had in its cache.
    pub(crate) cached: Option<u64>,
    /// Whether the output was counted on the way, because the backend did not report it.
    pub(crate) counted: bool,
    /// The output by the length of the response, for a response in one piece without a report.
    pub(crate) by_length: Option<u64>,
    pub(crate) told: Told,
}

/// What a response says, whatever its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Told {
    #[default]
    Nothing,
    Answer,
    /// It is an error, or ends with one.
    Error(InnerError),
}

/// The most tokens beyond the bytes of a request or of a response: those of templates, images and
/// stored conversations in a prompt, and of a response those that no client sees. It is the length
/// of the longest prompts that models take. It bounds what a backend at fault can report.
const UNSEEN_MAX: u64 = 1 << 20;

/// What a request costs as far as nothing was reported or counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unreported {
    /// Its estimate: its work was done.
    Estimate,
    /// Its prompt, once a backend has worked for it.
    Owed,
}

/// The record of a request whose response its client may still read. Dropped, it says that the
/// client left.
#[derive(Debug)]
pub(crate) struct DeliveryRecord {
    record: RequestRecord,
    /// When the backend ended its part.
    ended: Time,
}

// === impl DeliveryRecord ===

impl DeliveryRecord {
    pub(crate) fn new(record: RequestRecord) -> Self {
        let ended = record.now();
        Self { record, ended }
    }

    /// The client has read the response.
    pub(crate) fn succeed(self) {
        self.record.succeed(self.ended);
    }

    /// The client left the response unread, which was cut.
    pub(crate) fn stall(mut self) {
        self.record.stalled();
    }
}

// === impl Told ===

impl Told {
    /// An answer, unless something was said before.
    pub(crate) fn or_answer(&mut self) {
        if *self == Self::Nothing {
            *self = Self::Answer;
        }
    }
}

// === impl TokenUsage ===

impl TokenUsage {
    /// What of it counts for a request with these bounds. Nothing is cached that is no prompt: a
    /// prompt whose length only the gateway has estimated counts in full.
    fn within(self, prompt_most: u64, output_most: u64) -> Self {
        let prompt = self.prompt.map(|prompt| prompt.min(prompt_most));
        let output = self.output.map(|output| output.min(output_most));
        let cached = prompt.and_then(|prompt| Some(self.cached?.min(prompt)));
        Self { prompt, output, cached, ..self }
    }
}

// === impl Request ===

impl Request {
    /// Reports the tokens that have come so far.
    pub(crate) fn progressed(&self, tokens: u64) {
        let Some(permit) = &self.permit else { return };
        // The core expects a first token of a stream alone.
        if self.intent.streamed {
            permit.streamed(tokens);
        }
        if self.config.cost == Cost::Tokens {
            let cached = if self.config.charge_cached { 0 } else { self.record.cached_expected };
            permit.charge(self.intent.prompt.saturating_sub(cached).saturating_add(tokens));
        }
    }

    /// Reports that another backend serves the request than was granted.
    pub(crate) fn moved(&self, to: BackendId) {
        if let Some(permit) = &self.permit {
            permit.moved(to);
        }
    }

    /// Tells the fleet that the response came to its end. One that its server failed is broken.
    pub(crate) fn response_ended(&self, told: Told) {
        match self.record.endpoint() {
            Some(_) if self.failed_inside(told) == Some(InnerError::Server) => {
                self.broke_off("a response ended with an error, or said nothing".into());
            }
            Some(endpoint) => self.state.fleet.completed(endpoint),
            None => {}
        }
    }

    /// Whose fault it is that a response with a good status is no answer.
    fn failed_inside(&self, told: Told) -> Option<InnerError> {
        match told {
            Told::Nothing if self.intent.generates => Some(InnerError::Server),
            Told::Error(error) => Some(error),
            _ => None,
        }
        // A read may show the error of a stored response.
        .filter(|_| self.succeeded() && !self.intent.direct)
    }

    /// Tells the fleet that the response broke off, and why.
    pub(crate) fn broke_off(&self, cause: String) {
        if let Some(endpoint) = self.record.endpoint() {
            self.state.fleet.broke_off(endpoint, cause);
        }
    }

    /// Ends the request whose response ended, well or by a fault.
    pub(crate) fn finish(mut self: Box<Self>, tokens: TokenUsage, fault: Option<&Fault>) {
        let Some(fault) = fault else {
            let DeliveryRecord { record, ended } = self.leave_backend(tokens);
            return record.succeed(ended);
        };
        self.settle(tokens, Unreported::Owed);
        self.record.fail(fault);
    }

    /// Ends the request at its backend, whose response is whole. The log waits for its client.
    pub(crate) fn leave_backend(mut self: Box<Self>, tokens: TokenUsage) -> DeliveryRecord {
        let has_failed = self.failed_inside(tokens.told).is_some();
        if has_failed {
            self.record.failed_inside();
        }
        let is_done = self.succeeded() && !has_failed;
        let unreported = if is_done { Unreported::Estimate } else { Unreported::Owed };
        let ended = self.settle(tokens, unreported);
        self.record.leave_backend();
        DeliveryRecord { record: self.record, ended }
    }

    /// Ends the request whose client left. The tokens up to then were work and are charged.
    pub(crate) fn abandon(mut self: Box<Self>, tokens: TokenUsage) {
        self.settle(tokens, Unreported::Owed);
    }

    /// Ends the request whose response is not shown. It costs what was estimated.
    pub(crate) fn end_unseen(mut self: Box<Self>) {
        let now = self.settle(TokenUsage::default(), Unreported::Estimate);
        self.record.end_unseen(now);
    }

    /// Ends the request without a response of a backend. It costs its flow nothing, unless a
    /// backend has worked for it: then it costs what a client pays who leaves.
    pub(crate) fn refuse(mut self: Box<Self>, refused: Refused) -> Refused {
        // A permit that is dropped keeps its charge.
        if let Some(permit) = self.permit.take().filter(|_| self.record.owed() == 0) {
            permit.give_up(self.record.now());
        }
        self.record.fail(&refused.fault);
        refused
    }

    /// Reports the end to the core and charges the tenant. Returns the moment.
    fn settle(&mut self, tokens: TokenUsage, unreported: Unreported) -> Time {
        let tokens = self.accounted(tokens);
        let usage = self.usage(tokens, unreported);
        let now = self.record.now();
        if let Some(permit) = self.permit.take() {
            permit.settle(usage, now);
        }
        now
    }

    fn succeeded(&self) -> bool {
        (200..300).contains(&self.record.status)
    }

    /// What counts of the tokens of its response.
    fn accounted(&self, tokens: TokenUsage) -> TokenUsage {
        // A stored response repeats the usage of the request that made it.
        if self.intent.direct {
            return TokenUsage::default();
        }
        let by_length = tokens.by_length.filter(|_| self.intent.generates && self.succeeded());
        // A report of nothing beside a text is none.
        let is_measured = tokens.output.unwrap_or(0) == 0 && by_length.is_some();
        let tokens = TokenUsage {
            prompt: tokens.prompt.filter(|prompt| *prompt > 0 || !is_measured),
            output: if is_measured { by_length } else { tokens.output },
            counted: tokens.counted || is_measured,
            by_length: None,
            ..tokens
        };
        // Every token of a text has a byte. The estimate knows the bytes of a compressed prompt.
        let prompt_bytes = self.intent.prompt.saturating_mul(BYTES_PER_TOKEN);
        let unseen = UNSEEN_MAX.saturating_mul(self.intent.choices.max(1));
        tokens.within(
            prompt_bytes.max(self.record.bytes_in).saturating_add(UNSEEN_MAX),
            self.record.bytes_out.saturating_add(unseen),
        )
    }

    /// The tokens that the request is charged with, for this prompt.
    fn charged(&self, prompt: Option<u64>, tokens: TokenUsage) -> Option<u64> {
        let cached = tokens.cached.filter(|_| !self.config.charge_cached).unwrap_or(0);
        // Work that generates nothing has a prompt alone.
        let output = tokens.output.or((!self.intent.generates).then_some(0))?;
        Some(prompt?.saturating_sub(cached).saturating_add(output))
    }

    fn usage(&mut self, tokens: TokenUsage, unreported: Unreported) -> Usage {
        // Where there was output, there was a prompt.
        let prompt = tokens.prompt.or(tokens.output.map(|_| self.intent.prompt));
        self.pay(prompt, tokens, unreported);
        let owed = (unreported == Unreported::Owed).then(|| self.record.owed());
        self.record.prompt_tokens = prompt.or(owed.filter(|owed| *owed > 0));
        self.record.output_tokens = tokens.output;
        self.record.cached_tokens = tokens.cached;
        self.record.usage_estimated = tokens.counted || self.record.prompt_tokens != tokens.prompt;
        if let (Some(permit), Some(cached), Some(prompt)) =
            (&self.permit, tokens.cached, tokens.prompt)
        {
            permit.cached(cached, prompt);
        }
        if let (Some(model), Some(output)) = (self.model, tokens.output) {
            self.state.outputs.note(model, output / self.intent.choices.max(1));
        }
        match (self.config.cost, self.charged(prompt, tokens)) {
            (Cost::Tokens, Some(charged)) => Usage::Cost(charged.max(1)),
            _ if self.record.status >= 400 => Usage::Failed,
            _ => Usage::Unknown,
        }
    }

    /// Charges the tenant: with the estimate, or with what is owed, as far as nothing is known.
    fn pay(&mut self, prompt: Option<u64>, tokens: TokenUsage, unreported: Unreported) {
        let intent = &*self.intent;
        let (most_prompt, most_output) = match unreported {
            Unreported::Estimate if !intent.direct => {
                // Work that generates nothing has a prompt alone.
                let is_all = prompt.is_some() && !intent.generates;
                let output = intent.tokens.saturating_sub(intent.prompt);
                (intent.prompt, if is_all { 0 } else { output })
            }
            _ => (self.record.owed(), 0),
        };
        let is_known = prompt.is_some() || unreported == Unreported::Owed || intent.direct;
        let charged = ChargedTokens {
            prompt: prompt.unwrap_or(most_prompt),
            cached: tokens.cached.unwrap_or(0),
            output: tokens.output.unwrap_or(most_output),
        };
        let total = charged.total(self.config.charge_cached);
        self.record.pay(charged, is_known.then_some(total));
    }
}
