//! D08 as far as it is pure: lanes get turns by their weights.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{LaneScheduler, Weight};

fn weight(value: f64) -> Weight {
    Weight::new(value).unwrap()
}

/// Plans this many turns and takes them all; adds up the turns of each lane.
fn serve<K: Ord + Clone>(
    turns: &mut LaneScheduler<K>,
    waiting: &[(K, f64, usize)],
    most: usize,
    got: &mut BTreeMap<K, usize>,
) {
    let lanes = waiting.iter().map(|(key, share, count)| (key.clone(), weight(*share), *count));
    for (key, count) in turns.plan(lanes, most) {
        let share = waiting.iter().find(|(lane, ..)| *lane == key).unwrap().1;
        (0..count).for_each(|_| turns.charge(&key, weight(share)));
        *got.entry(key).or_default() += count;
    }
}

#[test]
fn d08_lanes_share_by_their_weights() {
    for most in [1, 7, 100] {
        let (mut turns, mut got) = (LaneScheduler::default(), BTreeMap::new());
        let waiting = [("a", 1.0, 1000), ("b", 2.0, 1000), ("c", 5.0, 1000)];
        while got.values().sum::<usize>() < 800 {
            serve(&mut turns, &waiting, most, &mut got);
        }
        let total = got.values().sum::<usize>() as f64;
        for (key, share, _) in waiting {
            let due = total * share / 8.0;
            assert!((got[key] as f64 - due).abs() <= 1.0 + share, "{key}: {got:?}");
        }
    }
}

#[test]
fn d08_no_more_is_planned_than_there_is() {
    let mut turns = LaneScheduler::default();
    let lanes = [("a", weight(1.0), 2), ("b", weight(1000.0), 1), ("c", weight(1.0), 0)];
    let mut plan = turns.plan(lanes, 100);
    plan.sort_unstable();
    assert_eq!(plan, [("a", 2), ("b", 1)]);
    assert_eq!(turns.plan(lanes, 0), []);
    assert_eq!(turns.plan([], 10), []);
    assert!(turns.is_empty());
}

#[test]
fn d08_a_plan_that_is_not_carried_out_costs_nothing() {
    let mut turns = LaneScheduler::default();
    let lanes = [("a", weight(1.0), 9), ("b", weight(1.0), 9)];
    for _ in 0..50 {
        assert_eq!(turns.plan(lanes, 1), [("a", 1)], "it was not sent, so it is next again");
    }
    turns.charge(&"a", Weight::ONE);
    assert_eq!(turns.plan(lanes, 1), [("b", 1)]);
}

/// Turns are charged lane by lane, although they were planned alternately: a lane that was not
/// charged yet must not have its turns before a lane that joins now.
#[test]
fn d08_new_lanes_join_at_the_tag_of_lanes_with_planned_turns() {
    let mut turns = LaneScheduler::default();
    let lanes = [("a", weight(1.0), 99), ("b", weight(1.0), 99)];
    assert_eq!(turns.plan(lanes, 20), [("a", 10), ("b", 10)]);
    (0..10).for_each(|_| turns.charge(&"a", Weight::ONE));
    let plan = turns.plan([lanes[0], lanes[1], ("c", weight(1.0), 99)], 12);
    assert_eq!(plan, [("b", 6), ("c", 6)]);
}

#[test]
fn d08_an_idle_lane_saves_up_no_credit() {
    let (mut turns, mut got) = (LaneScheduler::default(), BTreeMap::new());
    let both = [("a", 1.0, 99), ("b", 1.0, 99)];
    serve(&mut turns, &both, 2, &mut got);
    (0..100).for_each(|_| serve(&mut turns, &both[..1], 5, &mut got));
    let mut got = BTreeMap::new();
    serve(&mut turns, &both, 20, &mut got);
    assert!(got["a"].abs_diff(got["b"]) <= 2, "{got:?}");
}

/// Two levels: the share of a queue does not depend on the number and the weights of its tenants.
#[test]
fn d08_tenants_cannot_change_their_queues_share() {
    let mut queues = LaneScheduler::default();
    let mut tenants = [LaneScheduler::default(), LaneScheduler::default()];
    let mut got: BTreeMap<(usize, u32), usize> = BTreeMap::new();
    for _ in 0..100 {
        let waiting = [(0, weight(3.0), 1000), (1, weight(1.0), 1000)];
        for (queue, count) in queues.plan(waiting, 16) {
            let lanes: Vec<(u32, f64, usize)> = match queue {
                0 => vec![(0, 1.0, 1000), (1, 4.0, 1000)],
                _ => (0..50).map(|tenant| (tenant, 100.0, 1000)).collect(),
            };
            let mut inside = BTreeMap::new();
            serve(&mut tenants[queue], &lanes, count, &mut inside);
            for (tenant, count) in inside {
                *got.entry((queue, tenant)).or_default() += count;
                (0..count).for_each(|_| queues.charge(&queue, waiting[queue].1));
            }
        }
    }
    let of = |queue| got.range((queue, 0)..(queue + 1, 0)).map(|(_, count)| count).sum::<usize>();
    assert_eq!((of(0), of(1)), (1200, 400));
    assert_eq!((got[&(0, 0)], got[&(0, 1)]), (240, 960));
}

