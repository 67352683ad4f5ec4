//! Batches until all their lines have results.

use super::*;

#[tokio::test]
async fn d10_a_batch_is_stored_unchanged() {
    let mut world = World::new();
    world.add("batch_1").await;
    world.reopen();
    assert_eq!(world.batch("batch_1").await, batch("batch_1"));
    assert_eq!(world.due(0).await, (vec!["batch_1".to_owned()], false));
}

/// A file of the version before batches had headers.
#[tokio::test]
async fn d10_a_batch_of_an_older_file_has_no_headers() {
    let mut world = World::new();
    world.add("batch_1").await;
    world.store = None;
    let shell = rusqlite::Connection::open(world.folder.join("queue.db")).unwrap();
    let older = "DROP INDEX open_batches; ALTER TABLE batches DROP COLUMN address; \
                 ALTER TABLE batches DROP COLUMN headers; DROP INDEX owned_files; \
                 DROP INDEX owned_batches; ALTER TABLE batches DROP COLUMN owner; \
                 ALTER TABLE files DROP COLUMN owner; PRAGMA user_version = 2;";
    shell.execute_batch(older).unwrap();
    drop(shell);
    world.reopen();
    let expected = Batch { headers: Default::default(), ..batch("batch_1") };
    assert_eq!(world.batch("batch_1").await, expected);
}

#[tokio::test]
async fn d10_lines_are_queued_once_despite_crashes() {
    let mut world = World::new();
    world.add("batch_1").await;
    let lines = |from: u64, to: u64| (from + 1..=to).map(|line| message("batch_1", line)).collect();
    for (from, to) in [(0, 3), (3, 6), (6, 7)] {
        assert!(world.ledger().accept("batch_1", 7, None).await.unwrap());
        assert!(world.ledger().enqueue("batch_1", from, lines(from, to), at(5)).await.unwrap());
        assert!(!world.ledger().enqueue("batch_1", from, lines(from, to), at(5)).await.unwrap());
        // These lines are completed before the next ones are submitted.
        for claim in world.claim(10).await {
            assert!(world.answer(&claim, 200).await);
        }
        world.reopen();
        assert_eq!(world.batch("batch_1").await.queued, to);
    }
    assert_eq!(world.status("batch_1").await, Status::InProgress);
    assert_eq!(world.batch("batch_1").await.times.in_progress, Some(at(5)));
    assert!(!world.ledger().accept("batch_1", 9, None).await.unwrap());
    assert!(!world.ledger().enqueue("batch_1", 7, lines(7, 8), at(5)).await.unwrap());
    assert_eq!(world.claim(10).await, []);
    assert_eq!(world.counts("batch_1").await, (7, 7, 0));
}

#[tokio::test]
async fn d10_counts_follow_the_answers() {
    let mut world = World::new();
    world.begin("batch_1", 4).await;
    world.begin("batch_2", 1).await;
    let claims = world.claim(4).await;
    assert_eq!(world.counts("batch_1").await, (4, 0, 0));
    for (claim, status) in claims.iter().zip([200, 299, 404]) {
        assert!(world.answer(claim, status).await);
    }
    let failed = Outcome::failed(Outcome::FAILED, "five times");
    assert!(world.store().dead_letter(claims[3].reference.clone(), failed, at(8)).await.unwrap());
    world.reopen();
    assert_eq!(world.counts("batch_1").await, (4, 2, 2));
    assert_eq!(world.due(99).await, (vec!["batch_1".to_owned()], true), "the other has time left");
    assert_eq!(world.due(100).await.0.len(), 2);
    assert_eq!(world.counts("batch_2").await, (1, 0, 0));
}

#[tokio::test]
async fn d10_an_invalid_batch_ends_with_its_errors() {
    let mut world = World::new();
    world.add("batch_1").await;
    let flaws = "[{\"line\":3}]".to_owned();
    let fail = |ledger: Ledger| {
        let flaws = flaws.clone();
        async move { ledger.fail("batch_1", Status::Validating, flaws, at(9)).await.unwrap() }
    };
    assert!(fail(world.ledger()).await);
    assert!(!fail(world.ledger()).await);
    world.reopen();
    let batch = world.batch("batch_1").await;
    assert_eq!((batch.status, batch.times.ended), (Status::Failed, Some(at(9))));
    assert_eq!(batch.flaws, Some(flaws));
    assert!(world.ledger().clear("batch_1", 10).await.unwrap());
    assert_eq!(world.due(0).await, (Vec::new(), false));
}
