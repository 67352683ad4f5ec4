//! The band of a request, and the names that stand for a band in each header. The first header with
//! a known value decides. An unknown value is ignored; it is never an error.

use std::collections::BTreeMap;

use flow::Band;

use super::headers::{ControlHeaders, text};
use crate::config::keywords;

/// The band that a header gives, else the model's default, else normal.
pub(super) fn band_of(
    controls: &ControlHeaders<'_>,
    objectives: &BTreeMap<String, Band>,
    default: Option<Band>,
) -> Band {
    let said =
        |value: Option<_>, known: fn(&str) -> Option<Band>| value.and_then(text).and_then(known);
    said(controls.priority, keywords::band)
        .or_else(|| said(controls.nexus_priority, nexus_priority))
        .or_else(|| objective(controls, objectives))
        .or_else(|| said(controls.media_type, media_type))
        .or(default)
        .unwrap_or_default()
}

/// Knows two names only: in Nexus every other value means normal.
fn nexus_priority(word: &str) -> Option<Band> {
    among(&[("high", Band::High), ("normal", Band::Normal)], word)
}

fn media_type(word: &str) -> Option<Band> {
    among(&[("realtime", Band::Critical), ("audio", Band::High)], word)
}

fn objective(controls: &ControlHeaders<'_>, objectives: &BTreeMap<String, Band>) -> Option<Band> {
    let band = |named: &str| {
        let exact = objectives.get(named);
        let alike = || objectives.iter().find(|(name, _)| name.eq_ignore_ascii_case(named));
        let numbered = || named.parse().ok().map(keywords::numbered_band);
        exact.or_else(|| alike().map(|(_, band)| band)).copied().or_else(numbered)
    };
    controls.objective.into_iter().flatten().filter_map(text).find_map(band)
}

fn among(words: &[(&str, Band)], word: &str) -> Option<Band> {
    words.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|&(_, band)| band)
}
