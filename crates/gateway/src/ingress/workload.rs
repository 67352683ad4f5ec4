//! The workload of a request. An invalid header counts as absent: it affects only the order, so no
//! request fails for it.

use std::borrow::Cow;

use flow::identity::NAME_MAX;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::headers::text;

/// A longer header is ignored.
const HEADER_MAX: usize = 4096;
/// The criticality of a request without one.
const CRITICALITY: u8 = 3;

/// The workload of a request and its criticality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkloadContext {
    /// `None` if an id must be generated.
    pub(super) id: Option<String>,
    /// From 1 to 5.
    pub(super) criticality: u8,
}

#[derive(Deserialize)]
struct ContextJson<'a> {
    #[serde(borrow)]
    workload_id: Cow<'a, str>,
    #[serde(borrow)]
    criticality: Option<&'a RawValue>,
}

// === impl WorkloadContext ===

impl WorkloadContext {
    const UNKNOWN: Self = Self { id: None, criticality: CRITICALITY };

    pub(super) fn of(header: Option<&HeaderValue>) -> Self {
        let bounded = header.filter(|value| value.len() <= HEADER_MAX).and_then(text);
        let context = bounded.and_then(|text| serde_json::from_str::<ContextJson<'_>>(text).ok());
        context.and_then(Self::given).unwrap_or(Self::UNKNOWN)
    }

    fn given(context: ContextJson<'_>) -> Option<Self> {
        let mut id = context.workload_id.into_owned();
        // JSON escapes could otherwise bring control characters into logs and pages.
        if id.is_empty() || id.contains(char::is_control) {
            return None;
        }
        id.truncate(id.floor_char_boundary(NAME_MAX));
        let said = context.criticality.and_then(|raw| raw.get().parse().ok());
        let criticality = said.filter(|level| (1..=5).contains(level)).unwrap_or(CRITICALITY);
        Some(Self { id: Some(id), criticality })
    }
}
