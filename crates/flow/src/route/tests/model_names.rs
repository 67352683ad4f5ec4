//! R10: the resolution of requested model names.

use proptest::prelude::*;

use super::*;

fn rule(name: &str, targets: &[(&str, u32)]) -> ModelNameRule {
    let targets = targets.iter().map(|&(model, weight)| (model.to_owned(), weight)).collect();
    ModelNameRule { name: name.to_owned(), band: None, targets }
}

/// The first error.
fn refused(rules: &[ModelNameRule]) -> ModelNameError {
    ModelNames::new(rules).expect_err("the rules are wrong").remove(0)
}

#[test]
fn r10_an_alias_stands_for_its_target() {
    let names = ModelNames::new(&[rule("chat", &[("llama-3-8b", 1)])]).unwrap();
    for draw in [0, 1, 7, u64::MAX] {
        let resolved = names.resolve("chat", draw).unwrap();
        assert_eq!(resolved.target, "llama-3-8b");
    }
}

#[test]
fn r10_a_name_without_a_rule_stands_for_itself() {
    let names = ModelNames::new(&[rule("chat", &[("llama-3-8b", 1)])]).unwrap();
    let itself = ResolvedModel { target: "llama-3-8b", band: None };
    assert_eq!(names.resolve("llama-3-8b", 5), Some(itself));
    let longest = "m".repeat(256);
    assert_eq!(ModelNames::default().resolve(&longest, 0).unwrap().target, longest);
}

#[test]
fn r10_empty_and_overlong_names_resolve_to_nothing() {
    assert_eq!(ModelNames::default().resolve("", 0), None);
    assert_eq!(ModelNames::default().resolve(&"m".repeat(257), 0), None);
}

#[test]
fn r10_bands_come_from_the_name_or_else_from_its_target() {
    let rules = [
        ModelNameRule { band: Some(Band::High), ..rule("voice", &[("llama", 1)]) },
        ModelNameRule { band: Some(Band::BestEffort), ..rule("llama", &[("llama", 1)]) },
        rule("chat", &[("llama", 1), ("qwen", 1)]),
    ];
    let names = ModelNames::new(&rules).unwrap();
    let band = |name| names.resolve(name, 0).unwrap().band;
    assert_eq!(band("voice"), Some(Band::High));
    assert_eq!(band("llama"), Some(Band::BestEffort));
    assert_eq!(band("qwen"), None);
    for draw in 0..2 {
        let ResolvedModel { target, band, .. } = names.resolve("chat", draw).unwrap();
        assert_eq!(band, (target == "llama").then_some(Band::BestEffort));
    }
}

#[test]
fn r10_rules_that_cannot_work_are_refused_by_their_keys() {
    let good = rule("chat", &[("llama", 1)]);
    let long = "m".repeat(257);
    let many: Vec<ModelNameRule> =
        (0..4097).map(|at| rule(&format!("m{at}"), &[("x", 1)])).collect();
    let numbered: Vec<String> = (0..65).map(|at| format!("m{at}")).collect();
    let crowd: Vec<(&str, u32)> = numbered.iter().map(|name| (name.as_str(), 1)).collect();
    let cases = [
        (many, "models", "at most 4096"),
        (vec![good.clone(), rule("", &[("x", 1)])], "models[1].name", "empty"),
        (vec![rule(&long, &[("x", 1)])], "models[0].name", "257 bytes"),
        (vec![good.clone(), good.clone()], "models[1].name", "'chat' has a rule already"),
        (vec![rule("a", &[])], "models[0].targets", "has 0 entries"),
        (vec![rule("a", &crowd)], "models[0].targets", "has 65 entries"),
        (vec![rule("a", &[("x", 1), ("", 1)])], "models[0].targets[1].model", "empty"),
        (vec![rule("a", &[(&long, 1)])], "models[0].targets[0].model", "257 bytes"),
        (vec![rule("a", &[("x", 1), ("x", 2)])], "models[0].targets[1].model", "twice"),
        (vec![rule("a", &[("x", 0), ("y", 0)])], "models[0].targets", "no weight above 0"),
        (vec![rule("a", &[("x", 1_000_001)])], "models[0].targets[0].weight", "is 1000001"),
    ];
    for (rules, key, problem) in cases {
        let error = refused(&rules);
        assert_eq!(error.key, key);
        assert!(error.problem.contains(problem), "{error}");
        assert!(error.to_string().starts_with(key));
    }
}

