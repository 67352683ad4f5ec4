//! Uploads a file as `multipart/form-data`; the file is read while it is sent.

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

/// The size of a chunk that is read, and the number of chunks in the channel.
const CHUNK: usize = 256 << 10;
const CHUNKS_MAX: usize = 4;

/// Called with the number of bytes of each chunk.
pub(super) type OnProgress = Box<dyn Fn(u64) + Send>;

/// A form and its media type.
#[derive(Debug)]
pub(super) struct UploadForm {
    pub(super) content_type: HeaderValue,
    pub(super) body: FormBody,
}

/// The bytes of the form, as the body of a request.
#[derive(Debug)]
pub(super) struct FormBody {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
}

/// Starts to read a file.
pub(super) fn read(path: &Path, on_progress: OnProgress) -> Result<UploadForm> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(named)?;
    let length = file.metadata().with_context(named)?.len();
    // The boundary is random, so that no line of the file can contain it.
    let boundary = format!("tidegate-{:016x}{:016x}", random(), random());
    let before = before_file(path, &boundary);
    let after = format!("\r\n--{boundary}--\r\n");
    let left = (before.len() + after.len()) as u64 + length;
    let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
    let whole = FormSource { before, file: file.take(length), after, on_progress };
    // The task ends with the file, or when the receiver is dropped.
    drop(tokio::task::spawn_blocking(move || whole.send(&sender)));
    let content_type = format!("multipart/form-data; boundary={boundary}").try_into()?;
    Ok(UploadForm { content_type, body: FormBody { chunks, left } })
}

/// The part `purpose`, and the head of the part with the file.
fn before_file(path: &Path, boundary: &str) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String =
        name.chars().filter(|&letter| letter != '"' && !letter.is_control()).collect();
    let disposition = "Content-Disposition: form-data; name=";
    format!(
        "--{boundary}\r\n{disposition}\"purpose\"\r\n\r\nbatch\r\n\
         --{boundary}\r\n{disposition}\"file\"; filename=\"{name}\"\r\n\
         Content-Type: application/jsonl\r\n\r\n"
    )
}

/// The parts of the form, in their order.
struct FormSource {
    before: String,
    file: io::Take<File>,
    after: String,
    on_progress: OnProgress,
}

// === impl Whole ===

impl FormSource {
    fn send(mut self, to: &mpsc::Sender<io::Result<Bytes>>) -> Option<()> {
        to.blocking_send(Ok(std::mem::take(&mut self.before).into())).ok()?;
        loop {
            let mut chunk = vec![0; CHUNK];
            match self.file.read(&mut chunk) {
                Ok(0) => return to.blocking_send(Ok(self.after.into())).ok(),
                Ok(count) => {
                    chunk.truncate(count);
                    to.blocking_send(Ok(chunk.into())).ok()?;
                    (self.on_progress)(count as u64);
                }
                Err(error) => return to.blocking_send(Err(error)).ok(),
            }
        }
    }
}

/// An unpredictable number.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

// === impl Pieces ===

impl Body for FormBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.chunks.poll_recv(context).map(|chunk| {
            let chunk = chunk?;
            let count = chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
            self.left = self.left.saturating_sub(count);
            Some(chunk.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
