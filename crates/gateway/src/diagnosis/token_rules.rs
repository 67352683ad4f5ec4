//! The rule about slow tokens: a stream has begun, and its tokens come late.

use super::finding::{Level, StatusFinding};
use super::sentence::span;
use super::situation::{BackendCondition, Situation};
use super::slow_rules::{SLOW, slow_kept};

/// Tokens are slow if they take this many times as long as before, and so much longer.
const SLOW_TIMES: f64 = 2.5;
const SLOW_MORE_MS: f64 = 20.0;
/// The objective is missed from here on: the gateway itself keeps the mean close to it.
const MISSED_TIMES: f64 = 1.25;
/// A state of a moment is no finding.
const LASTING_SECS: f64 = 5.0;

/// A backend whose tokens come more slowly than before, or than the objective.
pub(super) fn slow_tokens(
    backend: &BackendCondition,
    situation: &Situation,
) -> Option<StatusFinding> {
    let own = backend.token_ms.filter(|_| backend.in_flight > 0)?;
    let before = |usual: &f64| own >= usual * SLOW_TIMES && own >= usual + SLOW_MORE_MS;
    let usual = backend.usual_token_ms.filter(before);
    let objective = situation.queue.token_objective_seconds.map(|secs| secs * 1e3);
    let objective = objective.filter(|wanted| own > wanted * MISSED_TIMES);
    let than = match (usual, objective) {
        (Some(usual), _) => {
            let times = own / usual.max(0.1);
            format!("{times:.0} times as long as before with as many requests")
        }
        (None, Some(wanted)) => format!("and the objective is {}", span(wanted / 1e3)),
        (None, None) => return None,
    };
    let id = &backend.id;
    let text = format!("{id} is slow: a token takes {}, {than}", span(own / 1e3));
    let mut finding = StatusFinding::new(SLOW, Level::Warning, text)
        .about(id)
        .lasting(LASTING_SECS)
        .kept(slow_kept(backend), format!("{id} was slow until"))
        .figure("token_ms", own)
        .figure("in_flight", backend.in_flight);
    if let Some(usual) = backend.usual_token_ms {
        finding = finding.figure("usual_token_ms", usual);
    }
    if let Some(wanted) = objective {
        finding = finding.figure("objective_ms", wanted);
    }
    let usually = match objective {
        Some(_) => " If this is its usual speed, raise controller.slo_tpot.",
        None => "",
    };
    Some(finding.advise(format!(
        "See whether {} shares its GPU, is throttled, or computes long prompts between the \
         tokens.{usually}",
        backend.url
    )))
}
