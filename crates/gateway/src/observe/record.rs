//! The record of one request, from which metrics, accounts and the access log are made.

use std::sync::Arc;

use flow::{Band, Span, UrgencyTerms};
use http::{HeaderValue, Method};
use store::UsageAmounts;

use super::outcome::{self, UNSEEN};
use crate::config::settings::tenants::Tenant;

/// A longer text of a client is cut in records that are kept.
const TEXT_MAX: usize = 1024;

/// The tokens that a request is charged with, by the accounts and by the quotas of its tenant
/// alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChargedTokens {
    pub(crate) prompt: u64,
    /// Those of the prompt that the backend had in its cache.
    pub(crate) cached: u64,
    pub(crate) output: u64,
}

/// The outcome of a request, for metrics and the access log.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) request_id: HeaderValue,
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The name in the client's certificate; empty without one.
    pub(crate) client: String,
    /// The requested model and its target model.
    pub(crate) model: Option<Arc<str>>,
    pub(crate) target: Option<Arc<str>>,
    pub(crate) flow: String,
    /// Its tenant and the name of its key.
    pub(crate) tenant: Option<Arc<Tenant>>,
    pub(crate) key: Option<Arc<str>>,
    /// Whether it claimed a higher band than its tenant may have.
    pub(crate) band_clamped: bool,
    /// `None` for a request that the gateway answers itself, without the queue.
    pub(crate) band: Option<Band>,
    /// The workload id that the client gave; empty without one.
    pub(crate) workload: String,
    /// The prefix of the id that the log generates instead.
    pub(crate) workload_prefix: &'static str,
    /// From 1 to 5; 0 before the request is read.
    pub(crate) criticality: u8,
    /// Why it had its turn, in the order `workload`. Boxed, because other orders have none.
    pub(crate) urgency: Option<Box<UrgencyTerms>>,
    /// The name of the backend, empty if no backend was reached, and why it was chosen.
    pub(crate) backend: String,
    pub(crate) reason: &'static str,
    pub(crate) boost: f64,
    pub(crate) score: f64,
    pub(crate) queue_penalty: f64,
    pub(crate) attempts: u32,
    /// Whether it waits in the queue.
    pub(crate) waits: bool,
    /// The status that was sent, 499 if the client disconnected, or 0 if it is unknown.
    pub(crate) status: u16,
    /// The error code, or `ok`.
    pub(crate) outcome: &'static str,
    /// Whether it bypassed the queue.
    pub(crate) bypassed: bool,
    /// The wait in the queue; `None` if it was never queued.
    pub(crate) waited: Option<Span>,
    /// The client's objective for the time to a first token.
    pub(crate) slo_ttft: Option<Span>,
    /// From the arrival of the request to the first byte of the response, and to its end.
    pub(crate) first_byte: Option<Span>,
    pub(crate) total: Span,
    /// Whether its response had begun and stood still when its client left.
    pub(crate) stood_still: bool,
    /// From the grant of the backend that served it to the first byte of the response.
    pub(crate) backend_first_byte: Option<Span>,
    /// From the grant of the backend that served it to the end, without waits and failed attempts.
    pub(crate) at_backend: Span,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    /// Those of the prompt that the backend had in its cache.
    pub(crate) cached_tokens: Option<u64>,
    /// Those that were expected to be there when the backend was chosen.
    pub(crate) cached_expected: u64,
    /// Whether the backend did not report them both.
    pub(crate) usage_estimated: bool,
    /// What it is charged with: an estimate as far as nothing was reported or counted.
    pub(crate) charged: ChargedTokens,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

// === impl ChargedTokens ===

impl ChargedTokens {
    /// Those that a quota counts, with cached tokens or without.
    pub(crate) fn total(self, charge_cached: bool) -> u64 {
        let cached = if charge_cached { 0 } else { self.cached };
        self.prompt.saturating_sub(cached).saturating_add(self.output)
    }
}

// === impl Record ===

impl Record {
    /// Cuts the texts that clients choose, for records that are kept after their requests.
    pub(super) fn bound_texts(&mut self) {
        for text in [&mut self.path, &mut self.flow, &mut self.client, &mut self.workload] {
            if text.len() > TEXT_MAX {
                text.truncate(text.floor_char_boundary(TEXT_MAX));
                text.shrink_to_fit();
            }
        }
    }

    /// A record without any value.
    pub(crate) fn empty() -> Self {
        Self {
            request_id: HeaderValue::from_static(""),
            method: Method::GET,
            path: String::new(),
            client: String::new(),
            model: None,
            target: None,
            flow: String::new(),
            tenant: None,
            key: None,
            band_clamped: false,
            band: Some(Band::Normal),
            workload: String::new(),
            workload_prefix: "",
            criticality: 0,
            urgency: None,
            backend: String::new(),
            reason: "",
            boost: 0.0,
            score: 0.0,
            queue_penalty: 0.0,
            attempts: 0,
            waits: false,
            status: 0,
            outcome: "",
            bypassed: false,
            waited: None,
            slo_ttft: None,
            first_byte: None,
            stood_still: false,
            total: Span::ZERO,
            backend_first_byte: None,
            at_backend: Span::ZERO,
            prompt_tokens: None,
            output_tokens: None,
            cached_tokens: None,
            cached_expected: 0,
            usage_estimated: false,
            charged: ChargedTokens::default(),
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// The requested model and its target model; empty without a model.
    pub(crate) fn models(&self) -> (&str, &str) {
        (self.model.as_deref().unwrap_or_default(), self.target.as_deref().unwrap_or_default())
    }

    /// What the request used, for the accounts.
    pub(super) fn amounts(&self) -> UsageAmounts {
        let millis = |span: Span| span.nanos() / 1_000_000;
        let served = self.first_byte.is_some() && !self.backend.is_empty();
        UsageAmounts {
            requests: 1,
            refused: u64::from(!served),
            prompt: self.charged.prompt,
            cached: self.charged.cached,
            completion: self.charged.output,
            engine_ms: if served { millis(self.at_backend) } else { 0 },
            wait_ms: self.waited.map_or(0, millis),
        }
    }

    /// The error code, or that a backend refused it.
    pub(super) fn reason_of_failure(&self) -> &'static str {
        match self.outcome {
            outcome::OK => outcome::REFUSED_BY_BACKEND,
            code => code,
        }
    }

    /// The path, if a backend answered that there is nothing; else empty.
    pub(super) fn path_not_found(&self) -> &str {
        if self.outcome == outcome::OK && self.status == 404 { &self.path } else { "" }
    }

    /// Whether the request was served successfully.
    pub(super) fn succeeded(&self) -> bool {
        self.outcome == outcome::OK && self.status < 300
    }

    /// Whether its wait ended well: it was served, as far as is known.
    pub(super) fn waited_well(&self) -> bool {
        self.succeeded() || self.outcome == UNSEEN
    }
}
