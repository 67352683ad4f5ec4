//! The backends of `/status`: what the fleet, the core and the counters know of each.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use flow::{BackendId, BackendView, Bounds, EngineReading, Span, Time};

use super::backends::{binding, millis};
use super::busiest_of;
use crate::backend::{BackendStatus, NO_ADDRESS, OWN_GATEWAY};
use crate::config::settings::DrainCause;
use crate::diagnosis::situation::{BackendCondition, EngineState};
use crate::observe::{LastRefusals, Observer};
use crate::state::State;

/// The backends, those that are not ready first, and the number of those that are left out.
pub(super) fn conditions(
    state: &State,
    statuses: Vec<BackendStatus>,
    (views, bounds): (&BTreeMap<BackendId, BackendView>, Bounds),
    most: usize,
) -> (Vec<BackendCondition>, usize) {
    let now = state.clock.now();
    let mut backends: Vec<BackendCondition> = statuses
        .into_iter()
        .map(|status| {
            let view = views.get(&status.backend);
            let backend = timed(condition(status, view, bounds), &state.observer, now);
            with_refusals(backend, &state.observer)
        })
        .collect();
    let left_out = busiest_of(&mut backends, most, |one| (!one.ready, one.in_flight));
    backends.sort_by(|one, other| {
        (Reverse(!one.ready), &one.id).cmp(&(Reverse(!other.ready), &other.id))
    });
    (backends, left_out)
}

/// Adds the times of whole responses: those of the last ones, or else a mean of those before.
fn timed(backend: BackendCondition, observer: &Observer, now: Time) -> BackendCondition {
    let id = &backend.id;
    let (latency_ms, output_tokens) = match observer.latency_now(id, now) {
        Some(last) => (Some(millis(last.taken)), last.tokens.map(|tokens| tokens as f64)),
        None => {
            let means = (observer.latency_ms(id), observer.output_tokens(id));
            return BackendCondition {
                latency_ms: means.0,
                output_tokens: means.1,
                latency_is_old: true,
                ..backend
            };
        }
    };
    BackendCondition { latency_ms, output_tokens, ..backend }
}

/// Adds how many of its last responses refused the request.
fn with_refusals(backend: BackendCondition, observer: &Observer) -> BackendCondition {
    let LastRefusals { responses, refused, status } = observer.last_refusals(&backend.id);
    BackendCondition {
        last_responses: responses,
        last_refused: refused,
        refusal_status: status,
        ..backend
    }
}

fn condition(
    status: BackendStatus,
    view: Option<&BackendView>,
    bounds: Bounds,
) -> BackendCondition {
    let limits = view.map(|view| view.limits);
    let ready = status.is_sound() && view.is_none_or(|view| view.ready);
    let watermark = match bounds {
        Bounds::Fixed(hysteresis) => hysteresis.scaled(1)[1],
        Bounds::Auto => limits.map_or(0.0, |limits| limits.watermark.into()),
    };
    BackendCondition {
        id: status.id,
        url: status.url,
        kind: status.kind.name(),
        state: status.state.label(),
        ready,
        is_own_gateway: status.reason.as_deref() == Some(OWN_GATEWAY),
        lacks_address: status.reason.as_deref() == Some(NO_ADDRESS),
        reason: status.reason,
        returns_in_seconds: status.returns_in.map(Span::secs_f64),
        drained_by_operator: status.drain == Some(DrainCause::Operator),
        last_error: status.last_error,
        list_failing_seconds: status.list_failing.map(Span::secs_f64),
        models: status.models,
        in_flight: view.map_or(0, |view| view.in_flight.iter().sum()),
        stock: view.map_or(0, |view| view.stock),
        watermark,
        places: status.places,
        binding: view.and_then(binding),
        first_byte_ms: status.latency.map(millis),
        usual_first_byte_ms: status.usual_latency.map(millis),
        stream_first_byte_ms: status.stream_latency_now.or(status.stream_latency).map(millis),
        stream_first_byte_is_old: status.stream_latency_now.is_none(),
        latency_ms: None,
        latency_is_old: false,
        output_tokens: None,
        quickest_ms: None,
        token_ms: limits.and_then(|limits| limits.pace.0).map(millis),
        usual_token_ms: None,
        token_ms_is_old: false,
        watched: u32::try_from(status.watched).unwrap_or(u32::MAX),
        silent_seconds: Some(status.quiet.secs_f64()),
        answered_per_minute: 0.0,
        failed_per_minute: 0.0,
        first_byte_waited: false,
        last_responses: 0,
        last_refused: 0,
        refusal_status: 0,
        idle: false,
        was_slow: false,
        slow_by: None,
        queued_lately: false,
        engine: status.last_reading.map(|one| EngineState::of(one, status.kv_reported)),
        metrics_error: status.scrape_error,
    }
}

// === impl EngineState ===

impl EngineState {
    fn of((age, reading): (Span, EngineReading), kv_reported: bool) -> Self {
        let EngineReading { running, waiting, kv_used, running_max, .. } = reading;
        let age_seconds = (age.secs_f64() * 1e3).round() / 1e3;
        let kv_used = kv_reported.then_some(kv_used);
        Self { running, running_max, waiting, kv_used, age_seconds }
    }
}
