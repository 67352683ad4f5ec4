//! A batch's file is read, and its lines wait as messages.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use store::ledger::{Batch, Status, message_id};
use store::{Body, ErrorKind, Message, StoreError};

use super::Now;
use crate::batch::lines::{self, Checked, Entry, Flaw, Rules};
use crate::batch::{Batches, book};
use crate::config::BATCH_QUEUE;
use crate::task;

/// What is read at once.
const BUFFER: usize = 256 << 10;
/// Lines that begin to wait in one step.
const CHUNK: usize = 1000;

// === impl Batches ===

impl Batches {
    /// Reads a batch's file, and lets its lines wait or the batch fail.
    pub(super) async fn read(&self, batch: &Batch, now: Now<'_>) -> Result<(), StoreError> {
        let path = self.shelf.path(&batch.input);
        let rules = Rules {
            endpoint: Some(batch.endpoint.clone()),
            line_limit: self.settings.line_limit,
            lines_max: self.settings.lines_max,
        };
        let at = path.clone();
        let checked = task::blocking(move || check(&at, &rules)).await;
        let checked = checked.unwrap_or_else(|error| Err(error.into()));
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) if book::is_gone(&error) => Checked {
                flaws: vec![Flaw::new("file_unreadable", error.to_string(), Some("input_file_id"))],
                ..Checked::default()
            },
            // A disk or a process in trouble now may be well later, and the file is still there.
            Err(error) => {
                let text = format!("its input cannot be read now: {error}");
                return Err(StoreError::new(ErrorKind::Unavailable, text));
            }
        };
        if !checked.flaws.is_empty() {
            tracing::info!(id = batch.id, flaw = %checked.flaws[0], "a batch failed validation");
            let flaws = serde_json::to_string(&checked.flaws).unwrap_or_default();
            self.ledger.fail(&batch.id, Status::Validating, flaws, now()).await?;
            self.bell.notify_one();
            return Ok(());
        }
        self.queue(batch, &path, &checked, now).await
    }

    /// Lets lines wait from where that ended the last time.
    async fn queue(
        &self,
        batch: &Batch,
        path: &Path,
        checked: &Checked,
        now: Now<'_>,
    ) -> Result<(), StoreError> {
        let model = checked.models.first().filter(|_| checked.models.len() == 1).cloned();
        let total = checked.entries.len() as u64;
        if !self.ledger.accept(&batch.id, total, model).await? {
            return Ok(());
        }
        let mut from = batch.queued;
        let left = checked.entries.get(usize::try_from(from).unwrap_or(usize::MAX)..);
        for chunk in left.unwrap_or_default().chunks(CHUNK) {
            let message = |entry: &Entry| message(batch, path, checked, entry);
            let messages = chunk.iter().map(message).collect();
            if !self.ledger.enqueue(&batch.id, from, messages, now()).await? {
                return Ok(());
            }
            from += chunk.len() as u64;
        }
        tracing::info!(id = batch.id, requests = total, "a batch is in progress");
        Ok(())
    }
}

fn check(path: &Path, rules: &Rules) -> io::Result<Checked> {
    lines::check(BufReader::with_capacity(BUFFER, File::open(path)?), rules)
}

fn message(batch: &Batch, path: &Path, checked: &Checked, entry: &Entry) -> Message {
    Message {
        id: message_id(&batch.id, entry.line),
        queue: BATCH_QUEUE.into(),
        tenant: batch.tenant.clone(),
        created: batch.created,
        deadline: batch.deadline,
        endpoint: batch.endpoint.clone(),
        model: checked.models.get(entry.model).cloned().unwrap_or_default(),
        route: batch.id.clone(),
        body: Body::Slice { file: path.into(), offset: entry.offset, length: entry.length },
        ..Message::default()
    }
}
