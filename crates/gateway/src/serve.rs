//! The HTTP server: it proxies requests, and serves the Batch API, model lists and status pages.
//!
//! Each worker is one thread with its own runtime, listener and connection pool; the kernel spreads
//! connections over them. One more thread keeps the time of the core, watches the backends and
//! reloads the configuration.

mod batch_routes;
mod client_stream;
mod connection;
mod dashboard;
mod dispatch_pages;
mod drain_route;
mod file_download;
mod foreign_sites;
mod head_check;
mod host_names;
mod lazy_waker;
mod local_api;
mod models;
mod queue_status;
mod quiet_waker;
mod request_body;
mod response_writer;
mod route;
mod status_pages;
mod status_stream;
mod stream_executor;
mod unread_frames;
mod usage_page;
mod worker;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::admin_access;
use crate::config::{Config, Source};
use crate::durable_queues::{self, DurableQueues};
use crate::lifecycle::{self, Running, StartError};
use crate::reply::{Refused, error};
use crate::scaler;
use crate::state::State;
use crate::tls_listener::TlsListener;

/// A running gateway. Dropping it does not end it; [`Gateway::shut_down`] does.
#[derive(Debug)]
pub struct Gateway {
    running: Running,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    scaler_address: Option<SocketAddr>,
    /// Whether clients, and readers of the status pages, speak TLS.
    is_tls: (bool, bool),
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
        let tls = lifecycle::open_tls(config.server.tls.as_ref())?;
        let admin_tls = tls.clone().filter(|_| config.admin.tls);
        let is_tls = (tls.is_some(), admin_tls.is_some());
        let scaler = scaler::listen(&config.scaler)?;
        let mut running = Running::begin(config, source, (addresses, tls.clone()))?;
        let durable_queues =
            match durable_queues::open(&running.state, Some((address, tls.clone()))) {
                Ok(Some((durable_queues, thread))) => {
                    running.add(thread);
                    Some(durable_queues)
                }
                Ok(None) => None,
                Err(error) => return Err(running.give_up(error)),
            };
        if running.state.config.load().tenants.is_empty() {
            tracing::info!("there are no tenants: the priorities that clients state are trusted");
        }
        let doors = worker::Doors::api(admin.is_none());
        admin_access::announce(&running.state.config.load(), admin_address.unwrap_or(address));
        for listener in listeners {
            let (queues, tls) = (durable_queues.clone(), tls.clone());
            running.add(worker::start(&running.state, listener, (doors, queues, tls))?);
        }
        for listener in admin.into_iter().flatten() {
            let (doors, queues) = (worker::Doors::admin(), durable_queues.clone());
            running.add(worker::start(
                &running.state,
                listener,
                (doors, queues, admin_tls.clone()),
            )?);
        }
        let scaler_address = scaler.as_ref().map(scaler::ScalerListener::address);
        if let Some(scaler) = scaler {
            running.add(scaler.start(&running.state)?);
        }
        Ok(Self { running, address, admin_address, scaler_address, is_tls })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the status pages, if it is another one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The address for an autoscaler, if there is one.
    pub fn scaler_address(&self) -> Option<SocketAddr> {
        self.scaler_address
    }

    /// The scheme of URLs for clients.
    pub fn scheme(&self) -> &'static str {
        if self.is_tls.0 { "https" } else { "http" }
    }

    /// The scheme of the URLs of the status pages at their own address.
    pub fn admin_scheme(&self) -> &'static str {
        if self.is_tls.1 { "https" } else { "http" }
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
        self.running.run_until_signal(|_| Duration::ZERO)
    }
}

/// Serves the status pages alone.
pub(crate) fn visibility(
    state: &Arc<State>,
    listener: TcpListener,
) -> Result<JoinHandle<()>, StartError> {
    admin_access::announce(&state.config.load(), listener.local_addr()?);
    worker::start(state, listener, (worker::Doors::admin(), None, None))
}

/// Serves the Batch API and the status pages of a dispatcher, which proxies nothing.
pub(crate) fn pages(
    state: &Arc<State>,
    listener: TcpListener,
    durable_queues: &Arc<DurableQueues>,
    tls: Option<Arc<TlsListener>>,
) -> Result<JoinHandle<()>, StartError> {
    admin_access::announce(&state.config.load(), listener.local_addr()?);
    let queues = Some(Arc::clone(durable_queues));
    worker::start(state, listener, (worker::Doors::batch(), queues, tls))
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
