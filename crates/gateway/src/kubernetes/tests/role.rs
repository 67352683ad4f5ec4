//! The role that is delivered has the rights that discovery needs, and no others.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::super::resource::{ENDPOINT_SLICES, OBJECTIVES, PODS, POOLS, REWRITES};

const ROLE: &str = include_str!("../../../../../deploy/kubernetes/rbac.yaml");

#[derive(Deserialize)]
struct Role {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

#[test]
fn x02_the_role_allows_what_discovery_does_and_no_more() {
    let document = ROLE.split("---").find(|part| part.contains("\nkind: Role\n")).unwrap();
    let role: Role = serde_saphyr::from_str(document).unwrap();
    let mut allowed = BTreeSet::new();
    for rule in &role.rules {
        assert_eq!(rule.verbs, ["list", "watch"]);
        for group in &rule.api_groups {
            allowed.extend(rule.resources.iter().map(|plural| (group.as_str(), plural.as_str())));
        }
    }
    let kinds = [POOLS, PODS, ENDPOINT_SLICES, OBJECTIVES, REWRITES];
    let needed: BTreeSet<(&str, &str)> = kinds
        .iter()
        .flat_map(|kind| kind.apis.iter().map(|api| (api.group, kind.plural)))
        .collect();
    assert_eq!(allowed, needed);
}
