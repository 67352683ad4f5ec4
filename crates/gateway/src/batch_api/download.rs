//! A download: a file that is read in chunks, at the pace of its client.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use crate::task;

/// The size of a chunk.
const CHUNK: u64 = 256 << 10;

/// A response body that is a file. Nothing is read while the client does not read.
#[derive(Debug)]
pub(crate) struct Download {
    left: u64,
    state: ReadState,
}

#[derive(Debug)]
enum ReadState {
    Idle(File),
    Reading(JoinHandle<(File, io::Result<Bytes>)>),
    Ended,
}

// === impl Download ===

impl Download {
    /// Opens a file; returns it with its length.
    pub(super) async fn open(path: PathBuf) -> io::Result<(Self, u64)> {
        let open = move || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        let opened: io::Result<_> = task::blocking(open).await?;
        let (file, left) = opened?;
        Ok((Self { left, state: ReadState::Idle(file) }, left))
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let ReadState::Idle(_) = self.state {
            self.start();
        }
        let ReadState::Reading(reading) = &mut self.state else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(context));
        self.state = ReadState::Ended;
        let (file, chunk) = match read {
            Ok(read) => read,
            Err(error) => return Poll::Ready(Some(Err(error.into()))),
        };
        if let Ok(chunk) = &chunk {
            self.left = self.left.saturating_sub(chunk.len() as u64);
            self.state = ReadState::Idle(file);
        }
        Poll::Ready(Some(chunk))
    }

    /// Starts to read the next chunk, if there is one.
    fn start(&mut self) {
        let ReadState::Idle(file) = std::mem::replace(&mut self.state, ReadState::Ended) else {
            return;
        };
        let most = self.left.min(CHUNK);
        if most > 0 {
            self.state = ReadState::Reading(task::blocking(move || read(file, most)));
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = ready!(self.get_mut().poll_chunk(context));
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Reads the next chunk; fails if the file has become shorter.
fn read(mut file: File, most: u64) -> (File, io::Result<Bytes>) {
    let mut chunk = vec![0; usize::try_from(most).unwrap_or_default()];
    let read = file.read_exact(&mut chunk).map(|()| chunk.into());
    (file, read)
}
