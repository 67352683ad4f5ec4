//! The frames of one response that its client has not read yet.
//!
//! Over HTTP/2 a client can leave one stream unread. hyper does not poll the body of such a stream.
//! So a task reads the body ahead of the client, up to a bound for the stream and one for all
//! streams together. A response that fits ends at its backend whether or not its client reads, and
//! the place of its request is free again. A client that leaves the frames unread for too long is
//! cut off: its frames are freed, and its stream is reset. A client that holds much of the memory
//! has less time, because its full streams keep places at backends from others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::Notify;

use super::stream_executor::StreamReset;
use crate::body_memory::Reservation;
use crate::proxy::BodyError;

/// The most unread bytes of one stream, and of all streams together. Each stream may hold one frame
/// more, which is at most as long as one read from a backend, 256 KiB.
const UNREAD_MAX: usize = 256 << 10;
const UNREAD_TOTAL: usize = 64 << 20;
/// How long a full stream of a client may stay unread that holds a quarter of the memory.
const LARGE_HOLDER_LIMIT: Duration = Duration::from_secs(1);
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
    /// Resets the stream of HTTP/2.
    reset: Option<StreamReset>,
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
    /// An empty buffer, whose memory is that of its client.
    pub(super) fn new(memory: Reservation) -> (Self, Handed) {
        let buffer = Buffer {
            frames: VecDeque::new(),
            memory,
            end: None,
            left: false,
            lost: false,
            reader: None,
            reset: None,
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
            let limit = self.0.buffer().patience(limit);
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
    /// Lets a cut reset the stream of this task.
    pub(super) fn attach(&self) {
        self.0.buffer().reset = StreamReset::of_this_task();
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
        // Without a window hyper does not poll the body, so it would not see the error.
        if let Some(reset) = self.reset.take() {
            reset.send();
        }
    }

    /// How long the client may take to make room.
    fn patience(&self, limit: Duration) -> Duration {
        match self.memory.is_of_a_large_holder(UNREAD_TOTAL) {
            true => limit.min(LARGE_HOLDER_LIMIT),
            false => limit,
        }
    }
}

fn size(frame: &Item) -> usize {
    let data = frame.as_ref().ok().and_then(Frame::data_ref);
    FRAME_COST + data.map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::body_memory::{BodyHolder, BodyMemory};

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
        let streams: Vec<_> = (0..100).map(|_| Frames::new(memory.hold())).collect();
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
        let (frames, mut handed) = Frames::new(memory.hold());
        assert_eq!(frames.send(frame(10), LIMIT).await, Reading::Reads);
        assert!(poll(&mut handed).is_ready());
        assert_eq!(frames.end(LIMIT).await, Reading::Reads);
        let (frames, _handed) = Frames::new(memory.hold());
        assert_eq!(frames.send(frame(10), LIMIT).await, Reading::Reads);
        assert_eq!(frames.end(LIMIT).await, Reading::Stalled);
        let (frames, handed) = Frames::new(memory.hold());
        assert_eq!(frames.send(frame(10), LIMIT).await, Reading::Reads);
        drop(handed);
        assert_eq!(frames.end(LIMIT).await, Reading::Left);
        assert_eq!(memory.bytes(), 0);
    }

    fn piece() -> Item {
        frame((64 << 10) - FRAME_COST)
    }

    /// Sends as much as one stream may leave unread.
    async fn fill(frames: &Frames) {
        for _ in 0..4 {
            assert_eq!(frames.send(piece(), LIMIT).await, Reading::Reads);
        }
    }

    /// One client fills its share. It has less time then, and another client has room and time.
    #[tokio::test(start_paused = true)]
    async fn x03_a_client_with_many_unread_streams_leaves_memory_and_time_to_others() {
        let memory = Arc::new(BodyMemory::default());
        let of = |tenant| Frames::new(memory.hold_for(BodyHolder::Tenant(tenant)));
        let mut streams = Vec::new();
        let begun = Instant::now();
        // 48 MiB are three quarters.
        for _ in 0..192 {
            let (frames, handed) = of("flood");
            fill(&frames).await;
            streams.push((frames, handed));
        }
        let (frames, _handed) = of("flood");
        assert_eq!(frames.send(piece(), LIMIT).await, Reading::Reads, "one frame always fits");
        assert_eq!(frames.send(piece(), LIMIT).await, Reading::Stalled);
        assert_eq!(begun.elapsed(), LARGE_HOLDER_LIMIT);
        // One tenant of several may have the flood's hash.
        let honest = ["a", "b", "c"].map(of);
        let mut most = 0;
        for (frames, _) in &honest {
            frames.send(piece(), LIMIT).await;
            let second = tokio::time::timeout(LIMIT / 2, frames.send(piece(), LIMIT)).await;
            most += usize::from(second == Ok(Reading::Reads));
        }
        assert!(most >= 2, "{most}");
    }
}
