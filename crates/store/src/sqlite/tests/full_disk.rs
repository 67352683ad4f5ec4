//! A full disk: no accepted message is lost, and the store works again when there is room.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::{QUEUE, claim, fresh, message, now};
use crate::tests::sqlite::Folder;
use crate::{Body, ErrorKind, Message, Outcome, Receipt, SqliteStore, Store};

/// A file system of two megabytes. Only root can mount one.
struct Tiny(PathBuf);

/// Allows the file to grow by this many pages.
async fn allow(store: &SqliteStore, pages: i64) {
    let set = move |tx: &rusqlite::Transaction<'_>| {
        let now: i64 = tx.pragma_query_value(None, "page_count", |row| row.get(0))?;
        tx.pragma_update_and_check(None, "max_page_count", now + pages, |_| Ok(()))
    };
    store.write(set).await.unwrap();
}

fn large(number: usize) -> Message {
    Message { body: Body::Bytes(vec![b'x'; 20_000].into()), ..message(&format!("m{number:03}")) }
}

/// Submits many messages concurrently; returns the ids of accepted and of refused ones.
async fn flood(store: &Arc<SqliteStore>, count: usize) -> (BTreeSet<String>, BTreeSet<String>) {
    let submits = (0..count).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { store.submit(vec![large(number)], now()).await })
    });
    let submits: Vec<_> = submits.collect();
    let (mut accepted, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for (number, submit) in submits.into_iter().enumerate() {
        match submit.await.unwrap() {
            Ok(receipts) => {
                assert_eq!(receipts, [Receipt::Accepted]);
                accepted.insert(large(number).id);
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Full, "{error}");
                assert!(error.text.contains("is full"), "{error}");
                refused.insert(large(number).id);
            }
        }
    }
    (accepted, refused)
}

async fn pending(store: &SqliteStore) -> BTreeSet<String> {
    let ids = |tx: &rusqlite::Transaction<'_>| {
        let mut sql = tx.prepare("SELECT id FROM messages WHERE state = 'pending'")?;
        sql.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()
    };
    store.read(ids).await.unwrap()
}

#[tokio::test]
async fn d07_a_full_file_refuses_and_loses_nothing() {
    let (store, folder) = fresh();
    store.submit(vec![message("held")], now()).await.unwrap();
    let held = claim(&store, 1).await.remove(0).reference;
    allow(&store, 100).await;
    // Concurrent operations share a transaction, which SQLite rolls back as a whole. So the first
    // messages are submitted one after another.
    let mut kept = BTreeSet::new();
    let mut full = false;
    for number in 500..600 {
        match store.submit(vec![large(number)], now()).await {
            Ok(_) => full |= !kept.insert(large(number).id),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Full);
                full = true;
            }
        }
    }
    assert!(full && kept.len() > 10, "{}", kept.len());
    assert_eq!(pending(&store).await, kept);
    let (accepted, refused) = flood(&store, 60).await;
    assert!(!refused.is_empty());
    kept.extend(accepted);
    assert_eq!(pending(&store).await, kept, "what was acknowledged is there, and nothing else");
    let answer = || Outcome::Answered { status: 200, body: vec![b'y'; 50_000].into() };
    let error = store.complete(held.clone(), answer(), now()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Full);

    allow(&store, 10_000).await;
    assert!(store.complete(held, answer(), now()).await.unwrap(), "the claim was not lost");
    let (accepted, refused) = (0..60).map(large).partition::<Vec<_>, _>(|m| kept.contains(&m.id));
    let again = store.submit(refused.clone(), now()).await.unwrap();
    assert_eq!(again, vec![Receipt::Accepted; refused.len()]);
    let known = store.submit(accepted.clone(), now()).await.unwrap();
    assert_eq!(known, vec![Receipt::Duplicate; accepted.len()]);
    kept.extend(refused.into_iter().map(|message| message.id));
    drop(store);
    let store = SqliteStore::open(folder.file()).unwrap();
    assert_eq!(pending(&store).await, kept);
    assert_eq!(store.take_results(QUEUE, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn d07_a_full_disk_refuses_and_loses_nothing() {
    let folder = Folder::new();
    let Some(disk) = Tiny::mount(&folder) else {
        let why = "this takes the right to mount a small file system";
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("not checked: {why}");
        return;
    };
    let path = disk.0.join("queue.db");
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let (accepted, refused) = flood(&store, 200).await;
    assert!(!refused.is_empty(), "200 messages of 20 kB do not fit into a megabyte");
    assert_eq!(pending(&store).await, accepted);
    std::fs::remove_file(&ballast).unwrap();
    let more: Vec<Message> = (300..305).map(large).collect();
    assert_eq!(store.submit(more, now()).await.unwrap(), [Receipt::Accepted; 5]);
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(pending(&store).await.len(), accepted.len() + 5);
}

// === impl Tiny ===

impl Tiny {
    fn mount(folder: &Folder) -> Option<Self> {
        let path: &Path = folder.path();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "tiny"]).arg(path);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(path.to_owned()))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        // Lazily, because a thread may still use it.
        _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
