//! The gate that looks at its answers.

use super::*;

fn aimd(min: u32, max: u32) -> Arc<Gates> {
    gates(&[spec("g", GateKind::Aimd { min, max }, System::Known)])
}

fn room(gates: &Gates) -> u64 {
    gates.room(&set(gates))
}

#[test]
fn d02_good_answers_open_it_and_a_refusal_halves_it() {
    let gates = aimd(4, 100);
    assert_eq!(room(&gates), 4);
    let passes = take_all(&gates);
    passes.iter().for_each(GatePermit::succeeded);
    assert_eq!(room(&gates), 4, "eight may be under way");
    let more = take_all(&gates);
    more.iter().for_each(GatePermit::succeeded);
    assert_eq!(gates.status()[0].system, Some(12.0));
    passes.iter().chain(&more).for_each(|pass| pass.congested(None));
    assert!(gates.status()[0].state.starts_with("congested for"));
    assert_eq!(room(&gates), 0);
    drop((passes, more));
    assert_eq!(gates.states()[0].budget.in_flight(), 0);
}

/// Eight refusals at once are one, and it opens again by itself.
#[tokio::test]
async fn d05_it_opens_with_half_when_the_hold_is_over() {
    let gates = aimd(8, 100);
    let _watching = watched(&gates);
    let passes = take_all(&gates);
    passes.iter().for_each(GatePermit::succeeded);
    passes.iter().for_each(|pass| pass.congested(None));
    drop(passes);
    let state = until(&gates, "open", |gate| gate.open).await;
    assert_eq!((state.left, state.threshold), (8, 0.0), "16 were cut to half");
    assert_eq!(state.source, "answers, 8 to 100 under way");
}
