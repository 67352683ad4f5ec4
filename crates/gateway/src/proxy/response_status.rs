//! The status of a response before its first byte goes to the client: answered, full or failed.

use flow::RequeuePosition;
use http::{HeaderValue, Response, StatusCode, header};

use super::attempt::{AttemptFailure, AttemptOutcome};
use crate::backend::Attempt;
use crate::clock;
use crate::upstream::{UpstreamBody, retry_after};

/// Judges an attempt by the status of its response. A full backend may say `Retry-After`.
pub(crate) fn verdict<'a>(
    status: StatusCode,
    retry_after: impl FnOnce() -> Option<&'a HeaderValue>,
) -> Attempt {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => full(retry_after()),
        // Some services say so when they are overloaded.
        _ if status.as_u16() == 529 => full(retry_after()),
        // The gateway never asks to switch protocols.
        _ if status.is_informational() => Attempt::Failed,
        StatusCode::INTERNAL_SERVER_ERROR
        | StatusCode::BAD_GATEWAY
        | StatusCode::GATEWAY_TIMEOUT => Attempt::Failed,
        _ => Attempt::Answered,
    }
}

fn full(value: Option<&HeaderValue>) -> Attempt {
    Attempt::Full(value.and_then(|value| retry_after(value, clock::since_epoch())))
}

pub(super) fn judge(response: Response<UpstreamBody>) -> AttemptOutcome {
    let status = response.status();
    let attempt = verdict(status, || response.headers().get(header::RETRY_AFTER));
    let position = match attempt {
        Attempt::Answered => return AttemptOutcome::Answered(Box::new(response)),
        Attempt::Full(_) => RequeuePosition::Original,
        _ => RequeuePosition::Back,
    };
    let text = format!("it answered {status}");
    let response = (!status.is_informational()).then(|| Box::new(response));
    AttemptOutcome::Failed(AttemptFailure { attempt, position, response, text })
}
