//! From objects of the cluster to rules for requests: objectives and model names.

use std::collections::{BTreeMap, BTreeSet};

use flow::{Band, ModelNameRule, ModelNames};

use super::objects::{InferenceModelRewrite, InferenceObjective, PoolReference, RewriteRule};
use super::reflector::Objects;
use crate::band_alias;
use crate::config::settings::ClusterRules;

/// The pool whose rules count.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolIdentity<'a> {
    pub(super) name: &'a str,
    /// The API group in which it was found.
    pub(super) group: &'a str,
}

/// The bands of the objectives of a pool.
pub(super) fn objectives(
    objectives: &Objects<InferenceObjective>,
    pool: PoolIdentity<'_>,
) -> BTreeMap<String, Band> {
    let ours = objectives.values().filter(|objective| pool.has(&objective.spec.pool_ref));
    let band = |objective: &InferenceObjective| {
        band_alias::numbered_band(objective.spec.priority.unwrap_or_default())
    };
    ours.map(|objective| (objective.metadata.name.clone(), band(objective))).collect()
}

/// The names of models that the rewrites of a pool replace, in `rules`. A rule for a name goes
/// before a rule for all names; of two alike that of the older object counts. A rule that cannot be
/// used is left out alone. Returns the problem of the first one.
pub(super) fn rewrites(
    rewrites: &Objects<InferenceModelRewrite>,
    pool: PoolIdentity<'_>,
    rules: &mut ClusterRules,
) -> Option<String> {
    let ours = rewrites.values().filter(|rewrite| pool.has(&rewrite.spec.pool_ref));
    let mut ours: Vec<_> = ours.collect();
    // Timestamps of the API server are all in the same form, and in UTC.
    ours.sort_by_key(|rewrite| {
        (rewrite.metadata.creation_timestamp.clone(), rewrite.metadata.name.clone())
    });
    let mut accepted = Accepted::default();
    for rewrite in ours {
        accepted.object.clone_from(&rewrite.metadata.name);
        for (at, rule) in rewrite.spec.rules.iter().enumerate() {
            accepted.number = at + 1;
            let names = rule.matches.iter().filter_map(|one| one.model.as_ref());
            for name in names.map(|model| &model.value) {
                accepted.offer(name, rule);
            }
            if rule.matches.is_empty() {
                accepted.offer_any(rule);
            }
        }
    }
    accepted.finish(rules)
}

/// The rules that can be used together, the older ones first.
#[derive(Default)]
struct Accepted {
    /// The object of the present rule, and the rule's number in it.
    object: String,
    number: usize,
    names: BTreeMap<String, ModelNameRule>,
    /// The targets of rules for other names.
    targets: BTreeSet<String>,
    any: Option<ModelNames>,
    /// The problem of the first rule that was left out, and the number of such rules.
    problem: Option<String>,
    left_out: usize,
}

// === impl PoolIdentity ===

impl PoolIdentity<'_> {
    /// Whether an object belongs to the pool. An older one may name no pool, or no group.
    fn has(self, reference: &Option<PoolReference>) -> bool {
        reference.as_ref().is_none_or(|PoolReference { name, group }| {
            name == self.name && (group.is_empty() || group == self.group)
        })
    }
}

// === impl Accepted ===

impl Accepted {
    fn offer(&mut self, name: &str, rule: &RewriteRule) {
        if self.names.contains_key(name) {
            return;
        }
        let rule = name_rule(name, rule);
        match own_problem(&rule).or_else(|| self.problem_beside(&rule)) {
            None => {
                self.targets.extend(other_targets(&rule).map(str::to_owned));
                self.names.insert(rule.name.clone(), rule);
            }
            Some(problem) => self.leave_out(name, problem),
        }
    }

    fn offer_any(&mut self, rule: &RewriteRule) {
        if self.any.is_some() {
            return;
        }
        match ModelNames::new(&[name_rule(ClusterRules::ANY, rule)]) {
            Ok(names) => self.any = Some(names),
            Err(errors) => self.leave_out(ClusterRules::ANY, first(errors)),
        }
    }

    /// Why a rule cannot be used beside the accepted ones. Targets are final, so of two rules in a
    /// row only one can be used.
    fn problem_beside(&self, rule: &ModelNameRule) -> Option<String> {
        if self.names.len() >= ModelNames::RULES_MAX {
            return Some(format!("at most {} rules are used", ModelNames::RULES_MAX));
        }
        let replaced = |target: &&str| {
            self.names.get(*target).is_some_and(|rule| other_targets(rule).next().is_some())
        };
        if let Some(target) = other_targets(rule).find(replaced) {
            return Some(format!("the target {target:?} has a rule for another model itself"));
        }
        let chained = self.targets.contains(&rule.name) && other_targets(rule).next().is_some();
        chained.then(|| format!("{:?} is the target of another rule", rule.name))
    }

    fn leave_out(&mut self, name: &str, problem: String) {
        self.left_out += 1;
        let Self { object, number, .. } = self;
        let text = format!("{object}, rule {number} (for {name:?}): {problem}");
        self.problem.get_or_insert(text);
    }

    fn finish(mut self, rules: &mut ClusterRules) -> Option<String> {
        let names: Vec<ModelNameRule> = self.names.into_values().collect();
        rules.names = ModelNames::new(&names).unwrap_or_else(|errors| {
            // Not expected: each rule was checked.
            self.problem = Some(first(errors));
            ModelNames::default()
        });
        rules.any = self.any;
        let further = self.left_out.saturating_sub(1);
        self.problem.map(|problem| match further {
            0 => problem,
            _ => format!("{problem}; {further} further rules are left out"),
        })
    }
}

fn name_rule(name: &str, rule: &RewriteRule) -> ModelNameRule {
    let targets = rule.targets.iter();
    let targets = targets.map(|target| (target.model_rewrite.clone(), target.weight.unwrap_or(1)));
    ModelNameRule { name: name.to_owned(), band: None, targets: targets.collect() }
}

/// Why a rule cannot be used, whatever the others are.
fn own_problem(rule: &ModelNameRule) -> Option<String> {
    ModelNames::new(std::slice::from_ref(rule)).err().map(first)
}

fn first(errors: Vec<flow::ModelNameError>) -> String {
    errors.into_iter().next().map(|error| error.problem).unwrap_or_default()
}

/// The targets of a rule that are not its own name.
fn other_targets(rule: &ModelNameRule) -> impl Iterator<Item = &str> {
    rule.targets.iter().map(|(model, _)| model.as_str()).filter(|model| *model != rule.name)
}
