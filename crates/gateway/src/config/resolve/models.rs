//! The lists `models` and `objectives`.

use std::collections::BTreeMap;

use flow::{Band, ModelNameRule, ModelNames};

use crate::band_alias;
use crate::schema::{Location, Report, Section};

pub(super) fn names(sections: Vec<Section<'_>>, report: &Report) -> ModelNames {
    let locations: Vec<Location> =
        sections.iter().map(|section| section.location().clone()).collect();
    let rules: Vec<ModelNameRule> = sections.iter().map(rule).collect();
    ModelNames::new(&rules).unwrap_or_else(|errors| {
        for error in errors {
            let of_entry = |location: &&Location| error.key.starts_with(&location.path);
            let location = locations.iter().find(of_entry).cloned().unwrap_or_default();
            report.problem(&Location { path: error.key, ..location }, error.problem);
        }
        ModelNames::default()
    })
}

/// The rule of an entry. If the name or a target has a problem already, the rule stands for itself
/// under a name of its own, so that the places of the other rules stay as they are.
fn rule(section: &Section<'_>) -> ModelNameRule {
    let unknown = || format!("\0{}", section.location().path);
    let name = section.given("name").unwrap_or_else(unknown);
    let targets: Option<Vec<_>> = match section.has_value("targets") {
        true => section.sections("targets").iter().map(target).collect(),
        // A name that only has a band stands for itself.
        false => None,
    };
    let targets = targets.unwrap_or_else(|| vec![(name.clone(), 1)]);
    ModelNameRule { name, band: section.given("band"), targets }
}

fn target(section: &Section<'_>) -> Option<(String, u32)> {
    Some((section.given("model")?, section.get("weight")))
}

/// The band of each objective.
pub(super) fn objectives(sections: Vec<Section<'_>>) -> BTreeMap<String, Band> {
    let mut objectives = BTreeMap::new();
    for section in sections {
        if !section.has("priority") && !section.has("band") {
            section.refuse("band", "is missing");
        }
        let priority = section.given("priority").map(|number: f64| number.floor() as i64);
        let band = section.given("band").or(priority.map(band_alias::numbered_band));
        if let Some(name) = section.given::<String>("name")
            && let Some(_) = objectives.insert(name.clone(), band.unwrap_or_default())
        {
            section.refuse("name", format!("is {name:?} for a second time"));
        }
    }
    objectives
}
