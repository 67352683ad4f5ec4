//! The files of a batch's answers, written line by line in the order in which they were asked.
//!
//! The input is read once more beside the results, for the names that its sender gave: they are
//! kept nowhere else. What has no result was given up. Good answers go into one file, everything
//! else into the other; a file that would be empty is not made.

mod row;

use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::sync::Arc;

use store::ledger::{self, Batch, BatchOutput, RequestCounts};
use store::{Moment, StoredResult};

use self::row::Row;
use super::OUTPUT_PURPOSE;
use super::lines::{Flaw, Lines, Request};
use super::shelf::{Draft, FILE_PREFIX, Shelf};
use crate::ingress::headers::fresh_id;

/// What is read at once.
const BUFFER: usize = 256 << 10;

/// The files of one batch.
#[derive(Debug)]
pub(super) struct Book {
    batch: Batch,
    lines: Lines<BufReader<File>>,
    output: Sheet,
    failures: Sheet,
}

/// One file.
#[derive(Debug)]
struct Sheet {
    shelf: Arc<Shelf>,
    name: String,
    draft: Option<(String, Draft)>,
    rows: u64,
}

/// Whether the input is not there any more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// What is said of a batch whose input is not there any more, as JSON.
pub(super) fn gone() -> String {
    let text = "the input file was taken away before its answers were written";
    let flaw = Flaw::new("file_unreadable", text, Some("input_file_id"));
    serde_json::to_string(&[flaw]).unwrap_or_default()
}

// === impl Book ===

impl Book {
    pub(super) fn open(shelf: Arc<Shelf>, batch: &Batch, line_limit: usize) -> io::Result<Self> {
        let input = BufReader::with_capacity(BUFFER, File::open(shelf.path(&batch.input))?);
        let sheet = |kind: &str| Sheet {
            shelf: Arc::clone(&shelf),
            name: format!("{}_{kind}.jsonl", batch.id),
            draft: None,
            rows: 0,
        };
        Ok(Self {
            lines: Lines::new(input, line_limit),
            output: sheet("output"),
            failures: sheet("error"),
            batch: batch.clone(),
        })
    }

    /// Writes results, in the order of their lines and after those that were written before.
    pub(super) fn write(&mut self, results: &[(u64, StoredResult)]) -> io::Result<()> {
        for (line, stored) in results {
            // A number that no line has is no result of ours.
            if *line > 0 {
                self.through(*line, Some(stored))?;
            }
        }
        Ok(())
    }

    /// Writes what is left, and puts the files into their places.
    pub(super) fn end(mut self, now: Moment) -> io::Result<BatchOutput> {
        self.through(u64::MAX, None)?;
        let (completed, failed) = (self.output.rows, self.failures.rows);
        let counts = RequestCounts { total: completed + failed, completed, failed };
        let expires = now.after(self.batch.keep);
        let mut kept = [None, None];
        for (sheet, kept) in [self.output, self.failures].into_iter().zip(&mut kept) {
            *kept = sheet.keep(now, expires)?;
        }
        let [output, failures] = kept;
        Ok(BatchOutput { output, failures, counts })
    }

    /// Reads on to a line, which has this result; those before it have none.
    fn through(&mut self, until: u64, result: Option<&StoredResult>) -> io::Result<()> {
        while let Some(line) = self.lines.next()? {
            if line.is_blank() {
                continue;
            }
            let read = line.text().ok().and_then(|text| Request::read(text).ok());
            // Only somebody who writes into the folder could change a line that was read before.
            let name = read.map_or_else(
                || format!("line {}", line.number),
                |request| request.custom_id.into_owned(),
            );
            let found = result.filter(|_| line.number == until);
            let row = Row::new(&self.batch, (line.number, &name), found);
            let well = found.and_then(|stored| stored.status).is_some_and(is_good);
            let sheet = if well { &mut self.output } else { &mut self.failures };
            sheet.write(&row)?;
            if line.number == until {
                break;
            }
        }
        Ok(())
    }
}

fn is_good(status: u16) -> bool {
    (200..300).contains(&status)
}

// === impl Sheet ===

impl Sheet {
    fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        let draft = match &mut self.draft {
            Some((_, draft)) => draft,
            empty => {
                let id = format!("{FILE_PREFIX}{}", fresh_id());
                let draft = self.shelf.draft(&id)?;
                &mut empty.insert((id, draft)).1
            }
        };
        serde_json::to_writer(&mut *draft, row)?;
        draft.write_all(b"\n")?;
        self.rows += 1;
        Ok(())
    }

    fn keep(self, created: Moment, expires: Moment) -> io::Result<Option<ledger::File>> {
        let Some((id, draft)) = self.draft else { return Ok(None) };
        let bytes = draft.keep()?;
        let (name, purpose) = (self.name, OUTPUT_PURPOSE.into());
        Ok(Some(ledger::File { id, name, purpose, bytes, created, expires }))
    }
}
