//! The HTTP door: listeners, workers, and how it all begins and ends.
//!
//! Each worker is one thread with a runtime, a listener and a pool of its own; the kernel spreads
//! connections over them. One more thread keeps the time of the core, watches the backends and
//! waits for new configuration.

mod connection;
mod inbound;
mod journey;
mod listing;
mod outbound;
mod route;
mod seldom;
mod status;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::backend::Own;
use crate::config::{self, ConfigError, Settled, Source};
use crate::gate::Gate;
use crate::observe;
use crate::reply::{Refused, error};
use crate::task;

/// A running gateway. Dropping it does not end it; [`Gateway::shut_down`] does.
#[derive(Debug)]
pub struct Gateway {
    gate: Arc<Gate>,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

/// Why a gateway did not start.
#[derive(Debug)]
pub enum StartError {
    /// Its configuration cannot be used.
    Config(ConfigError),
    /// A listener could not be opened.
    Listen(SocketAddr, io::Error),
    /// The system refused something else.
    System(io::Error),
}

// === impl Gateway ===

impl Gateway {
    /// Starts what the source describes. It serves when this returns.
    pub fn start(source: Source) -> Result<Self, StartError> {
        let settled = config::load(&source)?;
        Self::start_with(settled, Some(source))
    }

    /// Starts with a configuration at hand, which is reloaded from its source if it has one.
    pub fn start_with(settled: Settled, source: Option<Source>) -> Result<Self, StartError> {
        raise_file_limit();
        observe::log::init(&settled.log);
        for notice in &settled.notices {
            tracing::warn!("{notice}");
        }
        let workers = settled.server.workers.unwrap_or_else(cores);
        let listeners = worker::listen(settled.server.listen, workers)?;
        let address = worker::address(&listeners)?;
        let admin = settled.admin.listen.map(|address| worker::listen(address, 1)).transpose()?;
        let admin_address = admin.as_deref().map(worker::address).transpose()?;
        let gate = Gate::new(settled);
        let mut threads = vec![spawn("tidegate-watch", {
            let gate = Arc::clone(&gate);
            let addresses = [Some(address), admin_address].into_iter().flatten().collect();
            let own = Own { addresses, instance: gate.standing().instance.into() };
            move || watch_over(gate, source, own)
        })?];
        for listener in listeners {
            let visible = admin.is_none();
            threads.push(worker::start(Arc::clone(&gate), listener, worker::Doors::api(visible))?);
        }
        for listener in admin.into_iter().flatten() {
            threads.push(worker::start(Arc::clone(&gate), listener, worker::Doors::admin())?);
        }
        Ok(Self { gate, address, admin_address, threads })
    }

    /// Where clients come in.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the visibility routes are, if elsewhere.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Begins the end: whoever waits is told, nobody new is taken, streams may finish within the
    /// grace period.
    pub fn shut_down(&self) {
        self.gate.close();
    }

    /// Waits until everything has ended.
    pub fn join(self) {
        for thread in self.threads {
            // A thread that panicked has said so; the others are waited for all the same.
            let _ = thread.join();
        }
        self.gate.observer.flush();
    }

    /// Waits for SIGTERM or SIGINT, then ends in order; a second one ends it at once.
    pub fn run_until_signal(self) -> io::Result<()> {
        let runtime = task::runtime()?;
        let mut signals = runtime.block_on(async { task::EndSignals::listen() })?;
        let name = runtime.block_on(signals.next());
        tracing::info!(signal = name, "shutting down; once more to cut streams off");
        self.shut_down();
        runtime.block_on(async {
            tokio::select! {
                _ = signals.next() => self.gate.cut_off(),
                _ = self.gate.ended() => {}
            }
        });
        self.join();
        Ok(())
    }
}

/// What is done besides serving, until the gateway ends.
fn watch_over(gate: Arc<Gate>, source: Option<Source>, own: Own) {
    let runtime = match task::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "the watch did not start"),
    };
    runtime.block_on(async {
        let keeper = Arc::clone(&gate.keeper);
        task::spawn(async move { keeper.keep_time().await });
        task::spawn(Arc::clone(&gate.fleet).watch(own));
        task::spawn(Arc::clone(&gate).learn_names());
        if let Some(source) = source {
            task::spawn(Arc::clone(&gate).reload(source));
        }
        let left = gate.ended().await;
        if left > 0 {
            tracing::warn!(connections = left, "cut off at the end of the grace period");
        }
    });
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    Ok(std::thread::Builder::new().name(name.into()).spawn(work)?)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Every client is an open file, and the usual limit is a thousand.
fn raise_file_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// A refusal as bytes, for a connection that has no request to answer.
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

// === impl StartError ===

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::Listen(address, error) => {
                let hint = match error.kind() {
                    io::ErrorKind::AddrNotAvailable => {
                        "this machine does not have that address; choose one of its own with \
                         --listen, or 0.0.0.0 for all of them"
                    }
                    io::ErrorKind::PermissionDenied => {
                        "ports below 1024 need a privilege; choose a higher one with --listen"
                    }
                    _ => "is another server there? Choose another address with --listen",
                };
                write!(f, "cannot listen on {address}: {error}; {hint}")
            }
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StartError {}
