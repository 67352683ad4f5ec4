//! What one class has seen so far.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::report::{Quantiles, Summary, Waits};

/// The counts of a class: every request writes them, reports read them.
#[derive(Debug)]
pub(super) struct Tally {
    name: String,
    seen: Mutex<Seen>,
}

/// How a request ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Why it failed, if it did.
    pub(super) code: Option<String>,
    pub(super) first_byte: Option<Duration>,
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
struct Seen {
    sent: u64,
    bytes: u64,
    failed: BTreeMap<String, u64>,
    latencies: Vec<Duration>,
    first_bytes: Vec<Duration>,
}

/// Codes come from servers: so many are told apart.
const CODES_MAX: usize = 50;

// === impl Ended ===

impl Ended {
    pub(super) fn failed(code: String) -> Self {
        Self { code: Some(code), first_byte: None, bytes: 0 }
    }
}

// === impl Tally ===

impl Tally {
    pub(super) fn new(name: String) -> Self {
        Self { name, seen: Mutex::default() }
    }

    pub(super) fn sent(&self) {
        self.lock().sent += 1;
    }

    /// Writes down how a request ended after `latency`; whether it went well.
    pub(super) fn ended(&self, ended: Ended, latency: Duration) -> bool {
        let mut seen = self.lock();
        seen.bytes += ended.bytes;
        match ended.code {
            None => {
                seen.latencies.push(latency);
                seen.first_bytes.extend(ended.first_byte);
                true
            }
            Some(code) => {
                let room = seen.failed.len() < CODES_MAX || seen.failed.contains_key(&code);
                let code = if room { code } else { "other".to_owned() };
                *seen.failed.entry(code).or_default() += 1;
                false
            }
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let seen = self.lock();
        let ok = seen.latencies.len() as u64;
        Summary {
            name: self.name.clone(),
            sent: seen.sent,
            ok,
            unfinished: seen.sent - ok - seen.failed.values().sum::<u64>(),
            failed: seen.failed.clone(),
            bytes: seen.bytes,
            latency: Quantiles::of(&seen.latencies),
            first_byte: Quantiles::of(&seen.first_bytes),
            waits: Waits::of(&seen.first_bytes, seen.sent),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
