//! The workload of a request. The header affects only the order, so no request fails for an invalid
//! one.

use flow::Order;
use flow::identity::{Attribute, NAME_MAX};
use http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::headers::text;
use crate::config::Config;

/// A longer header is invalid.
pub(super) const HEADER_MAX: usize = 4096;
/// The criticality of a request without one.
const CRITICALITY: u8 = 3;

/// The prefixes of generated ids: of a request without the header, with a header that cannot be
/// read, and with a header without an id.
const UNKNOWN: &str = "unknown-";
const INVALID: &str = "invalid-";
const EMPTY: &str = "empty-";

/// The workload of a request and its criticality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkloadContext {
    pub(super) name: WorkloadName,
    /// From 1 to 5.
    pub(super) criticality: u8,
}

/// The id of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadName {
    /// The id that the client gave.
    Given(String),
    /// The prefix of a generated id. Such an id names one request. Only the access log shows it, so
    /// the log adds the number: most requests have no id, and need none elsewhere.
    Generated(&'static str),
}

#[derive(Deserialize)]
struct ContextJson<'a> {
    workload_id: Option<String>,
    #[serde(borrow)]
    criticality: Option<&'a RawValue>,
}

// === impl WorkloadContext ===

impl WorkloadContext {
    pub(super) fn of(header: Option<&HeaderValue>) -> Self {
        let Some(value) = header.filter(|value| !value.is_empty()) else {
            return Self::generated(UNKNOWN);
        };
        let bounded = Some(value).filter(|value| value.len() <= HEADER_MAX).and_then(text);
        // serde would accept an array as the fields in their order.
        let object = bounded.filter(|text| text.starts_with('{'));
        let context = object.and_then(|text| serde_json::from_str::<ContextJson<'_>>(text).ok());
        context.map_or_else(|| Self::generated(INVALID), Self::given)
    }

    const fn generated(prefix: &'static str) -> Self {
        Self { name: WorkloadName::Generated(prefix), criticality: CRITICALITY }
    }

    fn given(context: ContextJson<'_>) -> Self {
        let mut id = context.workload_id.unwrap_or_default();
        // JSON escapes could otherwise bring control characters into logs and pages.
        if id.contains(char::is_control) {
            return Self::generated(INVALID);
        }
        id.truncate(id.floor_char_boundary(NAME_MAX));
        let said = context.criticality.and_then(|raw| raw.get().parse().ok());
        let criticality = said.filter(|level| (1..=5).contains(level)).unwrap_or(CRITICALITY);
        let name =
            if id.is_empty() { WorkloadName::Generated(EMPTY) } else { WorkloadName::Given(id) };
        Self { name, criticality }
    }
}

// === impl WorkloadName ===

impl WorkloadName {
    /// Whether the request has a context that has no effect.
    pub(crate) fn is_unused(&self, config: &Config) -> bool {
        let is_workload = |(part, _): &(Attribute, String)| *part == Attribute::Workload;
        let mut band_patterns = config.band_rules.iter().flat_map(|rule| &rule.patterns);
        *self != Self::Generated(UNKNOWN)
            && config.flow.order != Order::Workload
            && !config.identity.uses(&Attribute::Workload)
            && !band_patterns.any(is_workload)
    }

    /// The id that the client gave.
    pub(crate) fn given(&self) -> Option<&str> {
        match self {
            Self::Given(id) => Some(id),
            Self::Generated(_) => None,
        }
    }
}

impl Default for WorkloadName {
    fn default() -> Self {
        Self::Generated(UNKNOWN)
    }
}