#[test]
fn r10_targets_are_final() {
    let chain = [rule("a", &[("b", 1)]), rule("b", &[("c", 1)])];
    let error = refused(&chain);
    assert_eq!(error.key, "models[0].targets[0].model");
    assert!(error.problem.contains("'b' stands for other models itself"), "{error}");
    let keys = |rules: &[ModelNameRule]| -> Vec<String> {
        let errors = ModelNames::new(rules).expect_err("the rules are wrong");
        errors.into_iter().map(|error| error.key).collect()
    };
    let all = [rule("", &[("x", 1)]), rule("a", &[]), rule("a", &[("x", 1), ("x", 1)])];
    let expected =
        ["models[0].name", "models[2].name", "models[1].targets", "models[2].targets[1].model"];
    assert_eq!(keys(&all), expected, "all of them are reported");
    let circle = [rule("a", &[("x", 1), ("b", 1)]), rule("b", &[("a", 1)])];
    assert_eq!(refused(&circle).key, "models[0].targets[1].model");
    let split = [rule("a", &[("b", 1)]), rule("b", &[("b", 9), ("c", 1)])];
    assert_eq!(refused(&split).key, "models[0].targets[0].model");
    let onto_itself = [rule("a", &[("b", 1)]), rule("b", &[("b", 1)])];
    assert!(ModelNames::new(&onto_itself).is_ok(), "that is the end of it");
}

#[test]
fn r10_a_target_of_weight_zero_is_never_drawn() {
    let names = ModelNames::new(&[rule("a", &[("x", 0), ("y", 3), ("z", 0)])]).unwrap();
    for draw in 0..100 {
        assert_eq!(names.resolve("a", draw).unwrap().target, "y");
    }
}

/// With the largest weights the arithmetic still fits.
#[test]
fn r10_the_largest_split_is_drawn_from_without_overflow() {
    let numbered: Vec<String> = (0..64).map(|at| format!("m{at}")).collect();
    let most = |at: usize| 1_000_000 - u32::from(at == 0);
    let targets: Vec<(&str, u32)> =
        numbered.iter().enumerate().map(|(at, name)| (name.as_str(), most(at))).collect();
    let names = ModelNames::new(&[rule("a", &targets)]).unwrap();
    for draw in [0, 1, 63_999_998, 63_999_999, u64::MAX - 1, u64::MAX] {
        assert!(names.resolve("a", draw).is_some());
    }
}

/// How often each target is drawn.
fn shares(weights: &[u32], draws: impl Iterator<Item = u64>) -> Vec<u64> {
    let numbered: Vec<String> = (0..weights.len()).map(|at| format!("m{at}")).collect();
    let targets: Vec<(&str, u32)> =
        numbered.iter().zip(weights).map(|(name, &weight)| (name.as_str(), weight)).collect();
    let names = ModelNames::new(&[rule("a", &targets)]).unwrap();
    let mut counts = vec![0; weights.len()];
    for draw in draws {
        let target = names.resolve("a", draw).unwrap().target;
        counts[numbered.iter().position(|name| name == target).unwrap()] += 1;
    }
    counts
}

#[test]
fn r10_a_split_in_per_cent_is_as_exact_as_one_in_parts() {
    for start in 0..100 {
        assert_eq!(shares(&[90, 10], start..start + 10), [9, 1]);
        assert_eq!(shares(&[500, 500], start..start + 2), [1, 1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A counter gives exact shares over as many draws as the sum of the weights.
    #[test]
    fn r10_counted_draws_split_exactly(
        weights in proptest::collection::vec(0..50u32, 1..6),
        start in 0..1_000_000u64,
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0));
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let exact: Vec<u64> = weights.iter().map(|&weight| u64::from(weight)).collect();
        prop_assert_eq!(shares(&weights, start..start + total), exact);
    }

    /// No target gets far ahead within these draws.
    #[test]
    fn r10_counted_draws_are_well_mixed(
        weights in proptest::collection::vec(1..200u32, 2..5),
        start in 0..1_000_000u64,
        length in 1..300u64,
    ) {
        let total: u32 = weights.iter().sum();
        let counts = shares(&weights, start..start + length);
        for (&count, &weight) in counts.iter().zip(&weights) {
            let due = length as f64 * f64::from(weight) / f64::from(total);
            prop_assert!((count as f64 - due).abs() <= 8.0, "{counts:?} for {weights:?}");
        }
    }

    /// Hashes give the same shares on average: within five standard deviations.
    #[test]
    fn r10_hashed_draws_split_in_proportion(
        weights in proptest::collection::vec(1..50u32, 1..6),
        seed in any::<u64>(),
    ) {
        let count = 5000;
        let mut state = seed;
        let draws = (0..count).map(|_| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            state ^ (state >> 33)
        });
        let counts = shares(&weights, draws);
        let total: u32 = weights.iter().sum();
        for (&found, &weight) in counts.iter().zip(&weights) {
            let share = f64::from(weight) / f64::from(total);
            let deviation = (f64::from(count) * share * (1.0 - share)).sqrt();
            let gap = (found as f64 - f64::from(count) * share).abs();
            prop_assert!(gap <= 5.0 * deviation + 1.0, "{counts:?} for {weights:?}");
        }
    }
}
