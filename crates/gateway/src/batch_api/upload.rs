//! An upload: parses the form and writes the file to the disk while it arrives.
//!
//! The connection's task parses the form; a blocking thread writes the file. The channel between
//! them holds a few chunks, so a slow disk slows down the client.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::Moment;
use store::ledger::File;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::file_store::{Draft, FILE_PREFIX, FileStore, Reservation};
use super::upload_slots::UploadSlot;
use super::{Batches, PURPOSE, create_request, faults};
use crate::ingress::headers::fresh_id;
use crate::multipart::{FormEvent, MalformedForm, Multipart, Part};
use crate::reply::Fault;
use crate::task;

/// The most bytes of a form beside the file.
pub(super) const OVERHEAD_MAX: u64 = 1 << 20;
/// The longest field beside the file.
const FIELD_MAX: usize = 1 << 10;
/// The most chunks in the channel to the disk.
const CHUNKS_MAX: usize = 4;
/// The longest stored file name, in characters.
const NAME_MAX: usize = 255;

/// An upload in progress.
#[derive(Debug)]
pub(crate) struct Upload {
    batches: Arc<Batches>,
    form: Multipart,
    received: u64,
    field: Option<FormField>,
    file: Option<IncomingFile>,
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
    ended: bool,
    place: UploadSlot,
}

/// The part of the form that is being read.
#[derive(Debug)]
enum FormField {
    File,
    Text { name: String, value: Vec<u8> },
}

/// The file of the form.
#[derive(Debug)]
struct IncomingFile {
    id: String,
    name: String,
    bytes: u64,
    reservation: Reservation,
    commands: mpsc::Sender<WriteCommand>,
    draft: JoinHandle<io::Result<Draft>>,
}

/// A command to the writing thread. Without `End` there is no file.
#[derive(Debug)]
enum WriteCommand {
    Write(Bytes),
    End,
}

// === impl Upload ===

impl Upload {
    pub(super) fn new(batches: Arc<Batches>, boundary: &str, place: UploadSlot) -> Self {
        Self {
            batches,
            form: Multipart::new(boundary),
            received: 0,
            field: None,
            file: None,
            purpose: None,
            anchor: None,
            seconds: None,
            ended: false,
            place,
        }
    }

