//! The handle on a running engine: what it has seen, and what shall go wrong next.
//!
//! Tests compare what reached the engine with what should have: the most at once against a
//! watermark, headers and bodies against what the client sent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use sim::random::Random;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Settings;
use super::fault::{Fault, UnknownFault};
use super::machine::Machine;

/// A handle on a running engine; all copies are the same.
#[derive(Clone, Debug)]
pub struct Control {
    inner: Arc<Mutex<Inner>>,
    pub(super) machine: Arc<Machine>,
    /// Until when the server is gone.
    door: Arc<watch::Sender<Option<Instant>>>,
    power_watts: f64,
}

/// What an engine has seen since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Connections that were taken.
    pub connections: u64,
    /// Requests for work that arrived.
    pub received: u64,
    /// Sequences that run.
    pub running: u32,
    /// Sequences that wait in the engine's own line.
    pub waiting: u32,
    /// The most that ever ran at once.
    pub max_running_seen: u32,
    /// Requests for work that are here, whether they run, wait or hang.
    pub in_flight: u32,
    /// The most requests that ever were here at once.
    pub max_in_flight_seen: u32,
    /// Answered in full.
    pub completed: u64,
    /// Ended because the client left.
    pub aborted: u64,
    /// Ended by a fault on demand, or refused.
    pub failed: u64,
    /// Sequences thrown back for want of memory.
    pub preemptions: u64,
    /// Energy drawn so far: the power times the time with work.
    pub energy_joules: f64,
    /// Method and path of the last request.
    pub last_request: String,
    /// Headers of the last request, in order.
    pub last_headers: Vec<(String, String)>,
    /// Its body, as far as it is kept.
    pub last_body: String,
    /// The length of its body.
    pub last_body_bytes: u64,
    /// What [`digest`] makes of its body.
    pub last_body_digest: String,
}

/// What shall go wrong: a fault by its name, or `none`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultRequest {
    fault: String,
    /// For how many requests; for all without it.
    #[serde(default)]
    count: Option<u32>,
    /// Also for health, models and metrics.
    #[serde(default)]
    everywhere: bool,
}

/// One request that is here. It is aborted unless it says how it ended.
#[derive(Debug)]
pub(super) struct RequestGuard {
    control: Control,
    over: bool,
}

#[derive(Debug)]
struct Inner {
    counters: Counters,
    fault: Option<Pending>,
    random: Random,
    failure_share: f64,
    failures: Vec<Fault>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    fault: Fault,
    left: Option<u32>,
    everywhere: bool,
}

/// As much of a body as is kept.
const BODY_KEPT: usize = 64 << 10;

// === impl Control ===

impl Control {
    pub(super) fn new(settings: &Settings, machine: Arc<Machine>) -> Self {
        let inner = Inner {
            counters: Counters::default(),
            fault: None,
            random: Random::new(settings.seed).fork("failures"),
            failure_share: settings.failure_share,
            failures: settings.failures.clone(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            machine,
            door: Arc::new(watch::channel(None).0),
            power_watts: settings.power_watts,
        }
    }

    /// What the engine has seen.
    pub fn counters(&self) -> Counters {
        let state = self.machine.state();
        let seen = self.lock().counters.clone();
        Counters {
            running: state.reading.running,
            waiting: state.reading.waiting,
            max_running_seen: state.running_max,
            preemptions: state.reading.preemptions,
            energy_joules: state.busy.as_secs_f64() * self.power_watts,
            ..seen
        }
    }

    /// The next `count` requests for work go wrong like this, or all of them.
    pub fn fail(&self, fault: Fault, count: Option<u32>) {
        self.set(Some(Pending { fault, left: count, everywhere: false }));
    }

    /// Nothing goes wrong any more; a server that was gone is back.
    pub fn heal(&self) {
        self.set(None);
    }

    pub(super) fn demand(&self, demand: &FaultRequest) -> Result<(), UnknownFault> {
        let FaultRequest { fault, count, everywhere } = demand;
        let fault = match fault.as_str() {
            "none" => None,
            name => Some(name.parse()?),
        };
        let (left, everywhere) = (*count, *everywhere);
        self.set(fault.map(|fault| Pending { fault, left, everywhere }));
        Ok(())
    }

    fn set(&self, pending: Option<Pending>) {
        match pending.map(|pending| pending.fault) {
            // It takes no request to be gone.
            Some(Fault::Refuse(time)) => self.shut(time),
            _ => {
                self.door.send_replace(None);
                self.lock().fault = pending;
            }
        }
    }

    pub(super) fn shut(&self, time: Duration) {
        self.door.send_replace(Some(Instant::now() + time));
    }

    pub(super) fn door(&self) -> watch::Receiver<Option<Instant>> {
        self.door.subscribe()
    }

    /// A connection was taken.
    pub(super) fn connected(&self) {
        self.lock().counters.connections += 1;
    }

    /// A request for work has arrived.
    pub(super) fn guard(&self) -> RequestGuard {
        let counters = &mut self.lock().counters;
        counters.received += 1;
        counters.in_flight += 1;
        counters.max_in_flight_seen = counters.max_in_flight_seen.max(counters.in_flight);
        RequestGuard { control: self.clone(), over: false }
    }

    pub(super) fn note_request(&self, request: String, headers: &HeaderMap) {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into();
        let pairs = headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
        let counters = &mut self.lock().counters;
        counters.last_headers = pairs.collect();
        counters.last_request = request;
    }

    pub(super) fn note_body(&self, body: &[u8]) {
        let kept = &body[..body.len().min(BODY_KEPT)];
        let counters = &mut self.lock().counters;
        counters.last_body = String::from_utf8_lossy(kept).into_owned();
        counters.last_body_bytes = body.len() as u64;
        counters.last_body_digest = format!("{:016x}", digest(body));
    }

    /// What goes wrong with a request; `asked` is what its own header asks for.
    pub(super) fn fault(&self, asked: Option<Fault>, for_work: bool) -> Option<Fault> {
        let mut inner = self.lock();
        asked.or_else(|| inner.pending(for_work)).or_else(|| inner.drawn(for_work))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// FNV-1a in 64 bits: enough to see whether two bodies are the same.
pub fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

// === impl Inner ===

impl Inner {
    fn pending(&mut self, for_work: bool) -> Option<Fault> {
        let pending = self.fault.as_mut().filter(|pending| for_work || pending.everywhere)?;
        let fault = pending.fault;
        let spent = pending.left.as_mut().is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left == 0
        });
        if spent {
            self.fault = None;
        }
        Some(fault)
    }

    fn drawn(&mut self, for_work: bool) -> Option<Fault> {
        if !for_work || self.failure_share <= 0.0 || self.random.unit() >= self.failure_share {
            return None;
        }
        let at = self.random.below(self.failures.len().max(1) as u64) as usize;
        self.failures.get(at).copied()
    }
}

// === impl RequestGuard ===

impl RequestGuard {
    /// It was answered in full.
    pub(super) fn complete(mut self) {
        self.end(|counters| counters.completed += 1);
    }

    /// It was refused or failed on demand.
    pub(super) fn fail(&mut self) {
        self.end(|counters| counters.failed += 1);
    }

    fn end(&mut self, count: impl FnOnce(&mut Counters)) {
        if !std::mem::replace(&mut self.over, true) {
            let counters = &mut self.control.lock().counters;
            counters.in_flight -= 1;
            count(counters);
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.end(|counters| counters.aborted += 1);
    }
}
