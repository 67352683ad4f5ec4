//! Lines on their way to an output: producers append to a buffer, and a thread writes them.
//!
//! A producer never waits for the reader of the output. The buffer is bounded and written as a
//! whole. If the reader is too slow, lines are dropped and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The most bytes that wait to be written.
const PENDING_MAX: usize = 4 << 20;
/// A write begins at once when the buffer has this many bytes.
const BATCH: usize = 64 << 10;
/// How long a line waits for further lines.
const LINGER: Duration = Duration::from_millis(20);
/// How long a flush waits for the writer.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The buffer that producers and the writer share.
#[derive(Debug, Default)]
pub(super) struct LogBuffer {
    state: Mutex<BufferState>,
    /// Wakes the writer.
    wake: Condvar,
    /// Wakes a flush after a write.
    written: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct BufferState {
    pending: Vec<u8>,
    writing: bool,
    /// A flush waits for the lines.
    hurry: bool,
    closed: bool,
}

// === impl LogBuffer ===

impl LogBuffer {
    /// Starts a thread that writes to an output.
    pub(super) fn start(name: &str, sink: impl Write + Send + 'static) -> io::Result<Arc<Self>> {
        let buffer = Arc::new(Self::default());
        let shared = Arc::clone(&buffer);
        thread::Builder::new().name(name.into()).spawn(move || shared.run(sink))?;
        Ok(buffer)
    }

    /// Waits until all lines are written, but not for long: the reader may have stopped reading.
    pub(super) fn flush(&self) {
        let mut state = self.lock();
        state.hurry = true;
        self.wake.notify_one();
        let busy = |state: &mut BufferState| state.writing || !state.pending.is_empty();
        drop(self.written.wait_timeout_while(state, FLUSH_MAX, busy));
    }

    /// Ends the thread after the last line.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// The number of dropped lines.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        let before = state.pending.len();
        let after = before + line.len();
        if after > PENDING_MAX {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        state.pending.extend_from_slice(line);
        drop(state);
        // Otherwise the writer is already awake and waits for more lines.
        if before == 0 || (before < BATCH && after >= BATCH) {
            self.wake.notify_one();
        }
    }

    fn run(&self, mut sink: impl Write) {
        let mut batch = Vec::new();
        while self.next(&mut batch) {
            let done = sink.write_all(&batch).and_then(|()| sink.flush());
            if done.is_err() {
                let lines = memchr::memchr_iter(b'\n', &batch).count();
                self.dropped.fetch_add(lines as u64, Relaxed);
            }
            batch.clear();
            self.lock().writing = false;
            self.written.notify_all();
        }
    }

    /// Waits for lines and takes all of them; false when the log is closed.
    fn next(&self, batch: &mut Vec<u8>) -> bool {
        let idle = |state: &mut BufferState| state.pending.is_empty() && !state.closed;
        let state = self.wake.wait_while(self.lock(), idle);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let few =
            |state: &mut BufferState| state.pending.len() < BATCH && !state.hurry && !state.closed;
        let waited = self.wake.wait_timeout_while(state, LINGER, few);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.pending, batch);
        state.hurry = false;
        state.writing = !batch.is_empty();
        state.writing
    }
}
