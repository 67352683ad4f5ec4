//! Routes: where results go, the tally of a batch, and cancelling a whole batch.

use std::path::PathBuf;

use rusqlite::params;

use super::{QUEUE, claim, fresh, message, now};
use crate::{Body, Depth, Message, Outcome, SqliteStore, Standing, Store};

const BATCH: &str = "batch_1";

fn line(id: &str) -> Message {
    Message { route: BATCH.into(), ..message(id) }
}

async fn count(store: &SqliteStore) {
    let sql = "INSERT INTO tallies (route, total) VALUES (?1, 9)";
    let keep = move |tx: &rusqlite::Transaction<'_>| tx.execute(sql, params![BATCH]);
    store.write(keep).await.unwrap();
}

/// The number of successful results of a route, and of all others.
async fn tally(store: &SqliteStore) -> (i64, i64) {
    let sql = "SELECT answered_well, failed FROM tallies WHERE route = ?1";
    let read = move |tx: &rusqlite::Transaction<'_>| {
        tx.query_row(sql, [BATCH], |row| Ok((row.get(0)?, row.get(1)?)))
    };
    store.read(read).await.unwrap()
}

#[tokio::test]
async fn a_message_without_a_route_has_its_result_under_its_queue() {
    let (store, _folder) = fresh();
    store.submit(vec![message("a")], now()).await.unwrap();
    let held = claim(&store, 1).await.remove(0).reference;
    let outcome = Outcome::Answered { status: 200, body: "{}".into() };
    assert!(store.complete(held, outcome, now()).await.unwrap());
    assert_eq!(store.take_results(QUEUE, 9).await.unwrap()[0].id, "a");
}

#[tokio::test]
async fn d10_every_way_to_end_a_line_is_counted() {
    let (store, _folder) = fresh();
    count(&store).await;
    let ids = ["good", "created", "bad", "none", "dead", "held", "waits"];
    store.submit(ids.map(line).to_vec(), now()).await.unwrap();
    let claims = claim(&store, 6).await;
    let answered = |status| Outcome::Answered { status, body: "{}".into() };
    let failed = || Outcome::failed(Outcome::DEADLINE, "late");
    let outcomes = [answered(200), answered(201), answered(500), failed()];
    for (claim, outcome) in claims.iter().zip(outcomes) {
        assert!(store.complete(claim.reference.clone(), outcome, now()).await.unwrap());
    }
    assert_eq!(tally(&store).await, (2, 2));
    assert!(store.dead_letter(claims[4].reference.clone(), failed(), now()).await.unwrap());
    assert!(store.cancel("waits", now()).await.unwrap());
    assert_eq!(tally(&store).await, (2, 4));
    assert!(!store.complete(claims[0].reference.clone(), answered(200), now()).await.unwrap());
    assert_eq!(tally(&store).await, (2, 4), "what was refused is not counted");
}

#[tokio::test]
async fn d10_a_whole_batch_is_cancelled_and_nothing_else() {
    let (store, _folder) = fresh();
    count(&store).await;
    let lines = (0..2500).map(|number| line(&format!("line{number}")));
    store.submit(lines.collect(), now()).await.unwrap();
    store.submit(vec![message("other")], now()).await.unwrap();
    let claims = claim(&store, 3).await;
    let change = store.changed();
    assert_eq!(store.cancel_route(BATCH, now()).await.unwrap(), 2497);
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, change).await.expect("who holds some was not told");
    let held: Vec<_> = claims.iter().map(|claim| claim.reference.clone()).collect();
    assert_eq!(store.standing(held).await.unwrap(), [Standing::Cancelled; 3]);
    let depth = Depth { pending: 1, claimed: 3, ..Depth::default() };
    assert_eq!(store.depth(QUEUE).await.unwrap(), depth);
    assert_eq!(tally(&store).await, (0, 2497));
    let results = store.take_results(BATCH, 5000).await.unwrap();
    assert_eq!(results.len(), 2497);
    assert!(results.iter().all(|stored| stored.error.as_deref() == Some(Outcome::CANCELLED)));
    assert_eq!(store.cancel_route(BATCH, now()).await.unwrap(), 0);
    assert_eq!(store.cancel_route("", now()).await.unwrap(), 0, "no route is no batch");
}

#[tokio::test]
async fn any_body_comes_back_as_it_was() {
    let (store, _folder) = fresh();
    let file = PathBuf::from("/somewhere/ünï 'code'.jsonl");
    let bodies = [
        Body::Bytes(vec![0, 255, 10, 13, 0].into()),
        Body::Bytes(bytes::Bytes::new()),
        Body::Slice { file, offset: 1 << 40, length: 77 },
    ];
    let message =
        |(at, body): (usize, &Body)| Message { body: body.clone(), ..message(&at.to_string()) };
    store.submit(bodies.iter().enumerate().map(message).collect(), now()).await.unwrap();
    let claims = claim(&store, 3).await;
    assert!(claims.iter().map(|claim| &claim.message.body).eq(&bodies), "{claims:?}");
}

#[tokio::test]
async fn bodies_go_with_their_messages() {
    let (store, _folder) = fresh();
    let ids = ["completed", "dead", "cancelled"];
    store.submit(ids.map(message).to_vec(), now()).await.unwrap();
    let bodies = async || {
        let count = |tx: &rusqlite::Transaction<'_>| {
            tx.query_row("SELECT count(*) FROM bodies", [], |row| row.get::<_, i64>(0))
        };
        store.read(count).await.unwrap()
    };
    let claims = claim(&store, 2).await;
    let outcome = || Outcome::failed(Outcome::FAILED, "x");
    assert!(store.complete(claims[0].reference.clone(), outcome(), now()).await.unwrap());
    assert_eq!(bodies().await, 2);
    assert!(store.cancel("cancelled", now()).await.unwrap());
    assert_eq!(bodies().await, 1);
    assert!(store.dead_letter(claims[1].reference.clone(), outcome(), now()).await.unwrap());
    assert_eq!(bodies().await, 1, "a dead letter may be redriven");
    assert_eq!(store.purge_dead_letters(QUEUE, crate::Selection::All).await.unwrap(), 1);
    assert_eq!(bodies().await, 0);
}

#[tokio::test]
async fn a_deleted_body_is_reported_as_gone() {
    let (store, _folder) = fresh();
    store.submit(vec![message("a")], now()).await.unwrap();
    let remove = |tx: &rusqlite::Transaction<'_>| tx.execute("DELETE FROM bodies", []);
    store.write(remove).await.unwrap();
    assert_eq!(claim(&store, 1).await[0].message.body, Body::Gone);
}

#[tokio::test]
async fn a_cancelled_message_does_not_wait_for_its_retry() {
    let (store, _folder) = fresh();
    store.submit(vec![message("a")], now()).await.unwrap();
    let held = claim(&store, 1).await.remove(0).reference;
    assert!(store.cancel("a", now()).await.unwrap());
    let due = now().after(std::time::Duration::from_secs(600));
    let back = crate::Release { due, failed: true };
    assert!(store.release(held, back, now()).await.unwrap());
    assert!(claim(&store, 1).await[0].cancelled);
}

#[tokio::test]
async fn moments_beyond_the_range_of_sqlite_mean_never() {
    let (store, _folder) = fresh();
    let never = crate::Moment::from_millis(u64::MAX);
    let eternal = Message { deadline: never, ..message("eternal") };
    store.submit(vec![eternal, message("soon")], now()).await.unwrap();
    let ids: Vec<String> =
        claim(&store, 9).await.into_iter().map(|claim| claim.message.id).collect();
    assert_eq!(ids, ["soon", "eternal"]);
}
