//! The kind `aimd`.

use super::*;

fn aimd(min: u32, max: u32) -> Arc<Gates> {
    gates(&[gate("g", GateKind::Aimd(AimdGate { min, max }), Capacity::FromSource)])
}

fn room(gates: &Gates) -> u64 {
    gates.room(&set(gates))
}

#[test]
fn d02_good_responses_open_it_and_an_overload_halves_it() {
    let gates = aimd(4, 100);
    assert_eq!(room(&gates), 4);
    let permits = take_all(&gates);
    permits.iter().for_each(GatePermit::succeeded);
    assert_eq!(room(&gates), 4, "eight may be in flight");
    let more = take_all(&gates);
    more.iter().for_each(GatePermit::succeeded);
    assert_eq!(gates.status()[0].system, Some(12.0));
    permits.iter().chain(&more).for_each(|permit| permit.congested(None));
    assert!(gates.status()[0].state.starts_with("congested for"));
    assert_eq!(room(&gates), 0);
    drop((permits, more));
    assert_eq!(gates.states()[0].budget.in_flight(), 0);
}

/// Eight overloads at once count once, and the gate opens again without a reading.
#[tokio::test]
async fn d05_it_opens_with_half_when_the_hold_is_over() {
    let gates = aimd(8, 100);
    let _polling = polled(&gates);
    let permits = take_all(&gates);
    permits.iter().for_each(GatePermit::succeeded);
    permits.iter().for_each(|permit| permit.congested(None));
    drop(permits);
    let state = until(&gates, "open", |gate| gate.open).await;
    assert_eq!((state.left, state.threshold), (8, 0.0), "16 were cut to half");
    assert_eq!(state.source, "responses, 8 to 100 in flight");
}
