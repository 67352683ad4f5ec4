//! The access log. A request never waits for its reader.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use flow::BANDS;

use super::log_buffer::LogBuffer;
use super::{Record, access_line, decision_lines};
use crate::clock;
use crate::config::settings::LogFormat;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct AccessLog {
    format: LogFormat,
    buffer: Arc<LogBuffer>,
    /// The number of the last request: when it ended, in nanoseconds since 1970.
    last: AtomicU64,
}

// === impl AccessLog ===

impl AccessLog {
    /// Starts the writer; `None` if its thread cannot start.
    pub(super) fn start(format: LogFormat, sink: impl Write + Send + 'static) -> Option<Self> {
        match LogBuffer::start("access-log", sink) {
            Ok(buffer) => Some(Self { format, buffer, last: AtomicU64::new(0) }),
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
        lines.into_iter().chain(decision_lines::of_workload(record)).for_each(|it| self.say(&it));
    }

    /// Writes that the request has left its backend.
    pub(super) fn write_end(&self, record: &Record) {
        self.say(&decision_lines::of_end(record));
    }

    fn say(&self, line: &str) {
        let moment = clock::since_epoch();
        self.buffer.push(access_line::message(line, self.format, moment).as_bytes());
    }

    /// The number of dropped lines.
    pub(super) fn dropped(&self) -> u64 {
        self.buffer.dropped()
    }

    pub(super) fn flush(&self) {
        self.buffer.flush();
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.buffer.close();
    }
}
