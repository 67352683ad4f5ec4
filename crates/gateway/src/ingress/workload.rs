//! The workload of a request. The header affects only the order, so no request fails for an invalid
//! one.

use flow::Order;
use flow::identity::{Attribute, NAME_MAX};
use http::HeaderValue;
use serde_json::{Map, Value};

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

/// The fields of the header, as far as they are given.
#[derive(Debug, Default)]
struct ContextFields {
    workload_id: String,
    criticality: i64,
}

// === impl WorkloadContext ===

impl WorkloadContext {
    pub(super) fn of(header: Option<&HeaderValue>) -> Self {
        let Some(value) = header.filter(|value| !value.is_empty()) else {
            return Self::generated(UNKNOWN);
        };
        let bounded = Some(value).filter(|value| value.len() <= HEADER_MAX).and_then(text);
        let fields = bounded.and_then(ContextFields::parse);
        fields.map_or_else(|| Self::generated(INVALID), Self::given)
    }

    const fn generated(prefix: &'static str) -> Self {
        Self { name: WorkloadName::Generated(prefix), criticality: CRITICALITY }
    }

    fn given(fields: ContextFields) -> Self {
        let ContextFields { workload_id: mut id, criticality } = fields;
        // JSON escapes could otherwise bring control characters into logs and pages.
        if id.contains(char::is_control) {
            return Self::generated(INVALID);
        }
        id.truncate(id.floor_char_boundary(NAME_MAX));
        let said = u8::try_from(criticality).ok();
        let criticality = said.filter(|level| (1..=5).contains(level)).unwrap_or(CRITICALITY);
        let name =
            if id.is_empty() { WorkloadName::Generated(EMPTY) } else { WorkloadName::Given(id) };
        Self { name, criticality }
    }
}

// === impl ContextFields ===

impl ContextFields {
    /// Reads the header as the decoder of the source does, which is Go's: the case of a key does
    /// not matter, `null` changes nothing, and a field of another type makes all of it invalid.
    fn parse(text: &str) -> Option<Self> {
        let object: Option<Map<String, Value>> = serde_json::from_str(text).ok()?;
        let mut fields = Self::default();
        for (key, value) in object.into_iter().flatten() {
            match (key.to_lowercase().as_str(), value) {
                ("workload_id", Value::String(id)) => fields.workload_id = id,
                ("criticality", Value::Number(level)) => fields.criticality = level.as_i64()?,
                ("workload_id" | "criticality", Value::Null) => {}
                ("workload_id" | "criticality", _) => return None,
                _ => {}
            }
        }
        Some(fields)
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
