//! The Batch API as these measurements use it: upload, create, look.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::gateway::load::{Client, Request};

const BEFORE: &str = "--line\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
    --line\r\ncontent-disposition: form-data; name=\"file\"; filename=\"bench.jsonl\"\r\n\r\n";
const AFTER: &str = "\r\n--line--\r\n";
const PATH: &str = "/v1/chat/completions";
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What prompts are made of.
const WORDS: &str = "The tide rises, the tide falls, and the gate stands between. ";

/// A client of the Batch API.
#[derive(Debug)]
pub(super) struct Api {
    client: Client,
}

/// How far a batch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) status: String,
    pub(super) completed: u64,
    pub(super) failed: u64,
}

/// A chat with so many bytes of prompt that wants so many tokens.
pub(super) fn chat(prompt: usize, tokens: u64, stream: bool) -> Value {
    let content: String = WORDS.chars().cycle().take(prompt).collect();
    json!({
        "model": "m", "max_tokens": tokens, "stream": stream,
        "messages": [{"role": "user", "content": content}],
    })
}

/// A batch's file of so many lines, each with a body of its own.
pub(super) fn lines(count: usize, mut body: impl FnMut() -> Value) -> Vec<u8> {
    let mut file = String::new();
    for number in 0..count {
        let line = json!({
            "custom_id": format!("request-{number}"), "method": "POST", "url": PATH,
            "body": body(),
        });
        file.push_str(&line.to_string());
        file.push('\n');
    }
    file.into_bytes()
}

// === impl Api ===

impl Api {
    pub(super) async fn at(address: SocketAddr) -> Result<Self> {
        Ok(Self { client: Client::connect(address).await? })
    }

    /// Uploads a batch's file and says its id.
    pub(super) async fn upload(&mut self, lines: &[u8]) -> Result<String> {
        let body = [BEFORE.as_bytes(), lines, AFTER.as_bytes()].concat();
        let kind = "content-type: multipart/form-data; boundary=line\r\n";
        self.id(&Request::post("/v1/files", kind, &body)).await
    }

    /// Makes a batch of a file and says its id.
    pub(super) async fn create(&mut self, file: &str) -> Result<String> {
        let body = json!({
            "input_file_id": file, "endpoint": PATH, "completion_window": "24h",
        });
        let kind = "content-type: application/json\r\n";
        self.id(&Request::post("/v1/batches", kind, body.to_string().as_bytes())).await
    }

    pub(super) async fn look(&mut self, batch: &str) -> Result<Progress> {
        let answer = self.ask(&Request::get(&format!("/v1/batches/{batch}"))).await?;
        progress(&answer).with_context(|| answer.to_string())
    }

    /// Waits until a batch is so far.
    pub(super) async fn wait(
        &mut self,
        batch: &str,
        within: Duration,
        far: impl Fn(&Progress) -> bool,
    ) -> Result<Progress> {
        let began = Instant::now();
        loop {
            let progress = self.look(batch).await?;
            if far(&progress) {
                return Ok(progress);
            }
            let ended = ["failed", "expired", "cancelled", "completed"];
            if ended.contains(&progress.status.as_str()) || began.elapsed() > within {
                bail!("the batch is no further than {progress:?}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Begins a batch of these lines and waits until it is under way.
    pub(super) async fn begin(&mut self, lines: &[u8], within: Duration) -> Result<String> {
        let file = self.upload(lines).await?;
        let batch = self.create(&file).await?;
        self.wait(&batch, within, |progress| progress.status == "in_progress").await?;
        Ok(batch)
    }

    async fn id(&mut self, request: &Request) -> Result<String> {
        let answer = self.ask(request).await?;
        let id = answer["id"].as_str();
        Ok(id.with_context(|| format!("no id in {answer}"))?.to_owned())
    }

    async fn ask(&mut self, request: &Request) -> Result<Value> {
        let text = self.client.text(request).await?;
        serde_json::from_str(&text).with_context(|| text)
    }
}

pub(super) fn progress(answer: &Value) -> Option<Progress> {
    let counts = &answer["request_counts"];
    Some(Progress {
        status: answer["status"].as_str()?.to_owned(),
        completed: counts["completed"].as_u64()?,
        failed: counts["failed"].as_u64()?,
    })
}
