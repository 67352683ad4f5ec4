//! The end of batches: finished, cancelled, expired, deleted.

use super::*;
use crate::ledger::BatchOutput;

fn written(counts: (u64, u64, u64), output: Option<&str>, failures: Option<&str>) -> BatchOutput {
    let (total, completed, failed) = counts;
    let made = |id: &str| File { purpose: "batch_output".into(), ..file(id) };
    BatchOutput {
        output: output.map(made),
        failures: failures.map(made),
        counts: RequestCounts { total, completed, failed },
    }
}

/// The status of all results, in the order of the lines.
async fn results(world: &World, id: &str, bytes: usize) -> Vec<(u64, Option<u16>)> {
    let mut places = Vec::new();
    while let Ok(more) = world.ledger().places(id, places.last().map_or(0, number), 2).await
        && !more.is_empty()
    {
        assert!(more.len() <= 2);
        places.extend(more);
    }
    places.sort_by_key(|place| place.line);
    let mut found = Vec::new();
    while !places.is_empty() {
        let page = world.ledger().results(places.clone(), bytes).await.unwrap();
        assert!(!page.is_empty());
        assert!(bytes > 1 || page.len() == 1, "no more than fit, and one at least");
        places.drain(..page.len());
        found.extend(page.into_iter().map(|(line, stored)| (line, stored.status)));
    }
    found
}

fn number(place: &crate::ledger::ResultPlace) -> i64 {
    place.number
}

#[tokio::test]
async fn d10_results_are_read_in_the_order_of_the_lines_and_cleared_after_the_end() {
    let mut world = World::new();
    world.begin("batch_1", 5).await;
    world.begin("batch_10", 1).await;
    let mut claims = world.claim(5).await;
    claims.reverse();
    for (claim, status) in claims.iter().zip([500, 200, 200, 404, 200]) {
        assert!(world.answer(claim, status).await);
    }
    let ledger = world.ledger();
    assert!(ledger.begin_ending("batch_1", Status::Completed, at(20)).await.unwrap());
    assert!(!ledger.begin_ending("batch_1", Status::Expired, at(21)).await.unwrap());
    drop(ledger);
    world.reopen();
    assert_eq!(world.status("batch_1").await, Status::Finalizing);
    let all = [(1, Some(200)), (2, Some(404)), (3, Some(200)), (4, Some(200)), (5, Some(500))];
    for bytes in [1, 30, 1000] {
        assert_eq!(results(&world, "batch_1", bytes).await, all);
    }
    assert_eq!(world.ledger().clear("batch_1", 2).await, Ok(true));
    assert_eq!(results(&world, "batch_1", 30).await, all, "nothing goes before the end");

    let end = || written((5, 3, 2), Some("file-out"), Some("file-err"));
    assert!(world.ledger().finish("batch_1", end(), at(22)).await.unwrap());
    assert!(!world.ledger().finish("batch_1", end(), at(23)).await.unwrap());
    world.reopen();
    let batch = world.batch("batch_1").await;
    assert_eq!((batch.status, batch.times.ended), (Status::Completed, Some(at(22))));
    assert_eq!(batch.output.as_deref(), Some("file-out"));
    assert_eq!(batch.failures.as_deref(), Some("file-err"));
    assert_eq!(world.counts("batch_1").await, (5, 3, 2));
    assert_eq!(world.ledger().file("file-out").await.unwrap().unwrap().purpose, "batch_output");

    let mut steps = 0;
    while !world.ledger().clear("batch_1", 2).await.unwrap() {
        world.reopen();
        steps += 1;
    }
    assert!(steps >= 3, "so many at most in each of {steps} steps");
    assert_eq!(results(&world, "batch_1", 30).await, []);
    assert_eq!(world.counts("batch_1").await, (5, 3, 2));
    assert_eq!(world.due(0).await, (Vec::new(), true), "the other one is as it was");
    assert_eq!(world.claim(9).await.len(), 1);
}

