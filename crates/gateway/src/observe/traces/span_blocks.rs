//! What the spans of many requests have in common, as bytes: the name, and the attributes of what
//! is asked for and of the backend. They are written once and copied then.

use std::sync::Arc;

use http::Method;

use super::span_writer::{SpanWriter, key};
use crate::backend::Endpoint;
use crate::observe::Record;

/// The operations of the conventions, by the end of the path.
const OPERATIONS: [(&str, &str); 9] = [
    ("/chat/completions", "chat"),
    ("/api/chat", "chat"),
    ("/responses", "chat"),
    ("/messages", "chat"),
    ("/completions", "text_completion"),
    ("/api/generate", "text_completion"),
    ("/embeddings", "embeddings"),
    ("/api/embed", "embeddings"),
    ("/rerank", "rerank"),
];
/// The most blocks that a thread keeps. Most requests are alike.
const BLOCKS_MAX: usize = 8;

/// The blocks of the last kinds of requests.
#[derive(Debug, Default)]
pub(super) struct SpanBlocks {
    blocks: Vec<SpanBlock>,
    /// The block that the next one replaces.
    oldest: usize,
}

/// The fields of all requests with this path and these models.
#[derive(Debug)]
pub(super) struct SpanBlock {
    method: Method,
    path: String,
    model: Option<Arc<str>>,
    target: Option<Arc<str>>,
    /// Fields of the request's own span, and of its attempts.
    pub(super) root: Vec<u8>,
    pub(super) attempt: Vec<u8>,
}

/// The fields of all attempts at a backend.
pub(super) fn of_endpoint(endpoint: &Endpoint) -> Box<[u8]> {
    let mut out = SpanWriter::default();
    out.text(key!("gen_ai.provider.name"), endpoint.kind.name());
    out.text(key!("server.address"), endpoint.authority.host());
    if let Some(port) = endpoint.authority.port_u16() {
        out.int(key!("server.port"), port.into());
    }
    out.text(key!("tidegate.backend"), &endpoint.name);
    out.bytes().into()
}

// === impl SpanBlocks ===

impl SpanBlocks {
    /// The block for a request.
    pub(super) fn find(&mut self, record: &Record) -> &SpanBlock {
        let known = self.blocks.iter().position(|block| block.fits(record));
        let at = known.unwrap_or_else(|| self.add(SpanBlock::of(record)));
        &self.blocks[at]
    }

    fn add(&mut self, block: SpanBlock) -> usize {
        if self.blocks.len() < BLOCKS_MAX {
            self.blocks.push(block);
            return self.blocks.len() - 1;
        }
        let at = self.oldest;
        self.oldest = (at + 1) % BLOCKS_MAX;
        self.blocks[at] = block;
        at
    }
}

// === impl SpanBlock ===

impl SpanBlock {
    fn of(record: &Record) -> Self {
        let (path, operation) = (record.path.as_str(), operation(&record.path));
        let (mut root, mut attempt) = (SpanWriter::default(), SpanWriter::default());
        // A path that clients invent must not become a name.
        root.name(record.method.as_str(), if is_usual(path) { path } else { "" });
        match operation {
            Some(operation) => attempt.name(operation, record.models().1),
            None => attempt.name(record.method.as_str(), ""),
        }
        for out in [&mut root, &mut attempt] {
            models(out, record, operation);
        }
        root.text(key!("http.request.method"), record.method.as_str());
        root.text(key!("url.path"), path);
        Self {
            method: record.method.clone(),
            path: path.to_owned(),
            model: record.model.clone(),
            target: record.target.clone(),
            root: root.bytes().to_vec(),
            attempt: attempt.bytes().to_vec(),
        }
    }

    fn fits(&self, record: &Record) -> bool {
        self.model == record.model
            && self.path == record.path
            && self.target == record.target
            && self.method == record.method
    }
}

/// What every span of a request to a model has.
fn models(out: &mut SpanWriter, record: &Record, operation: Option<&'static str>) {
    out.text(key!("gen_ai.operation.name"), operation.unwrap_or_default());
    let (model, target) = record.models();
    out.text(key!("gen_ai.request.model"), model);
    if target != model {
        out.text(key!("tidegate.target_model"), target);
    }
}

fn operation(path: &str) -> Option<&'static str> {
    let found = OPERATIONS.iter().find(|(end, _)| path.ends_with(end));
    found.map(|(_, operation)| *operation)
}

/// Whether a path is one of a few that many clients use.
fn is_usual(path: &str) -> bool {
    let rest = path.strip_prefix("/v1").unwrap_or(path);
    OPERATIONS.iter().any(|(usual, _)| *usual == rest)
}