/// A lane whose turn cannot be taken now keeps its place: lanes that go on pass it by no more than
/// they could take.
#[test]
fn d08_a_lane_without_room_keeps_its_place() {
    let mut turns = LaneScheduler::default();
    let lanes = [("a", weight(3.0), 1000), ("b", weight(1.0), 1000)];
    let (mut got, mut room) = (BTreeMap::new(), 0);
    for _ in 0..400 {
        assert_eq!(turns.plan_while(lanes, 10, |_| false), []);
        room = 1;
        for (key, count) in turns.plan_while(lanes, 10, |_| std::mem::take(&mut room) > 0) {
            assert_eq!(count, 1);
            turns.charge(&key, if key == "a" { lanes[0].1 } else { lanes[1].1 });
            *got.entry(key).or_insert(0) += 1;
        }
    }
    assert!((299..=301).contains(&got["a"]) && got["a"] + got["b"] == 400, "{got:?}");
    assert_eq!(room, 0);
}

/// Names that are used once are forgotten, and have no advantage over a name that is kept.
#[test]
fn d08_a_flood_of_names_neither_starves_a_lane_nor_fills_memory() {
    let mut turns = LaneScheduler::default();
    let mut kept = 0;
    for round in 0..20_000_u32 {
        let lanes = [(0, Weight::ONE, 1), (round + 1, Weight::ONE, 1)];
        let (lane, _) = turns.plan(lanes, 1)[0];
        turns.charge(&lane, Weight::ONE);
        kept += u32::from(lane == 0);
        assert!(turns.len() <= 4, "{} after {round}", turns.len());
    }
    assert!((9_900..=20_000).contains(&kept), "{kept}");
    // Lanes of low weight stay ahead for long, and even of those not all are remembered.
    for round in 0..9_000 {
        let lanes = [(0, weight(1000.0), 1), (round + 1, weight(0.01), 1)];
        turns.plan(lanes, 1);
        turns.charge(&(round + 1), weight(0.01));
    }
    assert!(turns.len() <= 4_100, "{}", turns.len());
}

proptest! {
    /// While two lanes wait, their turns over weight never differ by more than one step of each,
    /// whatever other lanes do, and however many turns are planned at once.
    #[test]
    fn d08_two_waiting_lanes_stay_within_the_bound(
        pair in (0.01..100.0_f64, 0.01..100.0_f64),
        plans in prop::collection::vec(
            (0..40_usize, prop::collection::vec((2..8_u32, 0.01..100.0_f64, 0..5_usize), 0..4)),
            1..80,
        ),
    ) {
        let (mut turns, mut got) = (LaneScheduler::default(), BTreeMap::new());
        let shares = [weight(pair.0).value(), weight(pair.1).value()];
        for (most, others) in plans {
            let mut waiting = vec![(0, pair.0, 1000), (1, pair.1, 1000)];
            for (key, share, count) in others {
                if waiting.iter().all(|(lane, ..)| *lane != key) {
                    waiting.push((key, share, count));
                }
            }
            serve(&mut turns, &waiting, most, &mut got);
            let of = |lane: u32| got.get(&lane).copied().unwrap_or(0) as f64;
            let gap = (of(0) / shares[0] - of(1) / shares[1]).abs();
            let bound = shares[0].recip() + shares[1].recip();
            prop_assert!(gap <= bound * 1.0001, "{} of {}", gap, bound);
        }
    }

    #[test]
    fn d08_every_turn_is_used_while_something_waits(
        lanes in prop::collection::vec((0.01..100.0_f64, 0..10_usize), 0..10),
        most in 0..60_usize,
    ) {
        let lane = |(at, &(share, count)): (usize, &(f64, usize))| (at, weight(share), count);
        let waiting: Vec<(usize, Weight, usize)> = lanes.iter().enumerate().map(lane).collect();
        let plan = LaneScheduler::default().plan(waiting, most);
        let total: usize = lanes.iter().map(|(_, count)| count).sum();
        prop_assert_eq!(plan.iter().map(|(_, count)| count).sum::<usize>(), total.min(most));
        prop_assert!(plan.iter().all(|&(at, count)| count > 0 && count <= lanes[at].1));
    }
}
