//! The frames of one response that its client has not read yet.
//!
//! Over HTTP/2 a client can leave one stream unread. hyper does not poll the body of such a stream.
//! So a task reads the body ahead of the client, up to a bound for the stream and one for all
//! streams together. A response that fits ends at its backend whether or not its client reads, and
//! the place of its request is free again. A client that leaves the frames unread for too long is
//! cut off: its frames are freed, and a connection on which all streams are cut off is closed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::Notify;

use super::connection::Activity;
use crate::body_memory::{BodyMemory, Reservation};
use crate::proxy::BodyError;

/// The most unread bytes of one stream, and of all streams together. Each stream may hold one frame
/// more, which is at most as long as one read from a backend, 256 KiB.
const UNREAD_MAX: usize = 256 << 10;
const UNREAD_TOTAL: usize = 64 << 20;
/// What a frame costs besides its bytes.
const FRAME_COST: usize = 64;

type Item = Result<Frame<Bytes>, BodyError>;

/// The writing end. Dropped before [`Frames::end`], it cuts the response.
#[derive(Debug)]
pub(super) struct Frames(Arc<Unread>);

/// The reading end, which hyper polls.
#[derive(Debug)]
pub(super) struct Handed(Arc<Unread>);

#[derive(Debug)]
struct Unread {
    buffer: Mutex<Buffer>,
    /// Tells the writer that the client took a frame, or left.
    taken: Notify,
}

#[derive(Debug)]
struct Buffer {
    frames: VecDeque<Item>,
    memory: Reservation,
    end: Option<End>,
    /// Whether the reading end is gone.
    left: bool,
    /// Whether it left frames unread.
    lost: bool,
    reader: Option<Waker>,
    /// The connection of the client.
    connection: Option<Arc<Activity>>,
}

/// What the client does with the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It takes them in time.
    Reads,
    /// It left too many unread for too long.
    Stalled,
    /// It left.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Cut,
}

// === impl Frames ===

impl Frames {
    pub(super) fn new(memory: &Arc<BodyMemory>) -> (Self, Handed) {
        let buffer = Buffer {
            frames: VecDeque::new(),
            memory: memory.hold(),
            end: None,
            left: false,
            lost: false,
            reader: None,
            connection: None,
        };
        let unread = Arc::new(Unread { buffer: Mutex::new(buffer), taken: Notify::new() });
        (Self(Arc::clone(&unread)), Handed(unread))
    }

    /// Sends a frame, if the client makes room for it in time.
    ///
    /// If the buffer is full, the client has to take half of it. One byte from time to time would
    /// keep the backend for ever.
    pub(super) async fn send(&self, frame: Item, limit: Duration) -> Reading {
        let size = size(&frame);
        if !self.0.buffer().takes(size, UNREAD_MAX) {
            let has_room = |buffer: &mut Buffer| buffer.takes(size, UNREAD_MAX / 2);
            if tokio::time::timeout(limit, self.until(has_room)).await.is_err() {
                return Reading::Stalled;
            }
        }
        let mut buffer = self.0.buffer();
        if buffer.left {
            return Reading::Left;
        }
        buffer.push(frame);
        Reading::Reads
    }

    /// Sends a frame, and waits until the connection of the client has taken it. Returns whether it
    /// did in time.
    pub(super) async fn deliver(&self, frame: Frame<Bytes>, limit: Duration) -> bool {
        let frame = Ok(frame);
        {
            let mut buffer = self.0.buffer();
            // The last one was taken, so it fits; this counts its bytes.
            buffer.takes(size(&frame), UNREAD_MAX);
            buffer.push(frame);
        }
        let is_taken = |buffer: &mut Buffer| buffer.frames.is_empty();
        let taken = tokio::time::timeout(limit, self.until(is_taken)).await;
        taken.is_ok() && !self.0.buffer().left
    }

    /// Sends a frame that may be lost: a client that has not read the last one needs no other.
    pub(super) fn offer(&self, frame: Frame<Bytes>) {
        let mut buffer = self.0.buffer();
        let frame = Ok(frame);
        if buffer.frames.is_empty() && buffer.takes(size(&frame), UNREAD_MAX) {
            buffer.push(frame);
        }
    }

    /// Resolves when the client has left.
    pub(super) async fn closed(&self) {
        self.until(|_| false).await;
    }

    /// Marks the end of the body, and waits until the client has read it. Half of the rest has to
    /// be read in the time of the limit.
    pub(super) async fn end(self, limit: Duration) -> Reading {
        let mut left = self.0.finish(End::Complete);
        while left > 0 {
            let fewer = |buffer: &mut Buffer| buffer.frames.len() <= left / 2;
            if tokio::time::timeout(limit, self.until(fewer)).await.is_err() {
                // The drop cuts the rest.
                self.0.buffer().end = None;
                return Reading::Stalled;
            }
            left = self.0.buffer().frames.len();
        }
        if self.0.buffer().lost { Reading::Left } else { Reading::Reads }
    }

    /// Waits until the buffer meets a condition, or the client has left.
    async fn until(&self, mut is_met: impl FnMut(&mut Buffer) -> bool) {
        let mut is_over = || {
            let mut buffer = self.0.buffer();
            buffer.left || is_met(&mut buffer)
        };
        while !is_over() {
            self.0.taken.notified().await;
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.0.finish(End::Cut);
    }
}

// === impl Handed ===

impl Handed {
    /// Sets the connection that is closed when all of its streams are cut off.
    pub(super) fn attach(&self, connection: &Arc<Activity>) {
        let mut buffer = self.0.buffer();
        if buffer.end != Some(End::Cut) {
            buffer.connection = Some(Arc::clone(connection));
        }
    }

