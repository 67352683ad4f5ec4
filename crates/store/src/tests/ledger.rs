//! D10: the ledger of batches and files, in every status, with a crash after each.

mod ending;
mod files;
mod stages;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::ledger::{Added, Batch, File, Ledger, ListQuery, RequestCounts, Status, message_id};
use crate::{Claim, ClaimRequest, Message, Moment, Outcome, SqliteStore, Store};

const QUEUE: &str = "batch";

/// A ledger in a folder that is deleted with it.
struct World {
    folder: PathBuf,
    store: Option<Arc<SqliteStore>>,
}

impl World {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ledger-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut world = Self { folder, store: None };
        world.reopen();
        world
    }

    /// Opens the file again, as after a crash.
    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(SqliteStore::open(self.folder.join("queue.db")).unwrap());
    }

    fn store(&self) -> &Arc<SqliteStore> {
        self.store.as_ref().unwrap()
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(Arc::clone(self.store()))
    }

    async fn batch(&self, id: &str) -> Batch {
        self.ledger().batch(id).await.unwrap().unwrap()
    }

    async fn status(&self, id: &str) -> Status {
        self.batch(id).await.status
    }

    async fn counts(&self, id: &str) -> (u64, u64, u64) {
        let RequestCounts { total, completed, failed } = self.batch(id).await.counts;
        (total, completed, failed)
    }

    async fn due(&self, secs: u64) -> (Vec<String>, bool) {
        let due = self.ledger().due(at(secs), at(0)).await.unwrap();
        (due.ids, due.underway)
    }

    /// Adds a batch and its input file.
    async fn add(&self, id: &str) {
        let file = file(&format!("file-{id}"));
        assert_eq!(self.ledger().add_file(file, u64::MAX).await, Ok(Added::Kept));
        assert_eq!(self.ledger().add_batch(batch(id)).await, Ok(Added::Kept));
    }

    /// Adds a batch, and submits its lines.
    async fn begin(&self, id: &str, lines: u64) {
        self.add(id).await;
        assert!(self.ledger().accept(id, lines, Some("m".into())).await.unwrap());
        let messages = (1..=lines).map(|line| message(id, line)).collect();
        assert!(self.ledger().enqueue(id, 0, messages, at(5)).await.unwrap());
    }

    async fn claim(&self, most: usize) -> Vec<Claim> {
        let want =
            ClaimRequest { queue: QUEUE.into(), tenant: "t".into(), limit: most, until: at(1000) };
        self.store().claim(want, at(6)).await.unwrap()
    }

    /// Completes a claim with this status.
    async fn answer(&self, claim: &Claim, status: u16) -> bool {
        let body = format!("{{\"of\":\"{}\"}}", claim.message.id).into();
        let outcome = Outcome::Answered { status, body };
        self.store().complete(claim.reference.clone(), outcome, at(7)).await.unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.store = None;
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn at(secs: u64) -> Moment {
    Moment::from_secs(1_000_000 + secs)
}

fn file(id: &str) -> File {
    File {
        id: id.into(),
        name: "../in.jsonl".into(),
        purpose: "batch".into(),
        bytes: 100,
        created: at(0),
        expires: at(500),
        owner: String::new(),
    }
}

fn batch(id: &str) -> Batch {
    Batch {
        id: id.into(),
        endpoint: "/v1/chat/completions".into(),
        input: format!("file-{id}"),
        window: "24h".into(),
        tenant: "t".into(),
        headers: [("x-team".into(), "lab".into())].into(),
        metadata: Some("{\"a\":\"b\"}".into()),
        keep: Duration::from_secs(50),
        created: at(1),
        deadline: at(100),
        ..Batch::default()
    }
}

fn message(batch: &str, line: u64) -> Message {
    Message {
        id: message_id(batch, line),
        queue: QUEUE.into(),
        tenant: "t".into(),
        deadline: at(100),
        route: batch.into(),
        ..Message::default()
    }
}

fn page(most: usize) -> ListQuery {
    ListQuery { limit: most, ..ListQuery::default() }
}
