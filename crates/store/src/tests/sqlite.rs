//! The embedded engine.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Depth, Message, Moment, Outcome, Receipt, Sqlite, Store, Want};

/// A folder of its own, gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("store-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_message_is_submitted_claimed_and_completed() {
    let folder = Folder::new();
    let store = Sqlite::open(folder.0.join("queue.db")).unwrap();
    let now = Moment::from_secs(1000);
    let message =
        Message { id: "a".into(), queue: "q".into(), deadline: now, ..Message::default() };
    assert_eq!(store.submit(vec![message.clone()], now).await.unwrap(), [Receipt::Accepted]);
    let want = Want { queue: "q".into(), tenant: String::new(), most: 4, until: now };
    let claims = store.claim(want, now).await.unwrap();
    assert_eq!(claims[0].message, message);
    let outcome = Outcome::Answered { status: 200, body: "{}".into() };
    assert!(store.complete(claims[0].held.clone(), outcome, now).await.unwrap());
    assert_eq!(store.take_results("q", 10).await.unwrap()[0].id, "a");
    assert_eq!(store.depth("q").await.unwrap(), Depth::default());
}
