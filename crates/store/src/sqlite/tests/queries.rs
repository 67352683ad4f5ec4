//! The cost of queries, counted and not timed.

use std::time::Duration;

use rusqlite::StatementStatus;

use super::super::{cancel, lanes, list_dead_letters, receipts, reclaim, take_results};
use super::{QUEUE, claim, fresh, message, now};
use crate::{Message, Moment, Outcome, Receipt, Reclaimed, Release, SqliteStore, Store};

/// The query plan of SQLite.
async fn plan(store: &SqliteStore, sql: &'static str) -> String {
    let explain = move |tx: &rusqlite::Transaction<'_>| {
        let mut sql = tx.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        let blanks = vec![None::<i64>; sql.parameter_count()];
        let lines = sql.query_map(rusqlite::params_from_iter(blanks), |row| row.get(3))?;
        lines.collect::<Result<Vec<String>, _>>()
    };
    let lines = store.read(explain).await.unwrap();
    lines.join("; ")
}

#[tokio::test]
async fn every_frequent_query_uses_an_index() {
    let (store, _folder) = fresh();
    let asked = [
        (super::super::claim::NEXT, "turns (queue=? AND tenant=?)"),
        (lanes::LANES, "turns (queue=? AND tenant=?)"),
        (take_results::RESULTS, "answers (route=?)"),
        (reclaim::DUE, "wakes (queue=? AND state=? AND due<?)"),
        (reclaim::NEXT_DUE, "wakes (queue=? AND state=?"),
        (cancel::ROUTE_WAITING, "routed (route=?)"),
        (cancel::ROUTE_CLAIMED, "routed (route=?)"),
        (list_dead_letters::DEAD_LETTERS, "graves (queue=? AND number>?)"),
        (receipts::AGED, "receipts (ended<?)"),
        (receipts::EXCESS, "COVERING INDEX receipts"),
    ];
    for (sql, index) in asked {
        let plan = plan(&store, sql).await;
        assert!(plan.contains(index), "{sql}: {plan}");
        assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{sql}: {plan}");
    }
}

#[tokio::test]
async fn lanes_are_listed_without_counting_messages() {
    let (store, _folder) = fresh();
    for chunk in 0..50 {
        let tenant = format!("t{}", chunk % 5);
        let numbers = chunk * 1000..(chunk + 1) * 1000;
        let messages = numbers.map(|number| Message {
            tenant: tenant.clone(),
            deadline: now().after(Duration::from_secs(number)),
            ..message(&format!("m{number}"))
        });
        store.submit(messages.collect(), now()).await.unwrap();
    }
    let lanes = store.lanes(QUEUE, now()).await.unwrap();
    assert_eq!(lanes.iter().map(|lane| lane.waiting).collect::<Vec<_>>(), [10_000; 5]);
    let deadlines = lanes.iter().map(|lane| lane.deadline.since(now()).as_secs());
    assert_eq!(deadlines.collect::<Vec<_>>(), [0, 1000, 2000, 3000, 4000]);
    let steps = |tx: &rusqlite::Transaction<'_>| {
        let mut sql = tx.prepare(lanes::LANES)?;
        let count = sql.query_map([QUEUE], |_| Ok(()))?.count();
        Ok::<_, rusqlite::Error>((count, sql.get_status(StatementStatus::VmStep)))
    };
    let (count, steps) = store.read(steps).await.unwrap();
    assert_eq!(count, 5);
    assert!(steps < 500, "{steps} steps for five lanes of 50000 messages");
}

#[tokio::test]
async fn reclaim_returns_exactly_when_the_next_message_is_due() {
    let (store, _folder) = fresh();
    assert_eq!(store.reclaim(QUEUE, now()).await.unwrap(), Reclaimed::default());
    store.submit(vec![message("a"), message("b")], now()).await.unwrap();
    let claims = claim(&store, 2).await;
    let after = |secs| now().after(Duration::from_secs(secs));
    assert_eq!(store.reclaim(QUEUE, now()).await.unwrap().next, Some(after(60)));
    let back = Release { due: after(7), failed: false };
    assert!(store.release(claims[0].reference.clone(), back, now()).await.unwrap());
    assert_eq!(store.reclaim(QUEUE, now()).await.unwrap().next, Some(after(7)));
    let reclaimed = store.reclaim(QUEUE, after(7)).await.unwrap();
    assert_eq!(reclaimed, Reclaimed { lost: 0, due: 1, next: Some(after(60)) });
}

/// Submits messages, and completes them all at this time.
async fn end_all(store: &SqliteStore, messages: &[Message], at: Moment) {
    store.submit(messages.to_vec(), now()).await.unwrap();
    let mut claims = claim(store, 250).await;
    while let Some(claimed) = claims.pop() {
        let outcome = Outcome::failed(Outcome::FAILED, "x");
        store.complete(claimed.reference, outcome, at).await.unwrap();
        if claims.is_empty() {
            claims = claim(store, 250).await;
        }
    }
}

#[tokio::test]
async fn receipts_are_deleted_after_a_day() {
    let (store, _folder) = fresh();
    let old: Vec<Message> = (0..1500).map(|number| message(&format!("old{number}"))).collect();
    end_all(&store, &old, now()).await;
    let hours = |hours: u64| now().after(Duration::from_secs(hours * 3600));
    let next: Vec<Message> = (0..1000).map(|number| message(&format!("next{number}"))).collect();
    end_all(&store, &next, hours(23)).await;
    let again = |messages: &[Message]| store.submit(messages.to_vec(), now());
    assert_eq!(again(&old[..2]).await.unwrap(), [Receipt::Duplicate; 2], "the day is not over");
    let last: Vec<Message> = (0..1100).map(|number| message(&format!("last{number}"))).collect();
    end_all(&store, &last, hours(25)).await;
    assert_eq!(again(&old[..2]).await.unwrap(), [Receipt::Accepted; 2]);
    assert_eq!(again(&next[..2]).await.unwrap(), [Receipt::Duplicate; 2]);
}

#[tokio::test]
async fn the_number_of_receipts_is_bounded() {
    let (store, _folder) = fresh();
    let messages: Vec<Message> = (0..10).map(|number| message(&format!("m{number}"))).collect();
    store.submit(messages.clone(), now()).await.unwrap();
    for (at, claim) in claim(&store, 10).await.into_iter().enumerate() {
        let at = now().after(Duration::from_secs(at as u64));
        store.complete(claim.reference, Outcome::failed(Outcome::FAILED, "x"), at).await.unwrap();
    }
    let delete = |tx: &rusqlite::Transaction<'_>| receipts::delete(tx, receipts::EXCESS, 4);
    store.write(delete).await.unwrap();
    let receipts = store.submit(messages, now()).await.unwrap();
    assert_eq!(receipts[..6], [Receipt::Accepted; 6], "the oldest receipts are deleted");
    assert_eq!(receipts[6..], [Receipt::Duplicate; 4]);
}
