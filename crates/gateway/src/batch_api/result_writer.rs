//! Writes the output files of a batch, line by line in the order of the requests.
//!
//! The writer reads the input file again, because the `custom_id`s are stored only there. A request
//! without a result was cancelled or has expired. If another program has cut the input file, the
//! requests of the missing lines are named by their numbers. Good responses go to the output file,
//! all other lines to the errors file. A file without lines is not created.

mod result_line;

use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::sync::Arc;

use store::ledger::{self, Batch, BatchOutput, RequestCounts};
use store::{Moment, StoredResult};

use self::result_line::ResultLine;
use super::OUTPUT_PURPOSE;
use super::file_store::{Draft, FILE_PREFIX, FileStore};
use super::input::{InputError, Lines, RequestLine};
use crate::ingress::headers::fresh_id;

/// The size of the read buffer.
const BUFFER: usize = 256 << 10;

/// The writer of one batch.
#[derive(Debug)]
pub(super) struct ResultWriter {
    batch: Batch,
    lines: Lines<BufReader<File>>,
    output: ResultFile,
    failures: ResultFile,
    /// The number of the last line that was written.
    last: u64,
}

/// One output file.
#[derive(Debug)]
struct ResultFile {
    files: Arc<FileStore>,
    name: String,
    draft: Option<(String, Draft)>,
    rows: u64,
}

/// Whether the input file is missing.
pub(super) fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// The error of a batch whose input file is missing, as JSON.
pub(super) fn input_missing() -> String {
    let text = "the input file was deleted before the responses were written";
    let error = InputError::new("file_unreadable", text, Some("input_file_id"));
    serde_json::to_string(&[error]).unwrap_or_default()
}

// === impl ResultWriter ===

impl ResultWriter {
    pub(super) fn open(
        files: Arc<FileStore>,
        batch: &Batch,
        line_limit: usize,
    ) -> io::Result<Self> {
        let input = BufReader::with_capacity(BUFFER, File::open(files.path(&batch.input))?);
        let file = |kind: &str| ResultFile {
            files: Arc::clone(&files),
            name: format!("{}_{kind}.jsonl", batch.id),
            draft: None,
            rows: 0,
        };
        Ok(Self {
            lines: Lines::new(input, line_limit),
            output: file("output"),
            failures: file("error"),
            last: 0,
            batch: batch.clone(),
        })
    }

    /// Writes results, in the order of their lines and after all lines written before.
    pub(super) fn write(&mut self, results: &[(u64, StoredResult)]) -> io::Result<()> {
        for (line, stored) in results {
            // Lines are numbered from 1.
            if *line > 0 {
                self.write_until(*line, Some(stored))?;
            }
        }
        Ok(())
    }

    /// Writes the rest of the lines, and stores the files.
    pub(super) fn finish(mut self, now: Moment) -> io::Result<BatchOutput> {
        self.write_until(u64::MAX, None)?;
        // The ledger counted the requests before the file was cut.
        while self.output.rows + self.failures.rows < self.batch.counts.total {
            self.write_line(self.last + 1, None, None)?;
        }
        let (completed, failed) = (self.output.rows, self.failures.rows);
        let counts = RequestCounts { total: completed + failed, completed, failed };
        let expires = now.after(self.batch.keep);
        let mut kept = [None, None];
        for (file, kept) in [self.output, self.failures].into_iter().zip(&mut kept) {
            let stored = file.keep(now, expires)?;
            *kept = stored.map(|file| ledger::File { owner: self.batch.owner.clone(), ..file });
        }
        let [output, failures] = kept;
        Ok(BatchOutput { output, failures, counts })
    }

    /// Reads up to a line, which has this result; the lines before it have none.
    fn write_until(&mut self, until: u64, result: Option<&StoredResult>) -> io::Result<()> {
        while let Some(line) = self.lines.next()? {
            if line.is_blank() {
                continue;
            }
            let number = line.number;
            let read = line.text().ok().and_then(|text| RequestLine::read(text).ok());
            let name = read.map(|request| request.custom_id.into_owned());
            self.write_line(number, name, result.filter(|_| number == until))?;
            if number == until {
                return Ok(());
            }
        }
        match result {
            Some(_) => self.write_line(until, None, result),
            None => Ok(()),
        }
    }

    /// Writes the line of a request. Only another program could have changed the file so that the
    /// name of the request is not there any more.
    fn write_line(
        &mut self,
        number: u64,
        name: Option<String>,
        result: Option<&StoredResult>,
    ) -> io::Result<()> {
        let name = name.unwrap_or_else(|| format!("line {number}"));
        let row = ResultLine::new(&self.batch, (number, &name), result);
        let good = result.and_then(|stored| stored.status).is_some_and(is_good);
        let file = if good { &mut self.output } else { &mut self.failures };
        self.last = number;
        file.write(&row)
    }
}

fn is_good(status: u16) -> bool {
    (200..300).contains(&status)
}

// === impl ResultFile ===

impl ResultFile {
    fn write(&mut self, row: &ResultLine<'_>) -> io::Result<()> {
        let draft = match &mut self.draft {
            Some((_, draft)) => draft,
            empty => {
                let id = format!("{FILE_PREFIX}{}", fresh_id());
                let draft = self.files.draft(&id)?;
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
        let owner = String::new();
        Ok(Some(ledger::File { id, name, purpose, bytes, created, expires, owner }))
    }
}
