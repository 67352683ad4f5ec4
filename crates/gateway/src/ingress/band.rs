//! The band of a request. The first source with a known value decides. An unknown value is ignored;
//! it is never an error. The rules of the configuration may give a band to requests that state
//! none, and limit the band of any request. A tenant has a default and a limit as well. Where bands
//! share by weights, a tenant has one band: in several bands it would get several shares.

use std::collections::BTreeMap;

use flow::identity::{self, RequestAttributes};
use flow::{Band, Cascade};
use http::HeaderMap;

use super::caller::Caller;
use super::headers::{ControlHeaders, text};
use crate::band_alias;
use crate::config::settings::Config;
use crate::config::settings::tenants::Tenant;

/// A priority that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownPriority {
    pub(crate) header: &'static str,
    pub(crate) text: Box<str>,
}

/// The band by the header of Nexus.
fn of_nexus(controls: &ControlHeaders<'_>) -> Option<Band> {
    controls.nexus_priority.and_then(text).and_then(band_alias::nexus_priority)
}

/// The lowest band, if the common header asks for it. Nexus has no batch work, which would come
/// among its normal requests.
fn of_batch_work(controls: &ControlHeaders<'_>) -> Option<Band> {
    let stated = controls.priority.and_then(text).and_then(band_alias::band);
    stated.filter(|band| *band == Band::BestEffort)
}

/// The band that a request states, if any: by a header or by the tier in its body.
pub(super) fn stated(
    controls: &ControlHeaders<'_>,
    config: &Config,
    tier: Option<Band>,
) -> Option<Band> {
    if config.conventions.nexus_priority_alone {
        return of_nexus(controls).or_else(|| of_batch_work(controls));
    }
    let objectives = [&config.objectives, &config.cluster.objectives];
    let said =
        |value: Option<_>, known: fn(&str) -> Option<Band>| value.and_then(text).and_then(known);
    said(controls.priority, band_alias::band)
        .or_else(|| of_nexus(controls))
        .or_else(|| objective(controls, objectives))
        .or_else(|| said(controls.media_type, band_alias::media_type))
        .or(tier)
}

/// The band of a request before its body is read, as far as its headers and its tenant tell.
pub(crate) fn before_body(headers: &HeaderMap, config: &Config, caller: Option<&Caller>) -> Band {
    let tenant = caller.map(|caller| &*caller.tenant);
    if let (Some(tenant), Cascade::Weighted(_)) = (tenant, config.flow.cascade) {
        return tenant.one_band();
    }
    let stated = stated(&ControlHeaders::of(headers), config, None);
    let band = stated.or(tenant.and_then(|tenant| tenant.band)).unwrap_or_default();
    tenant.map_or(band, |tenant| band.min(tenant.band_max))
}

/// The header and its text, if a header that states the band names none. A header that counts for
/// nothing is not looked at.
pub(super) fn unknown(controls: &ControlHeaders<'_>, config: &Config) -> Option<UnknownPriority> {
    let priority = controls.priority.filter(|_| !config.conventions.nexus_priority_alone);
    let priority = priority.and_then(text).filter(|text| band_alias::band(text).is_none());
    let of_nexus = controls.nexus_priority.and_then(text);
    let of_nexus = of_nexus.filter(|text| band_alias::nexus_priority(text).is_none());
    let (header, text) = match priority {
        Some(text) => ("x-priority", text),
        None => ("x-nexus-priority", of_nexus?),
    };
    Some(UnknownPriority { header, text: text.into() })
}

/// The band of a request that states `stated`, else that of the first rule with one, else that of
/// its tenant, else the default. No rule that matches is exceeded, and neither is the limit of the
/// tenant: the second value says whether the request would have exceeded that. Under weighted bands
/// the band of the tenant alone counts.
pub(super) fn ruled(
    config: &Config,
    traits: &RequestAttributes<'_>,
    (stated, default): (Option<Band>, Option<Band>),
    tenant: Option<&Tenant>,
) -> (Band, bool) {
    if let (Some(tenant), Cascade::Weighted(_)) = (tenant, config.flow.cascade) {
        let band = tenant.one_band();
        return (band, stated > Some(band));
    }
    let rules = &config.band_rules;
    let matching = || rules.iter().filter(|rule| identity::matches(&rule.patterns, traits));
    let given = || matching().find_map(|rule| rule.band);
    let usual = tenant.and_then(|tenant| tenant.band);
    let band = stated.or_else(given).or(usual).or(default).unwrap_or_default();
    let band = matching().filter_map(|rule| rule.band_max).fold(band, Band::min);
    let most = tenant.map_or(Band::Critical, |tenant| tenant.band_max);
    (band.min(most), band > most)
}

/// The band of an objective, by the first of the lists that has it.
fn objective(
    controls: &ControlHeaders<'_>,
    objectives: [&BTreeMap<String, Band>; 2],
) -> Option<Band> {
    let band = |named: &str| {
        let exact = objectives.iter().find_map(|list| list.get(named));
        let mut all = objectives.iter().flat_map(|list| list.iter());
        let mut alike = || all.find(|(name, _)| name.eq_ignore_ascii_case(named));
        let numbered = || named.parse().ok().map(band_alias::numbered_band);
        exact.or_else(|| alike().map(|(_, band)| band)).copied().or_else(numbered)
    };
    controls.objective.into_iter().flatten().filter_map(text).find_map(band)
}
