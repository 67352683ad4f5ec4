//! The rule about backends that hang, and what the gateway does about the requests there.

use super::finding::{Level, StatusFinding};
use super::sentence::{count, span};
use super::situation::{BackendCondition, Situation};

/// The rule about them.
pub(super) const HUNG: &str = "backend_hung";
/// A backend is hung if it has had requests without a sign of life for this many times its usual
/// time to a first byte, and for so many seconds.
const HUNG_TIMES: f64 = 5.0;
const HUNG_SECS: f64 = 10.0;
/// The same for a backend that has answered no request yet: it may load its model.
const COLD_HUNG_SECS: f64 = 30.0;
/// A backend that hangs now and then is one finding.
const HUNG_KEPT_SECS: f64 = 60.0;

/// How long a backend has been silent, if that is too long.
fn silence(backend: &BackendCondition) -> Option<f64> {
    let silent = backend.silent_seconds.filter(|_| backend.in_flight > 0)?;
    let usual = usual_seconds(backend);
    let least = if backend.first_byte_ms.is_some() { HUNG_SECS } else { COLD_HUNG_SECS };
    Some(silent).filter(|&silent| silent >= least.max(usual * HUNG_TIMES))
}

fn usual_seconds(backend: &BackendCondition) -> f64 {
    backend.usual_first_byte_ms.or(backend.first_byte_ms).unwrap_or(0.0) / 1e3
}

/// One that was ejected for its silence has its own finding, which tells for how long.
pub(super) fn hung(backend: &BackendCondition, situation: &Situation) -> Option<StatusFinding> {
    let silent = silence(backend).filter(|_| !matches!(backend.state, "ejected" | "on_trial"))?;
    let has_others = has_others(backend, situation);
    let level = if has_others { Level::Warning } else { Level::Trouble };
    let (id, requests) = (&backend.id, count(backend.in_flight, "request"));
    let text = format!("{id} hangs: {requests} there, and no byte for {}", span(silent));
    let finding = StatusFinding::new(HUNG, level, text)
        .about(id)
        .kept(HUNG_KEPT_SECS, format!("{id} hung until"))
        .past_at_once()
        .figure("in_flight", backend.in_flight)
        .figure("silent_seconds", silent)
        .figure("usual_first_byte_seconds", usual_seconds(backend))
        .advise(format!(
            "Restart the model server at {}: it accepts requests and computes nothing. {}",
            backend.url,
            what_follows(backend, has_others)
        ));
    Some(finding)
}

/// Whether other backends that respond serve all its models.
fn has_others(backend: &BackendCondition, situation: &Situation) -> bool {
    let responds = |other: &&BackendCondition| {
        other.ready && other.id != backend.id && silence(other).is_none()
    };
    let others: Vec<&BackendCondition> = situation.backends.iter().filter(responds).collect();
    let serves = |model: &String| {
        let same = |listed: &String| listed == model || listed == "*";
        others.iter().any(|other| other.models.iter().any(same))
    };
    !backend.models.is_empty() && backend.models.iter().all(serves)
}

/// What the gateway does about the requests there. A response without a stream and without a limit
/// may take any time, so such a request is never taken back, and neither is one that Envoy sends.
fn what_follows(backend: &BackendCondition, has_others: bool) -> String {
    let unlimited = "neither stream nor have max_tokens";
    match (backend.watched, has_others) {
        (0, _) => format!(
            "The gateway leaves these requests there: they {unlimited}, so it cannot tell a hang \
             from a long response (or health.silence_limit is 0, or Envoy sends the requests)."
        ),
        (_, false) => "The gateway ejects it after health.silence_limit, and then tries it with \
                       one request at a time. No other backend serves its models."
            .to_owned(),
        (watched, true) => {
            let first = "The gateway ejects it after health.silence_limit and sends its requests \
                         elsewhere";
            match watched < backend.in_flight {
                true => format!("{first}, except those that {unlimited}."),
                false => format!("{first}."),
            }
        }
    }
}
