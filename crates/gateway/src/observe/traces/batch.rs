//! The traces that wait to be sent, as the bytes of one message after another.
//!
//! A message is written from its end: the spans come first, and the fields around them, whose
//! lengths are then known, go into a place that was left free before them. So nothing is copied.

use std::collections::VecDeque;

use bytes::Bytes;

use super::span_writer::{write_field, write_varint};

/// The most traces and bytes in one message. Receivers of gRPC take four megabytes by default.
pub(super) const BATCH_MAX: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
/// The room that a message has from the start: a buffer that grows is copied again and again.
const BATCH_ROOM: usize = 512 << 10;
/// Buffers that are kept for the next messages.
const SPARE_MAX: usize = 2;
/// Numbers of fields.
const RESOURCE_SPANS: u8 = 1;
const RESOURCE: u8 = 1;
const SCOPE_SPANS: u8 = 2;
const SCOPE: u8 = 1;
/// The bytes of a field's number and of its length at most.
const FIELD_MAX: usize = 1 + 10;

/// The spans of some traces.
#[derive(Debug, Default)]
pub(crate) struct TraceBatch {
    /// After the free place.
    bytes: Vec<u8>,
    pub(crate) traces: usize,
}

/// The fields around the spans, which are the same in each message.
#[derive(Debug)]
pub(super) struct Envelope {
    /// The fields of the resource and of the scope.
    resource: Vec<u8>,
    scope: Vec<u8>,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct TraceQueue {
    open: TraceBatch,
    full: VecDeque<TraceBatch>,
    spare: Vec<Vec<u8>>,
    /// All that wait.
    traces: usize,
}

// === impl Envelope ===

impl Envelope {
    pub(super) fn new(service: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let mut attributes = Vec::new();
        for (name, value) in [("service.name", service), ("service.version", version)] {
            let (mut text, mut pair) = (Vec::new(), Vec::new());
            write_field(&mut text, 1, value.as_bytes());
            write_field(&mut pair, 1, name.as_bytes());
            write_field(&mut pair, 2, &text);
            write_field(&mut attributes, 1, &pair);
        }
        let (mut resource, mut scope, mut named) = (Vec::new(), Vec::new(), Vec::new());
        write_field(&mut resource, RESOURCE, &attributes);
        write_field(&mut named, 1, b"tidegate");
        write_field(&mut named, 2, version.as_bytes());
        write_field(&mut scope, SCOPE, &named);
        Self { resource, scope }
    }

    /// The free place that a batch needs.
    fn room(&self) -> usize {
        self.resource.len() + self.scope.len() + 2 * FIELD_MAX
    }

    /// The message with the spans of a batch.
    pub(super) fn message(&self, mut batch: TraceBatch) -> Bytes {
        let spans = batch.bytes.len() - self.room();
        let of_scope = self.scope.len() + spans;
        let mut scope = vec![SCOPE_SPANS << 3 | 2];
        write_varint(&mut scope, of_scope as u64);
        let whole = self.resource.len() + scope.len() + of_scope;
        let mut head = vec![RESOURCE_SPANS << 3 | 2];
        write_varint(&mut head, whole as u64);
        head.extend_from_slice(&self.resource);
        head.extend_from_slice(&scope);
        head.extend_from_slice(&self.scope);
        let start = self.room() - head.len();
        batch.bytes[start..self.room()].copy_from_slice(&head);
        Bytes::from(batch.bytes).slice(start..)
    }
}

// === impl TraceQueue ===

impl TraceQueue {
    pub(super) fn len(&self) -> usize {
        self.traces
    }

    /// Adds the spans of a trace. Returns whether a message is full now.
    pub(super) fn push(&mut self, spans: &[u8], envelope: &Envelope) -> bool {
        if self.open.bytes.is_empty() {
            let fresh = || Vec::with_capacity(BATCH_ROOM);
            let mut bytes = self.spare.pop().unwrap_or_else(fresh);
            bytes.resize(envelope.room(), 0);
            self.open.bytes = bytes;
        }
        self.open.bytes.extend_from_slice(spans);
        self.open.traces += 1;
        self.traces += 1;
        let is_full = self.open.traces >= BATCH_MAX || self.open.bytes.len() >= BATCH_BYTES;
        if is_full {
            self.full.push_back(std::mem::take(&mut self.open));
        }
        is_full
    }

    /// Whether a message is full.
    pub(super) fn is_due(&self) -> bool {
        !self.full.is_empty()
    }

    /// The next batch, also one that is not full.
    pub(super) fn take(&mut self) -> Option<TraceBatch> {
        let open = || Some(std::mem::take(&mut self.open)).filter(|batch| batch.traces > 0);
        let batch = self.full.pop_front().or_else(open)?;
        self.traces -= batch.traces;
        Some(batch)
    }

    /// Keeps the memory of a message that was sent.
    pub(super) fn recycle(&mut self, message: Bytes) {
        if self.spare.len() < SPARE_MAX
            && let Ok(mut bytes) = message.try_into_mut()
        {
            bytes.clear();
            self.spare.push(bytes.into());
        }
    }
}
