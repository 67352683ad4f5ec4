//! A file on its way in: from the form to the disk, never held.
//!
//! The form is taken apart where it arrives; a thread of its own writes. Between the two wait at
//! most a few pieces, so a disk that is slower than the network slows the network down.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::Moment;
use store::ledger::File;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;

use super::form::{Form, Malformed, Part, Piece};
use super::shelf::{Draft, FILE_PREFIX, Share, Shelf};
use super::{Batches, PURPOSE, ask, trouble};
use crate::ingress::headers::fresh_id;
use crate::reply::Fault;
use crate::task;

/// All of a form that is not the file.
pub(super) const OVERHEAD_MAX: u64 = 1 << 20;
/// The longest field that is not the file.
const FIELD_MAX: usize = 1 << 10;
/// Pieces that wait for the disk.
const WAITING_MAX: usize = 4;
/// The longest name of a file that is kept, in letters.
const NAME_MAX: usize = 255;

/// A file that is coming.
#[derive(Debug)]
pub(crate) struct Upload {
    batches: Arc<Batches>,
    form: Form,
    received: u64,
    field: Option<Field>,
    file: Option<Arrival>,
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
    over: bool,
    _slot: OwnedSemaphorePermit,
}

/// The part that is coming.
#[derive(Debug)]
enum Field {
    File,
    Text { name: String, value: Vec<u8> },
}

/// The file as it comes.
#[derive(Debug)]
struct Arrival {
    id: String,
    name: String,
    bytes: u64,
    share: Share,
    steps: mpsc::Sender<Step>,
    draft: JoinHandle<io::Result<Draft>>,
}

/// What the thread that writes is told. Without an end there is no file.
#[derive(Debug)]
enum Step {
    Write(Bytes),
    End,
}

// === impl Upload ===

impl Upload {
    pub(super) fn new(batches: Arc<Batches>, boundary: &str, slot: OwnedSemaphorePermit) -> Self {
        Self {
            batches,
            form: Form::new(boundary),
            received: 0,
            field: None,
            file: None,
            purpose: None,
            anchor: None,
            seconds: None,
            over: false,
            _slot: slot,
        }
    }

