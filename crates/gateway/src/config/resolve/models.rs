//! The lists `models` and `objectives`.

use std::collections::BTreeMap;

use flow::{Band, ModelNameRule, ModelNames};

use crate::band_alias;
use crate::schema::{Location, Report, Section};

pub(super) fn names(sections: Vec<Section<'_>>, report: &Report) -> ModelNames {
    let locations: Vec<Location> =
        sections.iter().map(|section| section.location().clone()).collect();
    let rules: Vec<Option<ModelNameRule>> = sections.iter().map(rule).collect();
    let complete: Option<Vec<ModelNameRule>> = rules.into_iter().collect();
    // Without one of the rules the numbers in the core's message would point at others.
    let Some(rules) = complete else { return ModelNames::default() };
    ModelNames::new(&rules).unwrap_or_else(|error| {
        let near = locations.iter().find(|location| error.key.starts_with(&location.path));
        let location = near.cloned().unwrap_or_default();
        report.problem(&Location { path: error.key, ..location }, error.problem);
        ModelNames::default()
    })
}

fn rule(section: &Section<'_>) -> Option<ModelNameRule> {
    let name: String = section.given("name")?;
    let targets = match section.has("targets") {
        true => section.sections("targets").iter().filter_map(target).collect(),
        // A name that only has a band stands for itself.
        false => vec![(name.clone(), 1)],
    };
    Some(ModelNameRule { name, band: section.given("band"), targets })
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
