//! A batch comes to its end: what is not answered is given up, and its files are written.

use std::sync::Arc;

use store::ledger::{Batch, BatchOutput, ResultPlace, Status};
use store::{ErrorKind, StoreError};

use super::{GRACE, Now};
use crate::batch::book::Book;
use crate::batch::{Batches, book};
use crate::task;

/// Results whose places are looked up at once, and whose bodies are read at once.
const PLACES: usize = 5000;
const PAGE: usize = 256;
/// Bytes of results after which a page is full.
const PAGE_BYTES: usize = 4 << 20;
/// Rows that are cleared in one step.
const CLEARED: usize = 500;

// === impl Batches ===

impl Batches {
    /// Brings a batch whose lines wait, or that is ending, as far as it goes; says whether that is
    /// to its end.
    pub(super) async fn advance(&self, batch: &Batch, now: Now<'_>) -> Result<bool, StoreError> {
        match batch.status {
            Status::Validating | Status::InProgress => {
                let counts = batch.counts;
                let answered = batch.status == Status::InProgress
                    && counts.completed + counts.failed >= counts.total;
                if !answered && now() < batch.deadline {
                    return Ok(false);
                }
                // Whoever sends may find the last ones too late before this does.
                let late = now() >= batch.deadline && self.ledger.is_late(&batch.id).await?;
                let ending = if answered && !late { Status::Completed } else { Status::Expired };
                self.ledger.begin_ending(&batch.id, ending, now()).await?;
                let Some(batch) = self.ledger.batch(&batch.id).await? else { return Ok(true) };
                self.end(&batch, now).await
            }
            Status::Finalizing | Status::Cancelling => self.end(batch, now).await,
            _ => self.clear(batch).await,
        }
    }

    /// Ends a batch, unless somebody is still sending some of it.
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
            tracing::warn!(id = batch.id, requests = lost, "still being sent, not waited for");
        }
        // Of one whose file was not read there is nothing to say line by line.
        let written = match batch.counts.total {
            0 => BatchOutput::default(),
            _ => match self.write(batch, now).await? {
                Ok(written) => written,
                Err(flaw) => return self.give_in(batch, flaw, now).await,
            },
        };
        let files = [&written.output, &written.failures].map(|file| file.clone());
        match self.ledger.finish(&batch.id, written, now()).await {
            Ok(true) => {
                let bytes = files.iter().flatten().map(|file| file.bytes).sum();
                self.shelf.add(bytes);
                tracing::info!(id = batch.id, "a batch has ended");
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

    /// A batch whose input cannot be read any more has nothing to name its answers by.
    async fn give_in(&self, batch: &Batch, flaw: String, now: Now<'_>) -> Result<bool, StoreError> {
        tracing::error!(id = batch.id, flaw, "a batch cannot be finished");
        self.ledger.fail(&batch.id, batch.status, flaw, now()).await?;
        self.clear(batch).await
    }

    /// Forgets messages and results of a batch that has ended.
    async fn clear(&self, batch: &Batch) -> Result<bool, StoreError> {
        while !self.ledger.clear(&batch.id, CLEARED).await? {}
        Ok(true)
    }

    /// Writes the files of a batch, in the order of its lines.
    async fn write(
        &self,
        batch: &Batch,
        now: Now<'_>,
    ) -> Result<Result<BatchOutput, String>, StoreError> {
        let places = self.places(&batch.id).await?;
        let (shelf, whole, limit) =
            (Arc::clone(&self.shelf), batch.clone(), self.settings.line_limit);
        let opened = task::blocking(move || Book::open(shelf, &whole, limit)).await;
        let mut book = match opened.unwrap_or_else(|error| Err(error.into())) {
            Ok(book) => book,
            Err(error) if book::is_gone(&error) => return Ok(Err(book::gone())),
            Err(error) => return Err(on_disk(&error)),
        };
        let mut left = places.as_slice();
        while !left.is_empty() {
            let page = left[..left.len().min(PAGE)].to_vec();
            let results = self.ledger.results(page, PAGE_BYTES).await?;
            let last = results.last().map_or(u64::MAX, |(line, _)| *line);
            left = &left[left.partition_point(|place| place.line <= last)..];
            let work = move || book.write(&results).map(|()| book);
            let written = task::blocking(work).await.unwrap_or_else(|error| Err(error.into()));
            book = written.map_err(|error| on_disk(&error))?;
        }
        let at = now();
        let ended = task::blocking(move || book.end(at)).await;
        ended.unwrap_or_else(|error| Err(error.into())).map(Ok).map_err(|error| on_disk(&error))
    }

    /// Where the results of a batch are, in the order of its lines.
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

fn on_disk(error: &std::io::Error) -> StoreError {
    StoreError::new(ErrorKind::Full, format!("its files cannot be written: {error}"))
}