    pub(super) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut buffer = self.0.buffer();
        if let Some(frame) = buffer.frames.pop_front() {
            buffer.memory.less(size(&frame));
            drop(buffer);
            self.0.taken.notify_one();
            return Poll::Ready(Some(frame));
        }
        match buffer.end {
            Some(End::Complete) => Poll::Ready(None),
            Some(End::Cut) => {
                buffer.restore();
                buffer.end = Some(End::Complete);
                Poll::Ready(Some(Err(BodyError::Client)))
            }
            None => {
                buffer.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        let mut buffer = self.0.buffer();
        buffer.left = true;
        buffer.lost = !buffer.frames.is_empty();
        // The writer waits for its frames to be taken, and this client takes none any more.
        buffer.clear();
        buffer.restore();
        drop(buffer);
        self.0.taken.notify_one();
    }
}

// === impl Unread ===

impl Unread {
    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the frames, unless they have ended. Returns how many are unread.
    fn finish(&self, end: End) -> usize {
        let mut buffer = self.buffer();
        if buffer.end.is_none() {
            buffer.end = Some(end);
            if end == End::Cut {
                buffer.cut();
            }
            buffer.wake();
        }
        buffer.frames.len()
    }
}

// === impl Buffer ===

impl Buffer {
    /// Whether a frame fits. The memory is then reserved. One frame always fits: the task that
    /// sends it holds it in any case. So all streams together hold at most [`UNREAD_TOTAL`], and
    /// one frame each.
    fn takes(&mut self, size: usize, most: usize) -> bool {
        let fits = self.memory.bytes().saturating_add(size) <= most;
        if fits && self.memory.more(size, UNREAD_TOTAL).is_ok() {
            return true;
        }
        if self.frames.is_empty() {
            self.memory.force(size);
        }
        self.frames.is_empty()
    }

    fn push(&mut self, frame: Item) {
        if !self.left {
            self.frames.push_back(frame);
            self.wake();
        }
    }

    fn clear(&mut self) {
        self.frames = VecDeque::new();
        self.memory.less(usize::MAX);
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Drops the unread frames. The client sees an error if it reads on.
    fn cut(&mut self) {
        // An error of the backend, and frames of a client that reads, have been taken by then.
        self.clear();
        if let Some(connection) = &self.connection
            && !self.left
        {
            connection.cut();
        }
    }

    /// The client reads on, or leaves: its stream counts as cut no more.
    fn restore(&mut self) {
        if self.end == Some(End::Cut)
            && let Some(connection) = self.connection.take()
        {
            connection.uncut();
        }
    }
}

fn size(frame: &Item) -> usize {
    let data = frame.as_ref().ok().and_then(Frame::data_ref);
    FRAME_COST + data.map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    fn frame(length: usize) -> Item {
        Ok(Frame::data(vec![0; length].into()))
    }

    fn poll(handed: &mut Handed) -> Poll<Option<Item>> {
        handed.poll_frame(&mut Context::from_waker(Waker::noop()))
    }

    /// The memory is exact: the bound of all streams, and then one frame of each stream.
    #[tokio::test(start_paused = true)]
    async fn x03_unread_bytes_exceed_their_bound_by_one_frame_of_each_stream() {
        let memory = Arc::new(BodyMemory::default());
        let mut others = memory.hold();
        others.force(UNREAD_TOTAL);
        let streams: Vec<_> = (0..100).map(|_| Frames::new(&memory)).collect();
        let size = size(&frame(1000));
        for (frames, _) in &streams {
            assert_eq!(frames.send(frame(1000), LIMIT).await, Reading::Reads);
            // The time passes by itself, as nothing else can happen.
            assert_eq!(frames.send(frame(1000), LIMIT).await, Reading::Stalled);
        }
        assert_eq!(memory.bytes(), UNREAD_TOTAL + 100 * size);
        for (_, mut handed) in streams {
            assert!(matches!(poll(&mut handed), Poll::Ready(Some(Ok(_)))));
        }
        assert_eq!(memory.bytes(), UNREAD_TOTAL, "each frame gave back what it took");
    }

    #[tokio::test(start_paused = true)]
    async fn x03_the_end_says_whether_the_client_read_all() {
        let memory = Arc::new(BodyMemory::default());
        let (frames, mut handed) = Frames::new(&memory);
        assert_eq!(frames.send(frame(10), LIMIT).await, Reading::Reads);
        assert!(poll(&mut handed).is_ready());
        assert_eq!(frames.end(LIMIT).await, Reading::Reads);
        let (frames, _handed) = Frames::new(&memory);
        assert_eq!(frames.send(frame(10), LIMIT).await, Reading::Reads);
        assert_eq!(frames.end(LIMIT).await, Reading::Stalled);
        let (frames, handed) = Frames::new(&memory);
        assert_eq!(frames.send(frame(10), LIMIT).await, Reading::Reads);
        drop(handed);
        assert_eq!(frames.end(LIMIT).await, Reading::Left);
        assert_eq!(memory.bytes(), 0);
    }
}
