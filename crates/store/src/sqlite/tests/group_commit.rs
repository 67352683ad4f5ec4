//! Group commit: concurrent operations share a commit, and do not affect each other.

use std::sync::Arc;

use rusqlite::Connection;

use super::{QUEUE, claim, fresh, message, now};
use crate::{Depth, ErrorKind, Receipt, SqliteStore, Store, StoreError, StoreFuture};

#[tokio::test]
async fn a_failed_operation_does_not_affect_the_others() {
    let (store, _folder) = fresh();
    let fails = store.write(|tx| {
        super::super::submit::submit(tx, &[message("half")])?;
        Err::<(), _>(StoreError::new(ErrorKind::Invalid, "no"))
    });
    let (first, failed, second) = tokio::join!(
        store.submit(vec![message("a")], now()),
        fails,
        store.submit(vec![message("b")], now()),
    );
    assert_eq!(
        (first.unwrap(), second.unwrap()),
        (vec![Receipt::Accepted], vec![Receipt::Accepted])
    );
    assert_eq!(failed.unwrap_err().text, "no");
    let depth = store.depth(QUEUE).await.unwrap();
    assert_eq!(depth, Depth { pending: 2, ..Depth::default() });
}

#[tokio::test]
async fn concurrent_operations_share_a_commit() {
    let (store, folder) = fresh();
    let shell = Connection::open(folder.file()).unwrap();
    let version = || shell.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0));
    // The writer waits for a shell, while hundreds of operations arrive.
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    let submits = (0..400).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let receipts = store.submit(vec![message(&format!("m{number}"))], now()).await;
            receipts.unwrap() == [Receipt::Accepted]
        })
    });
    let submits: Vec<_> = submits.collect();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(submits.iter().all(|submit| !submit.is_finished()));
    let before = version().unwrap();
    shell.execute_batch("COMMIT").unwrap();
    let mut commits = 0;
    let mut last = before;
    for submit in submits {
        assert!(submit.await.unwrap());
        let seen = version().unwrap();
        commits += i64::from(seen != last);
        last = seen;
    }
    assert!((1..=4).contains(&commits), "{commits} commits for 400 messages");
}

#[tokio::test]
async fn nothing_is_reported_before_it_is_committed() {
    let (store, folder) = fresh();
    let shell = Connection::open(folder.file()).unwrap();
    for number in 0..50 {
        let id = format!("m{number}");
        store.submit(vec![message(&id)], now()).await.unwrap();
        let sql = "SELECT count(*) FROM messages WHERE id = ?1";
        let kept: i64 = shell.query_row(sql, [&id], |row| row.get(0)).unwrap();
        assert_eq!(kept, 1, "{id} was acknowledged before it was committed");
    }
}

#[tokio::test]
async fn an_operation_counts_even_if_its_future_is_dropped() {
    let (store, folder) = fresh();
    start(store.submit(vec![message("a")], now())).await;
    drop(store);
    let store = SqliteStore::open(folder.file()).unwrap();
    assert_eq!(claim(&store, 10).await.len(), 1);
}

#[tokio::test]
async fn the_last_handle_may_be_dropped_inside_an_operation() {
    let (store, folder) = fresh();
    let inside = Arc::clone(&store);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (tell, gone) = tokio::sync::oneshot::channel();
    start(store.write(move |_| {
        _ = wait.recv();
        drop(inside);
        _ = tell.send(());
        Ok::<_, StoreError>(())
    }))
    .await;
    drop(store);
    assert!(SqliteStore::open(folder.file()).is_err(), "it is in use until the operation is over");
    go.send(()).unwrap();
    gone.await.expect("the thread did not survive its own store");
    while SqliteStore::open(folder.file()).is_err() {
        tokio::task::yield_now().await;
    }
}

/// Starts an operation, and drops its future.
async fn start<T>(operation: StoreFuture<'_, T>) {
    tokio::select! {
        biased;
        _ = operation => {}
        () = std::future::ready(()) => {}
    }
}
