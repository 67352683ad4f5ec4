//! The tenant that sent a request. There are no API keys yet: a client names its tenant itself,
//! with its fairness id.

use flow::identity::NAME_MAX;
use http::HeaderMap;

use super::headers::ControlHeaders;

/// The tenant that the client names; empty if it names none.
pub(crate) fn tenant(headers: &HeaderMap) -> &str {
    let tenant = ControlHeaders::of(headers).fairness_id().unwrap_or_default();
    if tenant.len() <= NAME_MAX { tenant } else { "" }
}
