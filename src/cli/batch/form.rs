//! A file as a form, read while it is sent.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// What is read at once, and how many such pieces wait.
const PIECE: usize = 256 << 10;
const WAITING_MAX: usize = 4;

/// Hears how many bytes of the file have been read to be sent.
pub(super) type Sent = Box<dyn Fn(u64) + Send>;

/// A form, and what it says of itself.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) content_type: HeaderValue,
    pub(super) body: Pieces,
}

/// The form's bytes.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
}

/// Begins to read a file.
pub(super) fn read(path: &Path, sent: Sent) -> Result<Form> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(named)?;
    let length = file.metadata().with_context(named)?.len();
    // Longer than anyone could guess and put into a line.
    let boundary = format!("tidegate-{:016x}{:016x}", random(), random());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String =
        name.chars().filter(|&letter| letter != '"' && !letter.is_control()).collect();
    let disposition = "Content-Disposition: form-data; name=";
    let before = format!(
        "--{boundary}\r\n{disposition}\"purpose\"\r\n\r\nbatch\r\n\
         --{boundary}\r\n{disposition}\"file\"; filename=\"{name}\"\r\n\
         Content-Type: application/jsonl\r\n\r\n"
    );
    let after = format!("\r\n--{boundary}--\r\n");
    let left = (before.len() + after.len()) as u64 + length;
    let (sender, pieces) = mpsc::channel(WAITING_MAX);
    let whole = Whole { before, file: file.take(length), after, sent };
    // It ends when the file does, or when nobody takes the pieces any more.
    drop(tokio::task::spawn_blocking(move || whole.send(&sender)));
    let content_type = format!("multipart/form-data; boundary={boundary}").try_into()?;
    Ok(Form { content_type, body: Pieces { pieces, left } })
}

/// All that is to be sent.
struct Whole {
    before: String,
    file: io::Take<File>,
    after: String,
    sent: Sent,
}

// === impl Whole ===

impl Whole {
    fn send(mut self, to: &mpsc::Sender<io::Result<Bytes>>) -> Option<()> {
        to.blocking_send(Ok(std::mem::take(&mut self.before).into())).ok()?;
        loop {
            let mut piece = vec![0; PIECE];
            match self.file.read(&mut piece) {
                Ok(0) => return to.blocking_send(Ok(self.after.into())).ok(),
                Ok(count) => {
                    piece.truncate(count);
                    to.blocking_send(Ok(piece.into())).ok()?;
                    (self.sent)(count as u64);
                }
                Err(error) => return to.blocking_send(Err(error)).ok(),
            }
        }
    }
}

/// A number that nobody can guess.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

// === impl Pieces ===

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.pieces.poll_recv(context).map(|piece| {
            let piece = piece?;
            let count = piece.as_ref().map_or(0, |piece| piece.len() as u64);
            self.left = self.left.saturating_sub(count);
            Some(piece.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
