//! The sections `log` and `traces`.

use crate::config::{resolve, sections};

/// The log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Whether each request gets a line.
    pub access: bool,
    /// Whether each choice of a backend gets lines.
    pub decisions: bool,
    /// The format of lines.
    pub format: LogFormat,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Where and how traces are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The URL of the receiver.
    pub endpoint: String,
    /// How the receiver is spoken to.
    pub protocol: TraceProtocol,
    /// The share of requests that are traced.
    pub sample_ratio: f64,
    /// Whether a client decides by its `traceparent`.
    pub follow_parent: bool,
    /// The name of the service in the spans.
    pub service_name: String,
    /// The most traces that wait to be sent.
    pub queue_max: usize,
}

/// How traces are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceProtocol {
    /// HTTP with protobuf.
    Http,
    /// gRPC.
    Grpc,
}

// === impl Log ===

impl Default for Log {
    fn default() -> Self {
        resolve::defaults(&sections::LOG, resolve::server::log)
    }
}
