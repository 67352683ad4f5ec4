//! Files and lists.

use super::*;
use crate::ledger::Removed;

async fn names(world: &World, page: ListQuery) -> (Vec<String>, bool) {
    let listed = world.ledger().files(page).await.unwrap().unwrap();
    (listed.rows.into_iter().map(|file| file.id).collect(), listed.more)
}

#[tokio::test]
async fn d10_files_are_listed_page_by_page_in_both_orders() {
    let mut world = World::new();
    for id in ["a", "b", "c", "d"] {
        let purpose = if id == "c" { "batch_output" } else { "batch" };
        let file = File { purpose: purpose.into(), ..file(id) };
        assert_eq!(world.ledger().add_file(file, u64::MAX).await, Ok(Added::Kept));
    }
    world.reopen();
    assert_eq!(world.ledger().file("a").await, Ok(Some(file("a"))));
    assert_eq!(world.ledger().file("x").await, Ok(None));
    let all = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&world, page(4)).await, (all(&["d", "c", "b", "a"]), false));
    assert_eq!(names(&world, page(3)).await, (all(&["d", "c", "b"]), true));
    let after = |id: &str, most| ListQuery { after: Some(id.into()), ..page(most) };
    assert_eq!(names(&world, after("b", 3)).await, (all(&["a"]), false));
    let oldest = ListQuery { oldest_first: true, ..after("b", 1) };
    assert_eq!(names(&world, oldest).await, (all(&["c"]), true));
    let batch = ListQuery { purpose: Some("batch".into()), ..page(9) };
    assert_eq!(names(&world, batch).await, (all(&["d", "b", "a"]), false));
    assert_eq!(world.ledger().files(after("x", 9)).await, Ok(None));
    assert_eq!(world.ledger().all_files().await, Ok((all(&["a", "b", "c", "d"]), 400)));
}

#[tokio::test]
async fn d10_a_file_is_removed_unless_a_batch_needs_it() {
    let world = World::new();
    world.add("batch_1").await;
    let ledger = world.ledger();
    let needed = Removed::Used("batch_1".into());
    assert_eq!(ledger.remove_file("file-batch_1").await, Ok(needed));
    assert_eq!(ledger.old_files(at(500), 9).await, Ok(Vec::new()), "nor by its age");
    ledger.fail("batch_1", Status::Validating, "[]".into(), at(9)).await.unwrap();
    assert_eq!(ledger.old_files(at(499), 9).await, Ok(Vec::new()));
    assert_eq!(ledger.old_files(at(500), 9).await, Ok(vec!["file-batch_1".to_owned()]));
    assert_eq!(ledger.remove_file("file-batch_1").await, Ok(Removed::Gone(100)));
    assert_eq!(ledger.remove_file("file-batch_1").await, Ok(Removed::Unknown));
    assert_eq!(ledger.file("file-batch_1").await, Ok(None));
}

#[tokio::test]
async fn d10_a_batch_needs_a_file_that_is_for_batches() {
    let world = World::new();
    let ledger = world.ledger();
    assert_eq!(ledger.add_batch(batch("batch_1")).await, Ok(Added::NoInput));
    let output = File { purpose: "batch_output".into(), ..file("file-batch_1") };
    ledger.add_file(output, u64::MAX).await.unwrap();
    assert_eq!(ledger.add_batch(batch("batch_1")).await, Ok(Added::NoInput));
    assert_eq!(ledger.batch("batch_1").await, Ok(None));
}

#[tokio::test]
async fn x03_only_so_many_batches_are_under_way() {
    let world = World::new();
    world.add("batch_0").await;
    let more = |number: u64| {
        let ledger = world.ledger();
        let batch = Batch { input: "file-batch_0".into(), ..batch(&format!("batch_{number}")) };
        async move { ledger.add_batch(batch).await.unwrap() }
    };
    // Concurrently, so that they share one fsync.
    let tasks: Vec<_> = (1..1000).map(|number| tokio::spawn(more(number))).collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), Added::Kept);
    }
    assert_eq!(more(1000).await, Added::TooMany);
    world.ledger().fail("batch_7", Status::Validating, "[]".into(), at(9)).await.unwrap();
    assert_eq!(more(1000).await, Added::TooMany, "its lines must be cleared first");
    assert!(world.ledger().clear("batch_7", 10).await.unwrap());
    assert_eq!(more(1000).await, Added::Kept);
}

#[tokio::test]
async fn x03_one_address_leaves_a_quarter_of_the_batches_to_others() {
    let world = World::new();
    world.add("batch_0").await;
    let more = |number: u64, address: &str| {
        let ledger = world.ledger();
        let (input, address) = ("file-batch_0".into(), address.to_owned());
        let batch = Batch { input, address, ..batch(&format!("batch_{number}")) };
        async move { ledger.add_batch(batch).await.unwrap() }
    };
    let tasks: Vec<_> = (1..=750).map(|number| tokio::spawn(more(number, "10.0.0.1"))).collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), Added::Kept);
    }
    assert_eq!(more(751, "10.0.0.1").await, Added::TooMany);
    assert_eq!(more(752, "10.0.0.2").await, Added::Kept);
    world.ledger().fail("batch_7", Status::Validating, "[]".into(), at(9)).await.unwrap();
    assert!(world.ledger().clear("batch_7", 10).await.unwrap());
    assert_eq!(more(753, "10.0.0.1").await, Added::Kept);
}

#[tokio::test]
async fn d10_batches_are_listed_page_by_page() {
    let world = World::new();
    for id in ["batch_1", "batch_2", "batch_3"] {
        world.add(id).await;
    }
    let listed = world.ledger().batches(page(2)).await.unwrap().unwrap();
    let ids: Vec<_> = listed.rows.iter().map(|batch| batch.id.as_str()).collect();
    assert_eq!((ids, listed.more), (vec!["batch_3", "batch_2"], true));
    let rest = ListQuery { after: Some("batch_2".into()), ..page(2) };
    let listed = world.ledger().batches(rest).await.unwrap().unwrap();
    assert_eq!((listed.rows, listed.more), (vec![batch("batch_1")], false));
}
