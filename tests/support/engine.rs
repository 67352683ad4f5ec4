//! The stand-in engine as a process.

use std::net::SocketAddr;

use serde_json::Value;

use super::call::Call;
use super::http_request::HttpRequest;
use super::process::Process;

/// A running `tidegate engine`.
#[derive(Debug)]
pub(crate) struct Engine {
    process: Process,
}

// === impl Engine ===

impl Engine {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", arguments)
    }

    /// Starts an engine at a given address.
    pub(crate) fn start_at(address: &str, arguments: &[&str]) -> Self {
        let listen = ["engine", "--listen", address];
        let arguments: Vec<&str> = listen.iter().chain(arguments).copied().collect();
        Self { process: Process::start(&arguments) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// Its counters.
    pub(crate) fn control(&self) -> Value {
        Call::open(self.address(), &HttpRequest::get("/control").bytes()).finish().json()
    }
}
