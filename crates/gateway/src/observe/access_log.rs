//! The access log. Requests append lines to a buffer, and a thread writes them.
//!
//! A request never waits for the reader of the log. The buffer is bounded and written as a whole.
//! If the reader is too slow, lines are dropped and counted.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use flow::BANDS;

use super::{Record, access_line, decision_lines};
use crate::clock;
use crate::config::settings::LogFormat;

/// The most bytes that wait to be written.
const PENDING_MAX: usize = 4 << 20;
/// A write begins at once when the buffer has this many bytes.
const BATCH: usize = 64 << 10;
/// How long a line waits for further lines.
const LINGER: Duration = Duration::from_millis(20);
/// How long a flush waits for the writer.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// See the module documentation.
#[derive(Debug)]
pub(super) struct AccessLog {
    format: LogFormat,
    buffer: Arc<LogBuffer>,
    /// The number of the last request: when it ended, in nanoseconds since 1970.
    last: AtomicU64,
}

/// The buffer that requests and the writer share.
#[derive(Debug, Default)]
struct LogBuffer {
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

// === impl AccessLog ===

impl AccessLog {
    /// Starts the writer; `None` if its thread cannot start.
    pub(super) fn start(format: LogFormat, sink: impl Write + Send + 'static) -> Option<Self> {
        let buffer = Arc::new(LogBuffer::default());
        let shared = Arc::clone(&buffer);
        let thread = thread::Builder::new().name("access-log".into());
        match thread.spawn(move || shared.run(sink)) {
            Ok(_) => Some(Self { format, buffer, last: AtomicU64::new(0) }),
            Err(error) => {
                tracing::error!(%error, "no access log: its thread did not start");
                None
            }
        }
    }

    pub(super) fn write(&self, record: &Record) {
        let moment = clock::since_epoch();
        let line = access_line::write(record, self.format, moment, self.next_number(moment));
        self.buffer.push(line.as_bytes());
    }

    /// A number that no other request has, although two may end in the same nanosecond.
    fn next_number(&self, moment: Duration) -> u64 {
        let now = clock::nanos(moment);
        let next = |last: u64| now.max(last.saturating_add(1));
        let last = self.last.fetch_update(Relaxed, Relaxed, |last| Some(next(last)));
        last.map_or(now, next)
    }

    /// Writes the lines of the choice of a backend.
    pub(super) fn write_decision(&self, record: &Record, pending: [u32; BANDS]) {
        let lines = decision_lines::write(record, pending);
        let moment = clock::since_epoch();
        for line in lines {
            self.buffer.push(access_line::message(&line, self.format, moment).as_bytes());
        }
    }

    /// The number of dropped lines.
    pub(super) fn dropped(&self) -> u64 {
        self.buffer.dropped.load(Relaxed)
    }

    pub(super) fn flush(&self) {
        let mut state = self.buffer.lock();
        state.hurry = true;
        self.buffer.wake.notify_one();
        let busy = |state: &mut BufferState| state.writing || !state.pending.is_empty();
        drop(self.buffer.written.wait_timeout_while(state, FLUSH_MAX, busy));
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.buffer.lock().closed = true;
        self.buffer.wake.notify_one();
    }
}

// === impl LogBuffer ===

impl LogBuffer {
    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
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
