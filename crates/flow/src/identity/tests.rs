//! Q01: names and classes of flows.

use super::*;

fn traits<'a>(headers: &'a [(&'a str, &'a str)]) -> RequestAttributes<'a> {
    RequestAttributes {
        model: Some("llama-3-8b"),
        tenant: Some("team-a"),
        headers,
        ..RequestAttributes::default()
    }
}

#[test]
fn q01_a_name_has_the_listed_parts_in_order() {
    let headers = [("x-team", "blue")];
    let traits = traits(&headers);
    assert_eq!(flow_name(&[Attribute::Model], &traits), "llama-3-8b");
    assert_eq!(flow_name(&[Attribute::Tenant, Attribute::Model], &traits), "team-a/llama-3-8b");
    assert_eq!(flow_name(&[Attribute::Header("x-team".into())], &traits), "blue");
}

#[test]
fn q01_different_parts_make_different_names() {
    let name = |tenant, model| {
        let traits = RequestAttributes {
            tenant: Some(tenant),
            model: Some(model),
            ..RequestAttributes::default()
        };
        flow_name(&[Attribute::Tenant, Attribute::Model], &traits)
    };
    assert_ne!(name("a", "b/c"), name("a/b", "c"));
    assert_ne!(name("a%2Fb", "c"), name("a/b", "c"));
    let alone = RequestAttributes { model: Some("org/model"), ..RequestAttributes::default() };
    assert_eq!(flow_name(&[Attribute::Model], &alone), "org/model");
}

#[test]
fn q01_requests_without_the_value_share_one_flow() {
    let headers = [("x-team", "")];
    let by_team = [Attribute::Header("x-team".into())];
    assert_eq!(flow_name(&by_team, &traits(&[])), "-");
    assert_eq!(flow_name(&by_team, &traits(&headers)), "-", "an empty value is none");
    assert_eq!(flow_name(&[Attribute::Workload, Attribute::FairnessId], &traits(&[])), "-");
    assert_eq!(flow_name(&[Attribute::Model, Attribute::Workload], &traits(&[])), "llama-3-8b/-");
    assert_eq!(flow_name(&[], &traits(&[])), "-");
}

#[test]
fn q01_long_names_are_cut_between_characters() {
    let long = "ü".repeat(NAME_MAX);
    let traits = RequestAttributes { model: Some(&long), ..RequestAttributes::default() };
    let name = flow_name(&[Attribute::Model], &traits);
    assert!(name.len() <= NAME_MAX && name.chars().all(|letter| letter == 'ü'));
}

#[test]
fn q01_the_first_rule_that_matches_gives_the_class() {
    let rule =
        |part, pattern: &str, class| ClassRule { patterns: vec![(part, pattern.into())], class };
    let rules = [
        rule(Attribute::Model, "gpt-*", 1),
        rule(Attribute::Model, "llama-*", 2),
        rule(Attribute::Tenant, "team-a", 3),
    ];
    assert_eq!(class_of(&rules, &traits(&[])), 2);
    assert_eq!(class_of(&rules[2..], &traits(&[])), 3);
    assert_eq!(class_of(&rules[..1], &traits(&[])), 0, "the default");
    let both = ClassRule {
        patterns: vec![(Attribute::Model, "*".into()), (Attribute::Workload, "*".into())],
        class: 4,
    };
    assert_eq!(class_of(&[both], &traits(&[])), 0, "an absent trait matches nothing");
}

#[test]
fn q01_patterns() {
    for (pattern, text) in [
        ("", ""),
        ("*", ""),
        ("*", "anything"),
        ("a*", "a"),
        ("*-8b", "llama-3-8b"),
        ("l*3*b", "llama-3-8b"),
        ("a**b", "ab"),
        ("*ab*ab", "abab"),
    ] {
        assert!(glob(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in
        [("", "a"), ("a", "ab"), ("a*", "ba"), ("a*a", "a"), ("*ab*ab", "aab"), ("l*x*b", "lb")]
    {
        assert!(!glob(pattern, text), "{pattern} {text}");
    }
}
