//! The floor is only worth comparing with if it is a fair queue.

use sim::random::Random;

use super::Floor;
use crate::controller::draw::below;

const FAR: u64 = 20_000_000_000;

#[test]
fn backlogged_flows_get_the_same_service() {
    let mut floor = Floor::new(7);
    let mut random = Random::new(1);
    for _ in 0..70_000 {
        floor.offer(below(&mut random, 7), 1 + below(&mut random, 1000), FAR);
    }
    let mut served = [0i64; 7];
    for _ in 0..10_000 {
        let at = floor.grant().unwrap();
        let actual = 1 + below(&mut random, 1000);
        served[floor.nodes[at as usize].flow as usize] += i64::from(actual);
        floor.settle(at, actual);
        let (most, least) = (served.iter().max().unwrap(), served.iter().min().unwrap());
        assert!(most - least <= 2000, "{served:?}");
    }
}

#[test]
fn asks_of_a_flow_go_in_order_and_cancelled_ones_do_not_go() {
    let mut floor = Floor::new(1);
    let asks: Vec<u32> = (0..9).map(|_| floor.offer(0, 5, FAR)).collect();
    for &at in asks.iter().step_by(2) {
        floor.cancel(at);
    }
    let granted: Vec<u32> = std::iter::from_fn(|| floor.grant()).collect();
    assert_eq!(granted, [asks[1], asks[3], asks[5], asks[7]]);
}

#[test]
fn every_ask_expires_once_and_none_early() {
    let mut floor = Floor::new(3);
    let mut random = Random::new(2);
    let mut deadlines = vec![0; 5000];
    for _ in 0..5000 {
        let deadline = u64::from(below(&mut random, 1_000_000_000));
        deadlines[floor.offer(below(&mut random, 3), 1, deadline) as usize] = deadline;
    }
    let mut gone = 0;
    for millis in 0..=1002 {
        let (now, mut expired) = (millis * 1_000_000, Vec::new());
        floor.wake(now, &mut expired);
        gone += expired.len();
        assert!(expired.iter().all(|&at| deadlines[at as usize] <= now));
    }
    assert_eq!(gone, 5000);
    assert_eq!(floor.grant(), None);
}