    /// Processes bytes of the form.
    pub(crate) async fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.count(bytes.len())?;
        if self.ended {
            return Ok(());
        }
        self.form.push(bytes);
        while let Some(piece) = self.form.next().map_err(malformed)? {
            match piece {
                FormEvent::Part(part) => self.begin(part)?,
                FormEvent::Data(data) => self.data(data).await?,
                FormEvent::End => self.end()?,
                FormEvent::Over => {
                    self.ended = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Counts received bytes; fails if the form is too large.
    fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        let limit = self.batches.settings.file_limit;
        self.received += bytes as u64;
        if self.received > limit.saturating_add(OVERHEAD_MAX) {
            return Err(Fault::FileTooLarge(limit));
        }
        Ok(())
    }

    fn begin(&mut self, part: Part) -> Result<(), Fault> {
        if part.name != "file" {
            self.field = Some(FormField::Text { name: part.name, value: Vec::new() });
            return Ok(());
        }
        if self.file.is_some() {
            return Err(invalid("file", "The form has two files: send one at a time."));
        }
        self.field = Some(FormField::File);
        self.file = Some(IncomingFile::begin(&self.batches.files, part.filename));
        Ok(())
    }

    async fn data(&mut self, data: Bytes) -> Result<(), Fault> {
        match (&mut self.field, &mut self.file) {
            (Some(FormField::File), Some(file)) => {
                file.take(data, self.batches.settings.file_limit).await
            }
            (Some(FormField::Text { value, .. }), _) if value.len() + data.len() <= FIELD_MAX => {
                value.extend_from_slice(&data);
                Ok(())
            }
            _ => Err(Fault::InvalidRequest("A field of the form is too long.".into())),
        }
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(FormField::Text { name, value }) = self.field.take() else { return Ok(()) };
        let field = match name.as_str() {
            "purpose" => &mut self.purpose,
            "expires_after[anchor]" => &mut self.anchor,
            "expires_after[seconds]" => &mut self.seconds,
            _ => return Ok(()),
        };
        let value = String::from_utf8(value);
        *field = Some(value.map_err(|_| malformed(MalformedForm("a field is not UTF-8")))?);
        Ok(())
    }

    /// Ends the upload: stores the file, or leaves nothing.
    pub(crate) async fn finish(self, now: Moment) -> Result<File, Fault> {
        if !self.ended {
            return Err(malformed(MalformedForm("it has no end")));
        }
        match self.purpose.as_deref() {
            Some(PURPOSE) => {}
            Some(_) => {
                return Err(invalid("purpose", "'purpose' must be batch: no other is kept."));
            }
            None => return Err(invalid("purpose", "'purpose' is missing: send purpose=batch.")),
        }
        let keep = self.lifetime()?;
        let Some(incoming) = self.file else {
            return Err(invalid("file", "'file' is missing: send the file in the field 'file'."));
        };
        let file = File {
            id: incoming.id.clone(),
            name: incoming.name.clone(),
            purpose: PURPOSE.into(),
            bytes: incoming.bytes,
            created: now,
            expires: now.after(keep),
            owner: self.place.owner().to_owned(),
        };
        let (draft, reservation) = incoming.written().await?;
        // Runs to its end, also if the client disconnects.
        let placed = task::detached(self.batches.place(file, draft, reservation)).await;
        placed.unwrap_or(Err(Fault::Internal))
    }

    /// How long the file is kept.
    fn lifetime(&self) -> Result<Duration, Fault> {
        let seconds = self.seconds.as_deref().map(|text| text.parse().unwrap_or_default());
        let requested = create_request::lifetime("expires_after", self.anchor.as_deref(), seconds)?;
        let most = self.batches.settings.keep;
        Ok(requested.map_or(most, |requested| requested.min(most)))
    }
}

// === impl IncomingFile ===

impl IncomingFile {
    fn begin(files: &Arc<FileStore>, name: Option<String>) -> Self {
        let id = format!("{FILE_PREFIX}{}", fresh_id());
        let (commands, received) = mpsc::channel(CHUNKS_MAX);
        let (place, named) = (Arc::clone(files), id.clone());
        let draft = task::blocking(move || write(&place, &named, received));
        let name = shown(name.as_deref().unwrap_or_default());
        Self { id, name, bytes: 0, reservation: files.reservation(), commands, draft }
    }

    async fn take(&mut self, data: Bytes, limit: u64) -> Result<(), Fault> {
        let bytes = data.len() as u64;
        self.bytes += bytes;
        if self.bytes > limit {
            return Err(Fault::FileTooLarge(limit));
        }
        if !self.reservation.grow(bytes) {
            let text = "There is no room for more files: delete some, or raise batch.files_limit.";
            return Err(Fault::StorageFull(text.into()));
        }
        if self.commands.send(WriteCommand::Write(data)).await.is_err() {
            let written = (&mut self.draft).await;
            return Err(written.map_or(Fault::Internal, |written| ended(written.err())));
        }
        Ok(())
    }

    /// Waits until the whole file is written.
    async fn written(self) -> Result<(Draft, Reservation), Fault> {
        // If the writing thread has ended early, its error is read below.
        let _ = self.commands.send(WriteCommand::End).await;
        let draft = self.draft.await.map_err(|_| Fault::Internal)?;
        Ok((draft.map_err(|error| ended(Some(error)))?, self.reservation))
    }
}

/// Writes chunks until `End`; fails if the sender is dropped before.
fn write(
    files: &Arc<FileStore>,
    id: &str,
    mut commands: mpsc::Receiver<WriteCommand>,
) -> io::Result<Draft> {
    let mut draft = files.draft(id)?;
    while let Some(command) = commands.blocking_recv() {
        match command {
            WriteCommand::Write(bytes) => draft.write_all(&bytes)?,
            WriteCommand::End => return Ok(draft),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// The fault of a writing thread that has ended.
fn ended(error: Option<io::Error>) -> Fault {
    error.map_or(Fault::Internal, |error| faults::disk(&error))
}

/// A file name without control characters.
fn shown(name: &str) -> String {
    let shown: String = name.chars().filter(|letter| !letter.is_control()).take(NAME_MAX).collect();
    if shown.is_empty() { "file".into() } else { shown }
}

fn malformed(why: MalformedForm) -> Fault {
    Fault::InvalidRequest(why.to_string())
}

fn invalid(field: &'static str, text: &str) -> Fault {
    Fault::InvalidField(field, text.into())
}
