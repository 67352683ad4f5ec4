//! Finishes a batch: drops the requests without a response, and writes the output files.

use std::sync::Arc;

use store::ledger::{Batch, BatchOutput, ResultPlace, Status};
use store::{ErrorKind, StoreError};

use super::{GRACE, Now};
use crate::batch_api::result_writer::ResultWriter;
use crate::batch_api::{Batches, result_writer};
use crate::task;

/// The most results whose positions, and whose bodies, are read in one transaction.
const PLACES: usize = 5000;
const PAGE: usize = 256;
/// The bytes of results after which a page is full.
const PAGE_BYTES: usize = 4 << 20;
/// The most rows deleted in one transaction.
const DELETED_MAX: usize = 500;

/// Why the output files of a batch are not written.
#[derive(Debug)]
enum OutputError {
    /// The input file was deleted.
    InputMissing,
    /// The store or the disk failed.
    Store(StoreError),
}

// === impl Batches ===

impl Batches {
    /// Advances a batch whose requests are pending, or that is ending; returns whether it has
    /// ended.
    pub(super) async fn advance(&self, batch: &Batch, now: Now<'_>) -> Result<bool, StoreError> {
        match batch.status {
            Status::Validating | Status::InProgress => self.end_if_due(batch, now).await,
            Status::Finalizing | Status::Cancelling => self.end(batch, now).await,
            _ => self.clear(batch).await,
        }
    }

    /// Begins the end of a batch if all of its requests have a result, or at its deadline.
    async fn end_if_due(&self, batch: &Batch, now: Now<'_>) -> Result<bool, StoreError> {
        let counts = batch.counts;
        let answered =
            batch.status == Status::InProgress && counts.completed + counts.failed >= counts.total;
        if !answered && now() < batch.deadline {
            return Ok(false);
        }
        // The dispatcher may find the last requests expired before this does.
        let late = now() >= batch.deadline && self.ledger.is_late(&batch.id).await?;
        let ending = if answered && !late { Status::Completed } else { Status::Expired };
        self.ledger.begin_ending(&batch.id, ending, now()).await?;
        let Some(batch) = self.ledger.batch(&batch.id).await? else { return Ok(true) };
        self.end(&batch, now).await
    }

    /// Ends a batch, unless some of its requests are in flight.
    async fn end(&self, batch: &Batch, now: Now<'_>) -> Result<bool, StoreError> {
        if batch.ending.is_none() {
            return Ok(false);
        }
        if self.ledger.give_up(&batch.id, now()).await? > 0 {
            let since = batch.times.cancelling.or(batch.times.finalizing).unwrap_or(now());
            if now().since(since) < GRACE {
                return Ok(false);
            }
            let lost = self.ledger.abandon(&batch.id).await?;
            tracing::warn!(
                id = batch.id,
                requests = lost,
                "requests are still in flight, not waiting for them"
            );
        }
        // A batch whose input was not read has no lines.
        let written = match batch.counts.total {
            0 => BatchOutput::default(),
            _ => match self.write(batch, now).await {
                Ok(written) => written,
                Err(OutputError::InputMissing) => return self.fail_without_input(batch, now).await,
                Err(OutputError::Store(error)) => return Err(error),
            },
        };
        let files = [&written.output, &written.failures].map(|file| file.clone());
        match self.ledger.finish(&batch.id, written, now()).await {
            Ok(true) => {
                let bytes = files.iter().flatten().map(|file| file.bytes).sum();
                self.files.add(bytes);
                tracing::info!(id = batch.id, "batch ended");
            }
            other => {
                for file in files.into_iter().flatten() {
                    self.unlink(file.id).await;
                }
                other?;
            }
        }
        self.clear(batch).await
    }

    /// Fails a batch whose input file is missing: its responses have no `custom_id`s.
    async fn fail_without_input(&self, batch: &Batch, now: Now<'_>) -> Result<bool, StoreError> {
        let error = result_writer::input_missing();
        tracing::error!(id = batch.id, error, "a batch cannot be finished");
        self.ledger.fail(&batch.id, batch.status, error, now()).await?;
        self.clear(batch).await
    }

    /// Deletes the messages and results of a batch that has ended.
    async fn clear(&self, batch: &Batch) -> Result<bool, StoreError> {
        while !self.ledger.clear(&batch.id, DELETED_MAX).await? {}
        Ok(true)
    }

    /// Writes the output files of a batch, in the order of its lines.
    async fn write(&self, batch: &Batch, now: Now<'_>) -> Result<BatchOutput, OutputError> {
        let places = self.places(&batch.id).await?;
        let (files, whole, limit) =
            (Arc::clone(&self.files), batch.clone(), self.settings.line_limit);
        let opened = task::blocking(move || ResultWriter::open(files, &whole, limit)).await;
        let mut writer = match opened.unwrap_or_else(|error| Err(error.into())) {
            Ok(writer) => writer,
            Err(error) if result_writer::is_missing(&error) => {
                return Err(OutputError::InputMissing);
            }
            Err(error) => return Err(on_disk(error)),
        };
        let mut left = places.as_slice();
        while !left.is_empty() {
            let page = left[..left.len().min(PAGE)].to_vec();
            let results = self.ledger.results(page, PAGE_BYTES).await?;
            let last = results.last().map_or(u64::MAX, |(line, _)| *line);
            left = &left[left.partition_point(|place| place.line <= last)..];
            let work = move || writer.write(&results).map(|()| writer);
            let written = task::blocking(work).await.unwrap_or_else(|error| Err(error.into()));
            writer = written.map_err(on_disk)?;
        }
        let at = now();
        let ended = task::blocking(move || writer.finish(at)).await;
        ended.unwrap_or_else(|error| Err(error.into())).map_err(on_disk)
    }

    /// The positions of the results of a batch, in the order of its lines.
    async fn places(&self, id: &str) -> Result<Vec<ResultPlace>, StoreError> {
        let mut places: Vec<ResultPlace> = Vec::new();
        loop {
            let after = places.last().map_or(0, |place| place.number);
            let more = self.ledger.places(id, after, PLACES).await?;
            let all = more.len() < PLACES;
            places.extend(more);
            if all {
                break;
            }
        }
        places.sort_unstable_by_key(|place| (place.line, place.number));
        places.dedup_by_key(|place| place.line);
        Ok(places)
    }
}

fn on_disk(error: std::io::Error) -> OutputError {
    let text = format!("the output files cannot be written: {error}");
    StoreError::new(ErrorKind::Full, text).caused_by(error).into()
}

// === impl OutputError ===

impl From<StoreError> for OutputError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
