//! The band of a request. The first header with a known value decides. An unknown value is ignored;
//! it is never an error.

use std::collections::BTreeMap;

use flow::Band;

use super::headers::{ControlHeaders, text};
use crate::band_alias;

/// The band that a header gives, else the model's default, else normal.
pub(super) fn of(
    controls: &ControlHeaders<'_>,
    objectives: &BTreeMap<String, Band>,
    default: Option<Band>,
) -> Band {
    let said =
        |value: Option<_>, known: fn(&str) -> Option<Band>| value.and_then(text).and_then(known);
    said(controls.priority, band_alias::band)
        .or_else(|| said(controls.nexus_priority, band_alias::nexus_priority))
        .or_else(|| objective(controls, objectives))
        .or_else(|| said(controls.media_type, band_alias::media_type))
        .or(default)
        .unwrap_or_default()
}

fn objective(controls: &ControlHeaders<'_>, objectives: &BTreeMap<String, Band>) -> Option<Band> {
    let band = |named: &str| {
        let exact = objectives.get(named);
        let alike = || objectives.iter().find(|(name, _)| name.eq_ignore_ascii_case(named));
        let numbered = || named.parse().ok().map(band_alias::numbered_band);
        exact.or_else(|| alike().map(|(_, band)| band)).copied().or_else(numbered)
    };
    controls.objective.into_iter().flatten().filter_map(text).find_map(band)
}
