//! Tests of the embedded engine alone: its file, group commit, query plans, full disks and crashes.
//! The conformance suite tests the verbs.

use std::sync::Arc;
use std::time::Duration;

use crate::tests::sqlite::Folder;
use crate::{Body, Claim, ClaimRequest, Message, Moment, SqliteStore, Store};

mod crash;
mod files;
mod full_disk;
mod group_commit;
mod queries;
mod routes;

const QUEUE: &str = "work";

fn now() -> Moment {
    Moment::from_secs(1_800_000_000)
}

fn message(id: &str) -> Message {
    Message {
        id: id.into(),
        queue: QUEUE.into(),
        created: now(),
        deadline: now().after(Duration::from_secs(3600)),
        body: Body::Bytes(r#"{"prompt":"hello"}"#.into()),
        ..Message::default()
    }
}

async fn claim(store: &SqliteStore, most: usize) -> Vec<Claim> {
    let until = now().after(Duration::from_secs(60));
    let want = ClaimRequest { queue: QUEUE.into(), tenant: String::new(), limit: most, until };
    store.claim(want, now()).await.unwrap()
}

/// An empty store, and its folder, which must be dropped after it.
fn fresh() -> (Arc<SqliteStore>, Folder) {
    let folder = Folder::new();
    (SqliteStore::open(folder.file()).unwrap(), folder)
}
