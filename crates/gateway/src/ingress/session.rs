//! The session of a request inside its flow, by `queue.session_by`.

use flow::identity::RequestAttributes;

use super::json_body::hash;
use crate::config::settings::SessionPart;

/// The hash of the session; 0 if the request has none of its parts. Two sessions with equal hashes
/// share one turn, which is rare and does no harm.
pub(super) fn in_flow(
    parts: &[SessionPart],
    attributes: &RequestAttributes<'_>,
    session: Option<u64>,
) -> u32 {
    let value = |part: &SessionPart| match part {
        SessionPart::Session => session,
        SessionPart::Attribute(part) => part.of(attributes).map(hash),
    };
    let values = parts.iter().map(value);
    let joined = values.fold(0u64, |joined, value| {
        joined.rotate_left(17) ^ value.unwrap_or_default().wrapping_mul(MIX)
    });
    ((joined >> 32) ^ joined) as u32
}

/// An odd number that spreads a hash over all bits.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
