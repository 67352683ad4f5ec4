//! The state of one backend in a situation.

use serde::Serialize;

/// One backend.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct BackendCondition {
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) kind: &'static str,
    /// As in `/backends`.
    pub(crate) state: &'static str,
    pub(crate) ready: bool,
    /// Why it is in this state.
    pub(crate) reason: Option<String>,
    pub(crate) returns_in_seconds: Option<f64>,
    /// Whether an operator drains it. A drain by Kubernetes has another end.
    #[serde(skip)]
    pub(crate) drained_by_operator: bool,
    /// Whether its address is one of this gateway, or its name has no address.
    #[serde(skip)]
    pub(crate) is_own_gateway: bool,
    #[serde(skip)]
    pub(crate) lacks_address: bool,
    /// For how long it has given no model list, where its list is unknown.
    #[serde(skip)]
    pub(crate) list_failing_seconds: Option<f64>,
    /// The last failure of a request there.
    pub(crate) last_error: Option<String>,
    pub(crate) models: Vec<String>,
    pub(crate) in_flight: u32,
    pub(crate) stock: u64,
    /// The stock or the number of requests at which it gets no more.
    pub(crate) watermark: f64,
    /// How many requests it runs at once, as configured.
    pub(crate) places: Option<u32>,
    pub(crate) binding: Option<&'static str>,
    pub(crate) first_byte_ms: Option<f64>,
    /// The time to the first byte of streams alone. Other responses begin when they are complete.
    pub(crate) stream_first_byte_ms: Option<f64>,
    /// The time of a whole response, and its length in tokens, where it is known.
    pub(crate) latency_ms: Option<f64>,
    pub(crate) output_tokens: Option<f64>,
    /// What a whole response of that length took at best in the last hour.
    #[serde(skip)]
    pub(crate) quickest_ms: Option<f64>,
    /// Whether these times are of long ago.
    #[serde(skip)]
    pub(crate) stream_first_byte_is_old: bool,
    #[serde(skip)]
    pub(crate) latency_is_old: bool,
    /// The usual time to a first byte, which a few late ones do not change.
    #[serde(skip)]
    pub(crate) usual_first_byte_ms: Option<f64>,
    /// The mean time from token to token of its streams, now and before at a similar load.
    pub(crate) token_ms: Option<f64>,
    pub(crate) usual_token_ms: Option<f64>,
    /// Whether that time was measured long ago.
    #[serde(skip)]
    pub(crate) token_ms_is_old: bool,
    /// How long it has had requests without any sign of life.
    pub(crate) silent_seconds: Option<f64>,
    /// Requests there that are taken back if it stays silent.
    #[serde(skip)]
    pub(crate) watched: u32,
    pub(crate) answered_per_minute: f64,
    pub(crate) failed_per_minute: f64,
    /// Whether its last first bytes may have waited inside the engine, because requests waited in
    /// the gateway when they were asked for.
    #[serde(skip)]
    pub(crate) first_byte_waited: bool,
    /// How many of its last responses are counted, how many of them refused the request, and the
    /// status of the last one that did.
    #[serde(skip)]
    pub(crate) last_responses: u32,
    #[serde(skip)]
    pub(crate) last_refused: u32,
    #[serde(skip)]
    pub(crate) refusal_status: u16,
    /// Whether it has had no request for some seconds.
    #[serde(skip)]
    pub(crate) idle: bool,
    /// Whether it was shown as slow at the last look.
    #[serde(skip)]
    pub(crate) was_slow: bool,
    /// Which time showed that.
    #[serde(skip)]
    pub(crate) slow_by: Option<&'static str>,
    /// Whether its first tokens of late waited inside the engine, by a watermark that is too high.
    #[serde(skip)]
    pub(crate) queued_lately: bool,
    /// The last reading of the engine's own metrics.
    pub(crate) engine: Option<EngineState>,
    pub(crate) metrics_error: Option<String>,
}

/// What an engine says about itself.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct EngineState {
    pub(crate) running: u32,
    pub(crate) running_max: Option<u32>,
    /// Requests in the engine's own queue.
    pub(crate) waiting: u32,
    /// `None` if the engine does not report it.
    pub(crate) kv_used: Option<f64>,
    pub(crate) age_seconds: f64,
}