    /// Takes what came.
    pub(crate) async fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let limit = self.batches.settings.file_limit;
        self.received += bytes.len() as u64;
        if self.received > limit.saturating_add(OVERHEAD_MAX) {
            return Err(Fault::FileTooLarge(limit));
        }
        if self.over {
            return Ok(());
        }
        self.form.push(bytes);
        while let Some(piece) = self.form.next().map_err(malformed)? {
            match piece {
                Piece::Part(part) => self.begin(part)?,
                Piece::Data(data) => self.data(data).await?,
                Piece::End => self.end()?,
                Piece::Over => {
                    self.over = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, part: Part) -> Result<(), Fault> {
        if part.name != "file" {
            self.field = Some(Field::Text { name: part.name, value: Vec::new() });
            return Ok(());
        }
        if self.file.is_some() {
            return Err(invalid("file", "The form has two files: send one at a time."));
        }
        self.field = Some(Field::File);
        self.file = Some(Arrival::begin(&self.batches.shelf, part.filename));
        Ok(())
    }

    async fn data(&mut self, data: Bytes) -> Result<(), Fault> {
        match (&mut self.field, &mut self.file) {
            (Some(Field::File), Some(file)) => {
                file.take(data, self.batches.settings.file_limit).await
            }
            (Some(Field::Text { value, .. }), _) if value.len() + data.len() <= FIELD_MAX => {
                value.extend_from_slice(&data);
                Ok(())
            }
            _ => Err(Fault::InvalidRequest("A field of the form is too long.".into())),
        }
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(Field::Text { name, value }) = self.field.take() else { return Ok(()) };
        let field = match name.as_str() {
            "purpose" => &mut self.purpose,
            "expires_after[anchor]" => &mut self.anchor,
            "expires_after[seconds]" => &mut self.seconds,
            _ => return Ok(()),
        };
        let value = String::from_utf8(value);
        *field = Some(value.map_err(|_| malformed(Malformed("a field is not UTF-8")))?);
        Ok(())
    }

    /// Everything has come: the file is kept, or nothing is.
    pub(crate) async fn finish(self, now: Moment) -> Result<File, Fault> {
        if !self.over {
            return Err(malformed(Malformed("it has no end")));
        }
        match self.purpose.as_deref() {
            Some(PURPOSE) => {}
            Some(_) => {
                return Err(invalid("purpose", "'purpose' must be batch: no other is kept."));
            }
            None => return Err(invalid("purpose", "'purpose' is missing: send purpose=batch.")),
        }
        let keep = self.lifetime()?;
        let Some(arrival) = self.file else {
            return Err(invalid("file", "'file' is missing: send the file in the field 'file'."));
        };
        let file = File {
            id: arrival.id.clone(),
            name: arrival.name.clone(),
            purpose: PURPOSE.into(),
            bytes: arrival.bytes,
            created: now,
            expires: now.after(keep),
        };
        let (draft, share) = arrival.settle().await?;
        // From here on it is done to its end, also when the client leaves.
        let placed = task::detached(self.batches.place(file, draft, share)).await;
        placed.unwrap_or(Err(Fault::Internal))
    }

    /// For how long the file is to be kept.
    fn lifetime(&self) -> Result<Duration, Fault> {
        let seconds = self.seconds.as_deref().map(|text| text.parse().unwrap_or_default());
        let wanted = ask::lifetime("expires_after", self.anchor.as_deref(), seconds)?;
        let most = self.batches.settings.keep;
        Ok(wanted.map_or(most, |wanted| wanted.min(most)))
    }
}

// === impl Arrival ===

impl Arrival {
    fn begin(shelf: &Arc<Shelf>, name: Option<String>) -> Self {
        let id = format!("{FILE_PREFIX}{}", fresh_id());
        let (steps, told) = mpsc::channel(WAITING_MAX);
        let (place, named) = (Arc::clone(shelf), id.clone());
        let draft = task::blocking(move || write(&place, &named, told));
        let name = shown(name.as_deref().unwrap_or_default());
        Self { id, name, bytes: 0, share: shelf.share(), steps, draft }
    }

    async fn take(&mut self, data: Bytes, limit: u64) -> Result<(), Fault> {
        let bytes = data.len() as u64;
        self.bytes += bytes;
        if self.bytes > limit {
            return Err(Fault::FileTooLarge(limit));
        }
        if !self.share.more(bytes) {
            let text = "There is no room for more files: delete some, or raise batch.files_limit.";
            return Err(Fault::StorageFull(text.into()));
        }
        if self.steps.send(Step::Write(data)).await.is_err() {
            let written = (&mut self.draft).await;
            return Err(written.map_or(Fault::Internal, |written| ended(written.err())));
        }
        Ok(())
    }

    /// Waits until all of it is written.
    async fn settle(self) -> Result<(Draft, Share), Fault> {
        // One that has ended early says why.
        let _ = self.steps.send(Step::End).await;
        let draft = self.draft.await.map_err(|_| Fault::Internal)?;
        Ok((draft.map_err(|error| ended(Some(error)))?, self.share))
    }
}

/// Writes what it is told, until the end or until nobody is left who could tell of one.
fn write(shelf: &Arc<Shelf>, id: &str, mut told: mpsc::Receiver<Step>) -> io::Result<Draft> {
    let mut draft = shelf.draft(id)?;
    while let Some(step) = told.blocking_recv() {
        match step {
            Step::Write(bytes) => draft.write_all(&bytes)?,
            Step::End => return Ok(draft),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Why a file that is being written has ended.
fn ended(error: Option<io::Error>) -> Fault {
    error.map_or(Fault::Internal, |error| trouble::disk(&error))
}

/// A name that can be shown: without the letters that could do something where it is.
fn shown(name: &str) -> String {
    let shown: String = name.chars().filter(|letter| !letter.is_control()).take(NAME_MAX).collect();
    if shown.is_empty() { "file".into() } else { shown }
}

fn malformed(why: Malformed) -> Fault {
    Fault::InvalidRequest(format!("The form cannot be read: {}.", why.0))
}

fn invalid(field: &'static str, text: &str) -> Fault {
    Fault::InvalidField(field, text.into())
}
