//! The rules of the routers without a queue.

use super::super::routed::{Routed, RoutingRule};
use super::*;

/// The tokens of one segment of a prompt.
const SEGMENT: u32 = 512;

fn router(rule: RoutingRule, engines: usize) -> Routed {
    let mut policy = Routed::new(rule);
    policy.engines(&vec![true; engines], START);
    policy
}

/// Offers a prompt of these segments; returns the engine that it goes to.
fn send(policy: &mut Routed, request: RequestId, prefix: &[u64]) -> u32 {
    let known = &Tenant { name: "t".into(), weight: 1.0 };
    let prompt = SEGMENT * prefix.len() as u32;
    let band = Band::Normal;
    policy.offer(&Offer { request, tenant: 0, known, band, prompt, prefix, ttl: None }, START);
    match sent(policy)[..] {
        [(sent, engine)] if sent == request => engine,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn least_load_counts_requests_and_ignores_prompts() {
    let mut policy = router(RoutingRule::LeastLoad, 3);
    let engines: Vec<_> = (0..4).map(|request| send(&mut policy, request, &[7; 12])).collect();
    assert_eq!(engines, [0, 1, 2, 0], "the same prompt goes everywhere");
    policy.ended(1, Spent::default(), START);
    assert_eq!(send(&mut policy, 4, &[7; 12]), 1);
    policy.gave_up(2, Spent::default(), START);
    policy.engines(&[true, true, false], START);
    assert_eq!(send(&mut policy, 5, &[7; 12]), 1, "an engine that is not ready is left out");
}

#[test]
fn affinity_goes_where_most_of_the_prompt_is() {
    let mut policy = router(RoutingRule::Affinity, 2);
    assert_eq!(send(&mut policy, 0, &[1; 10]), 0);
    assert_eq!(send(&mut policy, 1, &[2; 10]), 1);
    // Four fifths of a prompt are enough, less is not.
    let parts = |own: usize| -> Vec<u64> {
        std::iter::repeat_n(2, 10 - own).chain(std::iter::repeat_n(9, own)).collect()
    };
    assert_eq!(send(&mut policy, 2, &parts(2)), 1);
    assert_eq!(send(&mut policy, 3, &parts(3)), 0, "the engine with fewer tokens");
}

/// 18 s at 16,000 tokens a second are 288,000 tokens.
#[test]
fn affinity_ends_where_a_cold_engine_starts_much_sooner() {
    let mut policy = router(RoutingRule::Affinity, 2);
    let prompt = [3; 100];
    let engines: Vec<_> = (0..8).map(|request| send(&mut policy, request, &prompt)).collect();
    // Six prompts are 307,200 tokens more than none. Then both engines have the prompt.
    assert_eq!(engines, [0, 0, 0, 0, 0, 0, 1, 1]);
}

#[test]
fn a_tree_goes_by_the_prompt_while_loads_are_balanced() {
    let mut policy = router(RoutingRule::BalancedTree, 2);
    let engines: Vec<_> = (0..65).map(|request| send(&mut policy, request, &[4; 10])).collect();
    assert_eq!(engines, [0; 65], "64 more requests are balanced");
    assert_eq!(send(&mut policy, 65, &[4; 10]), 1, "65 more are not");
    assert_eq!(send(&mut policy, 66, &[5; 10]), 0, "with nothing in common, the smaller tree");
}

#[test]
fn what_an_engine_did_not_touch_is_sent_again_and_the_rest_is_not() {
    for rule in [RoutingRule::LeastLoad, RoutingRule::Affinity, RoutingRule::BalancedTree] {
        let mut policy = router(rule, 1);
        assert_eq!(send(&mut policy, 0, &[1]), 0);
        policy.failed(0, Failure::Untouched, START);
        assert_eq!(sent(&mut policy), [(0, 0)]);
        policy.failed(0, Failure::Exhausted, START);
        assert_eq!(policy.decide(), None);
        policy.engines(&[false], START);
        offer(&mut policy, 1, 0, Band::Normal);
        assert_eq!(policy.decide(), Some(Decision::refuse(1, RefusalReason::NoEngine)));
    }
}
