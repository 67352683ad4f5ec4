//! Objectives and rewrites of a cluster as rules for requests.

use flow::Band;
use serde_json::{Value, json};

use super::super::rules::{PoolIdentity, objectives, rewrites};
use super::objects;
use crate::config::settings::ClusterRules;

const POOL: PoolIdentity<'_> = PoolIdentity { name: "pool", group: "inference.networking.k8s.io" };

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
    let of_older_group = json!({"name": "pool", "group": "inference.networking.x-k8s.io"});
    let found = objectives(
        &objects([
            objective("gold", json!({"priority": 10, "poolRef": pool})),
            objective("silver", json!({"priority": 3, "poolRef": pool})),
            objective("plain", json!({"poolRef": pool})),
            objective("shed", json!({"priority": -1, "poolRef": pool})),
            objective("other", json!({"priority": 9, "poolRef": {"name": "elsewhere"}})),
            objective("older", json!({"priority": 9, "poolRef": of_older_group})),
        ]),
        POOL,
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
    assert_eq!(rewrites(&found, POOL, &mut rules), None);
    let targets = ["m", "n", "q"].map(|model| target(&rules, model));
    assert_eq!(targets, ["old", "n2", "all"]);
}

#[test]
fn x02_weights_of_a_rewrite_split_requests() {
    let split = json!([{"matches": [{"model": {"value": "m"}}],
        "targets": [{"weight": 3, "modelRewrite": "a"}, {"weight": 1, "modelRewrite": "b"}]}]);
    let mut rules = ClusterRules::default();
    assert_eq!(rewrites(&objects([rewrite("r", "", split)]), POOL, &mut rules), None);
    let to_a = (0..400).filter(|&draw| rules.resolve("m", draw).unwrap().target == "a").count();
    assert_eq!(to_a, 300);
    assert_eq!(target(&rules, "other"), "other");
}

#[test]
fn x02_a_rewrite_that_cannot_be_used_is_told_and_disables_no_other() {
    let none = json!({"matches": [{"model": {"value": "empty"}}], "targets": []});
    let found = objects([rewrite("r", "", json!([none, exact("m", "a")]))]);
    let mut rules = ClusterRules::default();
    let problem = rewrites(&found, POOL, &mut rules).unwrap();
    assert!(problem.starts_with("r, rule 1 (for \"empty\"): "), "{problem}");
    assert_eq!((target(&rules, "m"), target(&rules, "empty")), ("a", "empty"));
}

/// A target is final, so of two rules in a row the older one counts.
#[test]
fn x02_a_rewrite_in_a_chain_is_left_out_alone() {
    let (older, newer) = ("2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z");
    let other = || exact("other", "kept");
    for (first, second, told) in [
        (exact("a", "b"), exact("b", "c"), "(for \"b\"): \"b\" is the target of another"),
        (exact("b", "c"), exact("a", "b"), "(for \"a\"): the target \"b\" has a rule"),
        (exact("a", "b"), exact("b", "a"), "(for \"b\"): "),
    ] {
        let name = |rule: &Value| rule["matches"][0]["model"]["value"].as_str().unwrap().to_owned();
        let to = |rule: &Value| rule["targets"][0]["modelRewrite"].as_str().unwrap().to_owned();
        let ((kept, kept_to), left_out) = ((name(&first), to(&first)), name(&second));
        let found = objects([
            rewrite("z-older", older, json!([first])),
            rewrite("a-newer", newer, json!([second, other()])),
        ]);
        let mut rules = ClusterRules::default();
        let problem = rewrites(&found, POOL, &mut rules).unwrap();
        assert!(problem.starts_with(&format!("a-newer, rule 1 {told}")), "{problem}");
        let targets = [&kept, &left_out, "other"].map(|model| target(&rules, model));
        assert_eq!(targets, [&kept_to, &left_out, "kept"]);
    }
}

/// A split that keeps a part at the name itself leads nowhere further for that part.
#[test]
fn x02_a_target_may_have_a_rule_for_itself() {
    let found = objects([rewrite("r", "", json!([exact("a", "b"), exact("b", "b")]))]);
    let mut rules = ClusterRules::default();
    assert_eq!(rewrites(&found, POOL, &mut rules), None);
    assert_eq!(["a", "b"].map(|model| target(&rules, model)), ["b", "b"]);
}

#[test]
fn x02_rewrites_above_the_bound_disable_no_other() {
    let most = flow::ModelNames::RULES_MAX;
    let named = |number: usize| exact(&format!("m{number:05}"), "one");
    let mut many: Vec<Value> = (0..most + 2).map(named).collect();
    many.push(json!({"matches": [{"model": {"value": "empty"}}], "targets": []}));
    let mut rules = ClusterRules::default();
    let found = objects([rewrite("r", "", json!(many))]);
    let problem = rewrites(&found, POOL, &mut rules).unwrap();
    assert!(problem.contains(&format!("at most {most} rules")), "{problem}");
    assert!(problem.ends_with("; 2 further rules are left out"), "{problem}");
    let last = format!("m{:05}", most - 1);
    assert_eq!((target(&rules, "m00000"), target(&rules, &last)), ("one", "one"));
}
