//! A file on its way out, read piece by piece as its client takes it.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use crate::task;

/// What is read at once.
const PIECE: u64 = 256 << 10;

/// The body of an answer that is a file. While its client takes nothing, nothing is read.
#[derive(Debug)]
pub(crate) struct Download {
    left: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Resting(File),
    Reading(JoinHandle<(File, io::Result<Bytes>)>),
    Over,
}

// === impl Download ===

impl Download {
    /// Opens a file, and says how many bytes it has.
    pub(super) async fn open(path: PathBuf) -> io::Result<(Self, u64)> {
        let open = move || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        let opened: io::Result<_> = task::blocking(open).await?;
        let (file, left) = opened?;
        Ok((Self { left, state: State::Resting(file) }, left))
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let State::Resting(_) = self.state {
            self.begin();
        }
        let State::Reading(reading) = &mut self.state else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(context));
        self.state = State::Over;
        let (file, piece) = match read {
            Ok(read) => read,
            Err(error) => return Poll::Ready(Some(Err(error.into()))),
        };
        if let Ok(piece) = &piece {
            self.left = self.left.saturating_sub(piece.len() as u64);
            self.state = State::Resting(file);
        }
        Poll::Ready(Some(piece))
    }

    /// Begins to read the next piece, if there is one.
    fn begin(&mut self) {
        let State::Resting(file) = std::mem::replace(&mut self.state, State::Over) else { return };
        let most = self.left.min(PIECE);
        if most > 0 {
            self.state = State::Reading(task::blocking(move || read(file, most)));
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
        let piece = ready!(self.get_mut().poll_piece(context));
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The next piece, which a file that has become shorter does not have.
fn read(mut file: File, most: u64) -> (File, io::Result<Bytes>) {
    let mut piece = vec![0; usize::try_from(most).unwrap_or_default()];
    let read = file.read_exact(&mut piece).map(|()| piece.into());
    (file, read)
}
