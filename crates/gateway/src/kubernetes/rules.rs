//! From objects of the cluster to rules for requests: objectives and model names.

use std::collections::BTreeMap;

use flow::{Band, ModelNameRule, ModelNames};

use super::objects::{InferenceModelRewrite, InferenceObjective, NamedReference, RewriteRule};
use super::reflector::Objects;
use crate::band_alias;
use crate::config::settings::ClusterRules;

/// The bands of the objectives of a pool.
pub(super) fn objectives(
    objectives: &Objects<InferenceObjective>,
    pool: &str,
) -> BTreeMap<String, Band> {
    let ours = objectives.values().filter(|objective| is_of(&objective.spec.pool_ref, pool));
    let band = |objective: &InferenceObjective| {
        band_alias::numbered_band(objective.spec.priority.unwrap_or_default())
    };
    ours.map(|objective| (objective.metadata.name.clone(), band(objective))).collect()
}

/// The names of models that the rewrites of a pool replace, in `rules`. A rule for a name goes
/// before a rule for all names; of two alike that of the older object counts. Returns the problem
/// of the first rule that cannot be used.
pub(super) fn rewrites(
    rewrites: &Objects<InferenceModelRewrite>,
    pool: &str,
    rules: &mut ClusterRules,
) -> Option<String> {
    let ours = rewrites.values().filter(|rewrite| is_of(&rewrite.spec.pool_ref, pool));
    let mut ours: Vec<_> = ours.collect();
    // Timestamps of the API server are all in the same form, and in UTC.
    ours.sort_by_key(|rewrite| {
        (rewrite.metadata.creation_timestamp.clone(), rewrite.metadata.name.clone())
    });
    let mut exact: BTreeMap<String, ModelNameRule> = BTreeMap::new();
    let mut any: Option<ModelNameRule> = None;
    let mut problem = None;
    for rule in ours.iter().flat_map(|rewrite| &rewrite.spec.rules) {
        let names = rule.matches.iter().filter_map(|one| one.model.as_ref());
        for name in names.map(|model| &model.value) {
            exact.entry(name.clone()).or_insert_with(|| name_rule(name, rule));
        }
        if rule.matches.is_empty() {
            any.get_or_insert_with(|| name_rule(ClusterRules::ANY, rule));
        }
    }
    let mut exact: Vec<ModelNameRule> = exact.into_values().collect();
    // A rule that is wrong by itself must not disable the others.
    exact.retain(|rule| keep(rule, &mut problem));
    rules.names = ModelNames::new(&exact).unwrap_or_else(|errors| {
        problem = problem.take().or(first(errors));
        ModelNames::default()
    });
    rules.any =
        any.filter(|rule| keep(rule, &mut problem)).and_then(|rule| ModelNames::new(&[rule]).ok());
    problem
}

fn name_rule(name: &str, rule: &RewriteRule) -> ModelNameRule {
    let targets = rule.targets.iter();
    let targets = targets.map(|target| (target.model_rewrite.clone(), target.weight.unwrap_or(1)));
    ModelNameRule { name: name.to_owned(), band: None, targets: targets.collect() }
}

fn keep(rule: &ModelNameRule, problem: &mut Option<String>) -> bool {
    match ModelNames::new(std::slice::from_ref(rule)) {
        Ok(_) => true,
        Err(errors) => {
            let found = first(errors).map(|found| format!("the rule for {:?}: {found}", rule.name));
            *problem = problem.take().or(found);
            false
        }
    }
}

fn first(errors: Vec<flow::ModelNameError>) -> Option<String> {
    errors.into_iter().next().map(|error| error.problem)
}

/// Whether an object belongs to a pool. An older one may name none.
fn is_of(reference: &Option<NamedReference>, pool: &str) -> bool {
    reference.as_ref().is_none_or(|reference| reference.name == pool)
}
