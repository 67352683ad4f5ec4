//! The HTTP door: it proxies requests, and serves the Batch API, model lists and status pages.
//!
//! Each worker is one thread with its own runtime, listener and connection pool; the kernel spreads
//! connections over them. One more thread keeps the time of the core, watches the backends and
//! reloads the configuration.

mod batch_routes;
mod connection;
mod dispatch_pages;
mod file_download;
mod lazy_waker;
mod local_api;
mod models;
mod queue_status;
mod request_body;
mod response_writer;
mod route;
mod worker;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::config::{Config, Source};
use crate::durable_queues::{self, DurableQueues};
use crate::lifecycle::{self, Running, StartError};
use crate::reply::{Refused, error};
use crate::state::State;

/// A running gateway. Dropping it does not end it; [`Gateway::shut_down`] does.
#[derive(Debug)]
pub struct Gateway {
    running: Running,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
}

// === impl Gateway ===

impl Gateway {
    /// Starts with the configuration of the source. It serves when this returns.
    pub fn start(source: Source) -> Result<Self, StartError> {
        let config = lifecycle::load(&source)?;
        Self::start_with(config, Some(source))
    }

    /// Starts with a configuration at hand, which is reloaded from its source if it has one.
    pub fn start_with(config: Config, source: Option<Source>) -> Result<Self, StartError> {
        lifecycle::prepare(&config);
        let workers = config.server.workers.unwrap_or_else(lifecycle::cores);
        let listeners = lifecycle::listen((config.server.listen, "--listen"), workers)?;
        let address = lifecycle::address(&listeners)?;
        let admin =
            config.admin.listen.map(|at| lifecycle::listen((at, "admin.listen"), 1)).transpose()?;
        let admin_address = admin.as_deref().map(lifecycle::address).transpose()?;
        let addresses = [Some(address), admin_address].into_iter().flatten().collect();
        let mut running = Running::begin(config, source, addresses)?;
        let durable_queues = match durable_queues::open(&running.state, Some(address)) {
            Ok(Some((durable_queues, thread))) => {
                running.add(thread);
                Some(durable_queues)
            }
            Ok(None) => None,
            Err(error) => return Err(running.give_up(error)),
        };
        let doors = worker::Doors::api(admin.is_none());
        for listener in listeners {
            running.add(worker::start(&running.state, listener, (doors, durable_queues.clone()))?);
        }
        for listener in admin.into_iter().flatten() {
            let doors = worker::Doors::admin();
            running.add(worker::start(&running.state, listener, (doors, durable_queues.clone()))?);
        }
        Ok(Self { running, address, admin_address })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the status pages, if it is another one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The folder of the Batch API, if there is one.
    pub fn batch_folder(&self) -> Option<PathBuf> {
        self.running.state.config.load().batch.folder.clone()
    }

    /// Begins the shutdown: waiting requests are refused, new connections are not accepted, streams
    /// may finish within the grace period.
    pub fn shut_down(&self) {
        self.running.state.close();
    }

    /// Waits until everything has ended.
    pub fn join(self) {
        self.running.join();
    }

    /// Waits for SIGTERM or SIGINT, then ends in order; a second one ends it at once.
    pub fn run_until_signal(self) -> std::io::Result<()> {
        self.running.run_until_signal(Duration::ZERO)
    }
}

/// Serves the status pages alone.
pub(crate) fn visibility(
    state: &Arc<State>,
    listener: TcpListener,
) -> Result<JoinHandle<()>, StartError> {
    worker::start(state, listener, (worker::Doors::admin(), None))
}

/// Serves the Batch API and the status pages of a dispatcher, which proxies nothing.
pub(crate) fn pages(
    state: &Arc<State>,
    listener: TcpListener,
    durable_queues: &Arc<DurableQueues>,
) -> Result<JoinHandle<()>, StartError> {
    worker::start(state, listener, (worker::Doors::batch(), Some(Arc::clone(durable_queues))))
}

/// A refusal as bytes, for a connection without a request.
fn raw(refused: &Refused) -> Vec<u8> {
    let (parts, _) = error::response(refused).into_parts();
    let body = error::body(refused);
    let mut bytes = format!("HTTP/1.1 {}\r\n", parts.status).into_bytes();
    for (name, value) in &parts.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend(&body);
    bytes
}
