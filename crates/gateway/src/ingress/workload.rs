//! Which workload a request says it belongs to. Whatever is wrong with that counts as not said:
//! it is advice on order, and no request fails for it.

use std::borrow::Cow;

use flow::identity::NAME_MAX;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::headers::text;

/// The longest header that is looked at.
const HEADER_MAX: usize = 4096;
/// The criticality of a request that gives none.
const CRITICALITY: u8 = 3;

/// Where a request comes from and how urgent its sender says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkloadContext {
    /// Nothing where an id would have to be made up.
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
        // Only through JSON's escapes could such letters come this far, into logs and pages.
        if id.is_empty() || id.contains(char::is_control) {
            return None;
        }
        id.truncate(id.floor_char_boundary(NAME_MAX));
        let said = context.criticality.and_then(|raw| raw.get().parse().ok());
        let criticality = said.filter(|level| (1..=5).contains(level)).unwrap_or(CRITICALITY);
        Some(Self { id: Some(id), criticality })
    }
}
