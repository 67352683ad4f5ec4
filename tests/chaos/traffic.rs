//! The traffic of a run: fresh requests, and the ledger of their outcomes.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ledger::{Entry, Ledger};
use crate::support::{HttpRequest, Random, chat};

/// Shared by all clients.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) address: SocketAddr,
    /// A key of each tenant.
    keys: Vec<String>,
    over: AtomicBool,
    begun: AtomicU64,
    entries: Mutex<Vec<Entry>>,
}

/// A request with its id.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    pub(super) id: String,
    pub(super) request: HttpRequest,
    pub(super) streamed: bool,
}

// === impl Traffic ===

impl Traffic {
    pub(super) fn new(address: SocketAddr, keys: Vec<String>) -> Self {
        let (over, begun) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { address, keys, over, begun, entries: Mutex::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lets each client end after its current request.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// A request of some tenant, in some band, of some length; sometimes without a right to it.
    pub(super) fn fresh(&self, random: &mut Random) -> Fresh {
        let id = format!("c{}", self.begun.fetch_add(1, Ordering::Relaxed));
        let streamed = random.below(2) == 0;
        let model = if random.below(40) == 0 { "unknown" } else { "m" };
        let mut request = chat(model).with("max_tokens", 1 + random.below(30));
        request = if streamed { request.streamed() } else { request };
        if random.below(10) == 0 {
            request = request.with("padding", "x".repeat(random.below(200_000) as usize));
        }
        let key = &self.keys[random.below(self.keys.len() as u64) as usize];
        request = match random.below(40) {
            0 => request,
            1 => request.key("tg-wrong"),
            _ => request.key(key),
        };
        let bands = ["critical", "high", "normal", "best-effort"];
        request = request.priority(bands[random.below(4) as usize]);
        request = request.header("x-request-id", &id);
        Fresh { id, request, streamed }
    }

    pub(super) fn record(&self, entry: Entry) {
        self.entries.lock().unwrap().push(entry);
    }

    /// All outcomes so far.
    pub(super) fn ledger(&self) -> Ledger {
        Ledger { entries: std::mem::take(&mut self.entries.lock().unwrap()) }
    }
}
