//! Reads the input file of a batch and enqueues its requests.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use store::ledger::{Batch, Status, message_id};
use store::{Body, ErrorKind, Message, StoreError};

use super::Now;
use crate::batch_api::input::{self, CheckedInput, InputError, InputRules, RequestSpan};
use crate::batch_api::{Batches, result_writer};
use crate::config::BATCH_QUEUE;
use crate::task;

/// The size of the read buffer.
const BUFFER: usize = 256 << 10;
/// The most requests enqueued in one transaction.
const CHUNK: usize = 1000;

// === impl Batches ===

impl Batches {
    /// Reads the input file of a batch, and enqueues its requests or fails the batch.
    pub(super) async fn read(&self, batch: &Batch, now: Now<'_>) -> Result<(), StoreError> {
        let path = self.files.path(&batch.input);
        let rules = InputRules {
            endpoint: Some(batch.endpoint.clone()),
            line_limit: self.settings.line_limit,
            lines_max: self.settings.lines_max,
        };
        let at = path.clone();
        let checked = task::blocking(move || check(&at, &rules)).await;
        let checked = checked.unwrap_or_else(|error| Err(error.into()));
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) if result_writer::is_missing(&error) => CheckedInput {
                errors: vec![InputError::new(
                    "file_unreadable",
                    error.to_string(),
                    Some("input_file_id"),
                )],
                ..CheckedInput::default()
            },
            // The file exists, and an error of the disk or the process may be temporary.
            Err(error) => {
                let text = format!("the input file cannot be read now: {error}");
                return Err(StoreError::new(ErrorKind::Unavailable, text));
            }
        };
        if !checked.errors.is_empty() {
            tracing::info!(id = batch.id, error = %checked.errors[0], "batch failed validation");
            let errors = serde_json::to_string(&checked.errors).unwrap_or_default();
            self.ledger.fail(&batch.id, Status::Validating, errors, now()).await?;
            self.changed.notify_one();
            return Ok(());
        }
        self.queue(batch, &path, &checked, now).await
    }

    /// Enqueues requests, after those that were enqueued before.
    async fn queue(
        &self,
        batch: &Batch,
        path: &Path,
        checked: &CheckedInput,
        now: Now<'_>,
    ) -> Result<(), StoreError> {
        let model = checked.models.first().filter(|_| checked.models.len() == 1).cloned();
        let total = checked.requests.len() as u64;
        if !self.ledger.accept(&batch.id, total, model).await? {
            return Ok(());
        }
        let mut from = batch.queued;
        let left = checked.requests.get(usize::try_from(from).unwrap_or(usize::MAX)..);
        for chunk in left.unwrap_or_default().chunks(CHUNK) {
            let message = |request: &RequestSpan| message(batch, path, checked, request);
            let messages = chunk.iter().map(message).collect();
            if !self.ledger.enqueue(&batch.id, from, messages, now()).await? {
                return Ok(());
            }
            from += chunk.len() as u64;
        }
        tracing::info!(id = batch.id, requests = total, "batch in progress");
        Ok(())
    }
}

fn check(path: &Path, rules: &InputRules) -> io::Result<CheckedInput> {
    input::check(BufReader::with_capacity(BUFFER, File::open(path)?), rules)
}

fn message(batch: &Batch, path: &Path, checked: &CheckedInput, entry: &RequestSpan) -> Message {
    Message {
        id: message_id(&batch.id, entry.line),
        queue: BATCH_QUEUE.into(),
        tenant: batch.tenant.clone(),
        created: batch.created,
        deadline: batch.deadline,
        endpoint: batch.endpoint.clone(),
        model: checked.models.get(entry.model).cloned().unwrap_or_default(),
        headers: batch.headers.clone(),
        route: batch.id.clone(),
        body: Body::Slice { file: path.into(), offset: entry.offset, length: entry.length },
        ..Message::default()
    }
}
