//! The lists `models` and `objectives`: what names stand for.

use std::collections::BTreeMap;

use flow::{Band, ModelNameRule, ModelNames};

use crate::config::keywords;
use crate::config::report::Report;
use crate::config::section::Section;
use crate::config::tree::{Node, Place, Value};

pub(super) fn resolve(sections: Vec<Section<'_>>, report: &Report) -> ModelNames {
    let places: Vec<Place> = sections.iter().map(|section| section.place().clone()).collect();
    let rules: Vec<Option<ModelNameRule>> = sections.into_iter().map(rule).collect();
    let complete: Option<Vec<ModelNameRule>> = rules.into_iter().collect();
    // With a rule left out the numbers in the core's message would point at others.
    let Some(rules) = complete else { return ModelNames::default() };
    ModelNames::new(&rules).unwrap_or_else(|error| {
        let near = places.iter().find(|place| error.key.starts_with(&place.path));
        let line = near.map_or(0, |place| place.line);
        report.problem(&Place { path: error.key, line }, error.problem);
        ModelNames::default()
    })
}

fn rule(mut section: Section<'_>) -> Option<ModelNameRule> {
    let name = name(&mut section);
    let band = section.word("band", keywords::BANDS);
    let targets = targets(&mut section);
    section.finish();
    let name = name?;
    // A name that only has a band stands for itself.
    let targets = targets.unwrap_or_else(|| vec![(name.clone(), 1)]);
    Some(ModelNameRule { name, band, targets })
}

/// Models by name, or tables with a weight.
fn targets(section: &mut Section<'_>) -> Option<Vec<(String, u32)>> {
    let node = section.take("targets")?;
    let Value::List(items) = node.value else {
        let allowed = "a list such as [{ model = \"llama-3-8b\", weight = 9 }]";
        section.refuse("targets", format!("is {}, allowed is {allowed}", node.value));
        return None;
    };
    Some(items.into_iter().filter_map(|item| target(section, item)).collect())
}

fn target(section: &Section<'_>, node: Node) -> Option<(String, u32)> {
    if let Value::Text(model) = node.value {
        return Some((model, 1));
    }
    let mut target = section.as_section(node);
    target.require("model");
    let model = target.text("model");
    let weight = target.count("weight", 0..=1_000_000).unwrap_or(1);
    target.finish();
    Some((model?, weight))
}

/// The band of each objective.
pub(super) fn objectives(sections: Vec<Section<'_>>) -> BTreeMap<String, Band> {
    let mut objectives = BTreeMap::new();
    for mut section in sections {
        let name = name(&mut section);
        if !section.has("priority") {
            section.require("band");
        }
        let named = section.word("band", keywords::BANDS);
        let priority = section.number("priority").map(|number| number.floor() as i64);
        let band = named.or(priority.map(keywords::numbered_band));
        if let Some(name) = name
            && let Some(_) = objectives.insert(name.clone(), band.unwrap_or_default())
        {
            section.refuse("name", format!("is {name:?} for a second time"));
        }
        section.finish();
    }
    objectives
}

fn name(section: &mut Section<'_>) -> Option<String> {
    section.require("name");
    section.text("name")
}
