//! What is the embedded engine's own: the file, the groups, the speed of its looks, full disks and
//! sudden deaths. What it shares with others is in the conformance suite.

use std::sync::Arc;
use std::time::Duration;

use crate::tests::sqlite::Folder;
use crate::{Body, Claim, Message, Moment, Sqlite, Store, Want};

mod files;
mod groups;
mod kill;
mod looks;
mod room;
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

async fn claim(store: &Sqlite, most: usize) -> Vec<Claim> {
    let until = now().after(Duration::from_secs(60));
    let want = Want { queue: QUEUE.into(), tenant: String::new(), most, until };
    store.claim(want, now()).await.unwrap()
}

/// A store with nothing in it. The folder goes when the store has gone.
fn fresh() -> (Arc<Sqlite>, Folder) {
    let folder = Folder::new();
    (Sqlite::open(folder.file()).unwrap(), folder)
}
