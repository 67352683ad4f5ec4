//! M01: batch work against its deadlines.

use super::*;

fn lane(tenant: &str, waiting: u64, deadline: u64) -> Lane {
    Lane { tenant: tenant.into(), waiting, deadline: Moment::from_millis(deadline) }
}

#[test]
fn the_rate_that_batch_work_needs_follows_from_its_deadlines() {
    let now = Moment::from_millis(100_000);
    assert_eq!(BacklogDue::of(&[], now), None, "nothing is pending");
    // Ten in ten seconds, then ninety more in another ten.
    let lanes = [lane("late", 90, 120_000), lane("soon", 10, 110_000)];
    let due = BacklogDue { first_secs: 10.0, rate_needed: 5.0 };
    assert_eq!(BacklogDue::of(&lanes, now), Some(due), "a hundred in twenty seconds");
    let due = BacklogDue { first_secs: -50.0, rate_needed: 7.0 };
    assert_eq!(BacklogDue::of(&[lane("", 7, 50_000)], now), Some(due), "at once");
}
