//! Objectives and rewrites of a cluster as rules for requests.

use flow::Band;
use serde_json::{Value, json};

use super::super::rules::{objectives, rewrites};
use super::objects;
use crate::config::settings::ClusterRules;

fn rewrite(name: &str, created: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name, "creationTimestamp": created},
           "spec": {"poolRef": {"name": "pool"}, "rules": rules}})
}

fn exact(model: &str, target: &str) -> Value {
    json!({"matches": [{"model": {"type": "Exact", "value": model}}],
           "targets": [{"weight": 1, "modelRewrite": target}]})
}

fn target<'a>(rules: &'a ClusterRules, model: &'a str) -> &'a str {
    rules.resolve(model, 0).unwrap().target
}

#[test]
fn x02_p02_the_priority_of_an_objective_is_a_band() {
    let objective = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let pool = json!({"name": "pool", "group": "inference.networking.k8s.io"});
    let found = objectives(
        &objects([
            objective("gold", json!({"priority": 10, "poolRef": pool})),
            objective("silver", json!({"priority": 3, "poolRef": pool})),
            objective("plain", json!({"poolRef": pool})),
            objective("shed", json!({"priority": -1, "poolRef": pool})),
            objective("other", json!({"priority": 9, "poolRef": {"name": "elsewhere"}})),
        ]),
        "pool",
    );
    let expected = [
        ("gold", Band::Critical),
        ("plain", Band::Normal),
        ("shed", Band::BestEffort),
        ("silver", Band::High),
    ];
    assert_eq!(found, expected.map(|(name, band)| (name.to_owned(), band)).into());
}

#[test]
fn x02_the_older_rewrite_and_the_exact_rule_go_first() {
    let every = json!({"targets": [{"modelRewrite": "all"}]});
    let found = objects([
        rewrite("b-older", "2026-01-01T00:00:00Z", json!([every, exact("m", "old")])),
        rewrite("a-newer", "2026-06-01T00:00:00Z", json!([exact("m", "new"), exact("n", "n2")])),
        json!({"metadata": {"name": "z"}, "spec": {"poolRef": {"name": "elsewhere"},
               "rules": [exact("q", "never")]}}),
    ]);
    let mut rules = ClusterRules::default();
    assert_eq!(rewrites(&found, "pool", &mut rules), None);
    let targets = ["m", "n", "q"].map(|model| target(&rules, model));
    assert_eq!(targets, ["old", "n2", "all"]);
}

#[test]
fn x02_weights_of_a_rewrite_split_requests() {
    let split = json!([{"matches": [{"model": {"value": "m"}}],
        "targets": [{"weight": 3, "modelRewrite": "a"}, {"weight": 1, "modelRewrite": "b"}]}]);
    let mut rules = ClusterRules::default();
    assert_eq!(rewrites(&objects([rewrite("r", "", split)]), "pool", &mut rules), None);
    let to_a = (0..400).filter(|&draw| rules.resolve("m", draw).unwrap().target == "a").count();
    assert_eq!(to_a, 300);
    assert_eq!(target(&rules, "other"), "other");
}

#[test]
fn x02_a_rewrite_that_cannot_be_used_is_told_and_disables_no_other() {
    let none = json!({"matches": [{"model": {"value": "empty"}}], "targets": []});
    let found = objects([rewrite("r", "", json!([none, exact("m", "a")]))]);
    let mut rules = ClusterRules::default();
    let problem = rewrites(&found, "pool", &mut rules).unwrap();
    assert!(problem.contains("the rule for \"empty\""), "{problem}");
    assert_eq!((target(&rules, "m"), target(&rules, "empty")), ("a", "empty"));
}
