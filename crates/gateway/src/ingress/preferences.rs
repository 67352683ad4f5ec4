//! What a client prefers, as the headers of its request say it.

use flow::Span;
use http::HeaderValue;

use super::duration;
use super::headers::{ControlHeaders, decimal, is_yes, millis, text};

/// The deadline, the objective and the choice of a backend that a client asks for. A header that
/// cannot be read is passed over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preferences {
    /// The time until the client gives up.
    pub(crate) deadline: Option<Span>,
    /// The same as a time of the system's clock, in milliseconds since 1970.
    pub(crate) deadline_at: Option<u64>,
    /// The client's objective for the time to a first token.
    pub(crate) slo_ttft: Option<Span>,
    /// The longest latency that the backend should have.
    pub(crate) latency_max: Option<Span>,
    pub(crate) latency_critical: bool,
    pub(crate) power_max: Option<f32>,
    pub(crate) power_efficient: bool,
    /// The id of the only backend that should serve the request.
    pub(crate) target_backend: Option<String>,
}

// === impl ControlHeaders ===

impl ControlHeaders<'_> {
    /// `hears_queue`: its client receives bytes while the request waits.
    pub(super) fn preferences(&self, hears_queue: bool) -> Preferences {
        let slo_ttft = self.slo_ttft_ms.into_iter().find_map(millis);
        let target_backend = self.target_backend.and_then(text).filter(|id| !id.is_empty());
        Preferences {
            deadline: self.timeout(hears_queue),
            deadline_at: millis(self.deadline_ms).map(|since| since.nanos() / 1_000_000),
            slo_ttft,
            latency_max: millis(self.latency_max_ms),
            latency_critical: is_yes(self.latency_critical),
            power_max: self.power_max_watts.and_then(text).and_then(decimal),
            power_efficient: is_yes(self.power_efficient),
            target_backend: target_backend.map(str::to_owned),
        }
    }

    /// How long the client waits for a response: the least of all times that its headers state.
    fn timeout(&self, hears_queue: bool) -> Option<Span> {
        let idle = if hears_queue { None } else { self.idle_timeout() };
        // Envoy's 0 is no limit.
        let envoy = self.envoy_timeout_ms.into_iter().filter_map(millis);
        let envoy = envoy.filter(|&limit| limit > Span::ZERO);
        let grpc = self.grpc_timeout.and_then(text).and_then(duration::parse_grpc);
        millis(self.timeout_ms).into_iter().chain(grpc).chain(envoy).chain(idle).min()
    }

    /// The longest time without a byte that OpenAI's libraries accept.
    fn idle_timeout(&self) -> Option<Span> {
        let seconds = |value: Option<&HeaderValue>| value.and_then(text).and_then(decimal::<f64>);
        let read = seconds(self.read_timeout_secs);
        // The library for JavaScript leaves out what is less than a second.
        let whole = seconds(self.timeout_whole_secs).map(|seconds| seconds + 1.0);
        [read, whole].into_iter().flatten().map(Span::from_secs_f64).min()
    }
}
