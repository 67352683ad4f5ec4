//! The `Retry-After` header of refusals: when a client should try again.

use flow::{RETRY_AFTER_MAX, RETRY_AFTER_MIN, Span};
use http::HeaderValue;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The header's value in whole seconds, rounded up.
pub(super) fn value(span: Option<Span>) -> HeaderValue {
    let span = span.unwrap_or_default().clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX);
    HeaderValue::from(span.nanos().div_ceil(NANOS_PER_SEC))
}

/// The same for a wait that is known and may be long, such as until the end of a month.
pub(super) fn exact(span: Option<Span>) -> HeaderValue {
    let span = span.unwrap_or_default().max(RETRY_AFTER_MIN);
    HeaderValue::from(span.nanos().div_ceil(NANOS_PER_SEC))
}
