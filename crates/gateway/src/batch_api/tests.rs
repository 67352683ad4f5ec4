//! D10: the Batch API inside one process, with tests that act as the dispatcher.

mod calls;
mod lifecycle;
mod restarts;
mod uploads;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use store::ledger::File;
use store::{Body, Claim, ClaimRequest, Moment, Outcome, SqliteStore, Store as _};
use tokio::runtime::Runtime;

use super::*;
use crate::config::settings::Config;
use crate::ingress::path::{BatchCall, Route, classify};

const CHAT: &str = "/v1/chat/completions";

/// The Batch API in a folder of its own, which is deleted with this value.
struct World {
    runtime: Runtime,
    folder: PathBuf,
    settings: dispatch::Batch,
    store: Option<Arc<SqliteStore>>,
    batches: Option<Arc<Batches>>,
}

impl World {
    fn new() -> Self {
        Self::with(dispatch::Batch::default())
    }

    fn with(settings: dispatch::Batch) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("batch-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let runtime = task::runtime().unwrap();
        let mut world = Self { runtime, folder, settings, store: None, batches: None };
        world.restart();
        world
    }

    /// Opens the folder again, as after a crash.
    fn restart(&mut self) {
        (self.batches, self.store) = (None, None);
        let store = SqliteStore::open(self.folder.join("queue.db")).unwrap();
        let opened = Batches::open(&self.settings, &self.folder, Arc::clone(&store));
        let batches = self.run(opened);
        (self.batches, self.store) = (Some(batches.unwrap()), Some(store));
    }

    fn batches(&self) -> &Arc<Batches> {
        self.batches.as_ref().unwrap()
    }

    fn store(&self) -> &SqliteStore {
        self.store.as_ref().unwrap()
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Sends a form in pieces of this size.
    fn send(&self, form: &[u8], piece: usize) -> Result<File, Fault> {
        self.run(async {
            let mut upload = self.batches().upload(&form_headers(), 0, (None, None))?;
            for bytes in form.chunks(piece) {
                upload.take(bytes).await?;
            }
            upload.finish(at(0)).await
        })
    }

    fn upload(&self, content: &str) -> String {
        self.send(&form(content), 1000).unwrap().id
    }

    /// Calls the API; returns the JSON of the response, or the fault.
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, Fault> {
        self.call_at(method, path, body, at(0))
    }

    fn call_at(&self, method: &str, path: &str, body: &Value, now: Moment) -> Result<Value, Fault> {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("x-llm-d-inference-fairness-id", "alice").body(()).unwrap();
        let (parts, ()) = request.into_parts();
        let Ok(Route::Batch(call)) = classify(&parts.method, parts.uri.path()) else {
            panic!("{method} {path} is no call of the Batch API");
        };
        let config = &Config::default();
        let sender = Sent { parts: &parts, config, caller: None, peer: None };
        self.run(async {
            let answered =
                self.batches().answer(call, sender, body.to_string().as_bytes(), now).await?;
            let bytes = match answered {
                BatchResponse::Whole(response) => response.into_body().collect().await.unwrap(),
                BatchResponse::File(response) => response.into_body().collect().await.unwrap(),
            };
            let bytes = bytes.to_bytes();
            Ok(match call {
                BatchCall::Content => String::from_utf8(bytes.to_vec()).unwrap().into(),
                _ => serde_json::from_slice(&bytes).unwrap(),
            })
        })
    }

    fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null).unwrap()
    }

    fn batch(&self, id: &str) -> Value {
        self.get(&format!("/v1/batches/{id}"))
    }

    fn status(&self, id: &str) -> String {
        self.batch(id)["status"].as_str().unwrap().to_owned()
    }

    /// Total, completed and failed.
    fn counts(&self, id: &str) -> [u64; 3] {
        let counts = &self.batch(id)["request_counts"];
        ["total", "completed", "failed"].map(|name| counts[name].as_u64().unwrap())
    }

    /// Creates a batch of a file with this content and a window of one minute.
    fn create(&self, content: &str) -> String {
        let wanted = wanted(&self.upload(content));
        let made = self.call("POST", "/v1/batches", &wanted).unwrap();
        assert_eq!(made["status"], "validating");
        made["id"].as_str().unwrap().to_owned()
    }

    fn run_once(&self, secs: u64) -> Duration {
        self.run(self.batches().run_once(&|| at(secs))).unwrap()
    }

    /// Claims messages, as the dispatcher does.
    fn claim(&self, most: usize) -> Vec<Claim> {
        let want = ClaimRequest {
            queue: "batch".into(),
            tenant: "alice".into(),
            limit: most,
            until: at(1000),
        };
        self.run(self.store().claim(want, at(1))).unwrap()
    }

    fn complete(&self, claim: &Claim, outcome: Outcome) -> bool {
        self.run(self.store().complete(claim.reference.clone(), outcome, at(2))).unwrap()
    }

    fn answer(&self, claim: &Claim, status: u16, body: &str) -> bool {
        self.complete(claim, Outcome::Answered { status, body: body.to_owned().into() })
    }

    /// The lines of the output file or of the error file of a batch; none if there is no file.
    fn lines(&self, id: &str, file: &str) -> Vec<Value> {
        let batch = self.batch(id);
        let Some(file) = batch[file].as_str() else { return Vec::new() };
        let content = self.get(&format!("/v1/files/{file}/content"));
        let content = content.as_str().unwrap();
        assert!(content.ends_with('\n'));
        content.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The names of the files in a subfolder.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Waits until no draft is left: another thread deletes an aborted draft.
    fn await_no_drafts(&self) {
        self.run(async {
            while !self.names("drafts").is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        (self.batches, self.store) = (None, None);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn at(secs: u64) -> Moment {
    Moment::from_secs(1_000_000 + secs)
}

fn form_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "multipart/form-data; boundary=XYZ".parse().unwrap());
    headers
}

fn field(name: &str, value: &str) -> String {
    format!("--XYZ\r\nContent-Disposition: form-data; {name}\r\n\r\n{value}\r\n")
}

fn form(content: &str) -> Vec<u8> {
    let (purpose, file) = (field("name=\"purpose\"", "batch"), file_field(content));
    format!("{purpose}{file}--XYZ--\r\n").into_bytes()
}

fn file_field(content: &str) -> String {
    field("name=\"file\"; filename=\"in.jsonl\"", content)
}

fn wanted(file: &str) -> Value {
    json!({"input_file_id": file, "endpoint": CHAT, "completion_window": "1m",
        "metadata": {"a": "b"}})
}

/// A request as a line.
fn line(name: &str) -> String {
    let body = json!({"model": "m", "messages": [name]});
    json!({"custom_id": name, "method": "POST", "url": CHAT, "body": body}).to_string() + "\n"
}

fn lines(count: usize) -> String {
    (1..=count).map(|number| line(&format!("r{number}"))).collect()
}

/// The JSON of a message's body.
fn body_of(claim: &Claim) -> Value {
    let Body::Slice { file, offset, length } = &claim.message.body else {
        panic!("the body was copied");
    };
    let bytes = std::fs::read(file).unwrap();
    let (begin, length) = (usize::try_from(*offset).unwrap(), usize::try_from(*length).unwrap());
    serde_json::from_slice(&bytes[begin..begin + length]).unwrap()
}

fn names_of(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["custom_id"].as_str().unwrap()).collect()
}