#[tokio::test]
async fn d10_cancelling_ends_pending_lines_and_marks_claimed_ones() {
    let world = World::new();
    world.begin("batch_1", 4).await;
    let claims = world.claim(2).await;
    let ledger = world.ledger();
    let (batch, changed) = ledger.begin_cancel("batch_1", at(10)).await.unwrap().unwrap();
    assert_eq!((batch.status, changed), (Status::Cancelling, true));
    let (batch, changed) = ledger.begin_cancel("batch_1", at(11)).await.unwrap().unwrap();
    assert_eq!((batch.times.cancelling, changed), (Some(at(10)), false));
    assert_eq!(ledger.begin_cancel("batch_2", at(10)).await, Ok(None));

    let woken = world.store().changed();
    assert_eq!(ledger.give_up("batch_1", at(12)).await, Ok(2));
    woken.await;
    assert_eq!(world.counts("batch_1").await, (4, 0, 2));
    let held = claims.iter().map(|claim| claim.reference.clone()).collect();
    let standing = world.store().standing(held).await.unwrap();
    assert_eq!(standing, [crate::Standing::Cancelled; 2]);
    // The first claim is completed before its holder learns of the cancellation, the second never.
    assert!(world.answer(&claims[0], 200).await);
    assert_eq!(ledger.give_up("batch_1", at(13)).await, Ok(1));
    assert_eq!(ledger.abandon("batch_1").await, Ok(1));
    assert!(!world.answer(&claims[1], 200).await, "it comes too late");
    assert_eq!(ledger.give_up("batch_1", at(14)).await, Ok(0));
    assert_eq!(results(&world, "batch_1", 99).await, [(1, Some(200)), (3, None), (4, None)]);
    assert!(ledger.finish("batch_1", written((4, 1, 3), None, None), at(15)).await.unwrap());
    assert_eq!(world.status("batch_1").await, Status::Cancelled);
}

#[tokio::test]
async fn d10_a_batch_that_is_cancelled_while_it_is_queued_takes_no_more_lines() {
    let world = World::new();
    world.add("batch_1").await;
    let ledger = world.ledger();
    assert!(ledger.accept("batch_1", 2, None).await.unwrap());
    assert!(ledger.enqueue("batch_1", 0, vec![message("batch_1", 1)], at(5)).await.unwrap());
    ledger.begin_cancel("batch_1", at(10)).await.unwrap();
    assert!(!ledger.enqueue("batch_1", 1, vec![message("batch_1", 2)], at(5)).await.unwrap());
    assert!(!ledger.accept("batch_1", 2, None).await.unwrap());
    assert!(!ledger.fail("batch_1", Status::Validating, "[]".into(), at(6)).await.unwrap());
    assert!(!ledger.begin_ending("batch_1", Status::Expired, at(7)).await.unwrap());
    assert_eq!(ledger.give_up("batch_1", at(12)).await, Ok(0));
    assert_eq!(world.counts("batch_1").await, (2, 0, 1));
}

#[tokio::test]
async fn d10_a_batch_that_has_not_begun_to_end_does_not_end() {
    let world = World::new();
    world.begin("batch_1", 1).await;
    let ledger = world.ledger();
    assert!(!ledger.finish("batch_1", written((1, 1, 0), None, None), at(9)).await.unwrap());
    assert_eq!(world.status("batch_1").await, Status::InProgress);
}

#[tokio::test]
async fn d10_batches_that_ended_long_ago_are_deleted() {
    let world = World::new();
    for (id, end) in [("batch_1", 10), ("batch_2", 20), ("batch_3", 5)] {
        world.add(id).await;
        world.ledger().fail(id, Status::Validating, "[]".into(), at(end)).await.unwrap();
        if id != "batch_3" {
            world.ledger().clear(id, 10).await.unwrap();
        }
    }
    world.add("batch_4").await;
    let is_old = |now, old| {
        let ledger = world.ledger();
        async move { ledger.due(at(now), at(old)).await.unwrap().old }
    };
    assert!(!is_old(499, 5).await);
    assert!(is_old(499, 6).await, "a batch");
    assert!(is_old(500, 5).await, "a file");
    assert_eq!(world.ledger().forget_batches(at(10), 9).await, Ok(0));
    assert_eq!(world.ledger().forget_batches(at(99), 1).await, Ok(1));
    assert_eq!(world.ledger().batch("batch_1").await, Ok(None), "the oldest first");
    assert_eq!(world.ledger().forget_batches(at(99), 9).await, Ok(1));
    assert_eq!(world.status("batch_3").await, Status::Failed, "not before it is cleared");
    assert_eq!(world.status("batch_4").await, Status::Validating);
}
