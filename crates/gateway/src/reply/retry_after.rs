//! The `Retry-After` header of refusals: when a client should try again.

use flow::Span;
use http::HeaderValue;

/// The longest wait that is suggested. OpenAI's client for Node and the AI SDK ignore a minute or
/// more, and come back within a second or two.
const SECONDS_MAX: u64 = 59;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The header's value in whole seconds, rounded up, at least one.
pub(super) fn value(span: Option<Span>) -> HeaderValue {
    let nanos = span.unwrap_or_default().nanos();
    HeaderValue::from(nanos.div_ceil(NANOS_PER_SEC).clamp(1, SECONDS_MAX))
}
