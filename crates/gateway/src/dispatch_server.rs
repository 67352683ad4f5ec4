//! The dispatcher as a separate process: it serves its status pages and the Batch API, and sends to
//! a gateway elsewhere.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::config::settings::dispatch::Queue;
use crate::config::{Config, Source};
use crate::durable_queues;
use crate::lifecycle::{self, Running, StartError};
use crate::serve;

/// A running dispatcher. A signal ends it; dropping it does not.
#[derive(Debug)]
pub struct DispatchServer {
    running: Running,
    address: SocketAddr,
    queues: Vec<Queue>,
    is_tls: bool,
}

// === impl DispatchServer ===

impl DispatchServer {
    /// Starts a dispatcher. It is sending when this returns.
    pub fn start(source: Source) -> Result<Self, StartError> {
        let mut config = lifecycle::load(&source)?;
        // A dispatcher has no backends of its own.
        config.fleet.backends.clear();
        config.fleet.endpoints_file = None;
        config.fleet.kubernetes = None;
        config.fleet.discover = false;
        Self::start_with(config)
    }

    fn start_with(config: Config) -> Result<Self, StartError> {
        lifecycle::prepare(&config);
        let listeners = lifecycle::listen((config.dispatch.listen, "--listen"), 1)?;
        let address = lifecycle::address(&listeners)?;
        let queues = config.dispatch.queues.clone();
        let tls = lifecycle::open_tls(config.server.tls.as_ref())?;
        let is_tls = tls.is_some();
        let mut running = Running::begin(config, None, (vec![address], tls.clone()))?;
        let opened = durable_queues::open(&running.state, None)
            .and_then(|durable_queues| durable_queues.ok_or(StartError::NothingToDispatch));
        let (durable_queues, thread) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(running.give_up(error)),
        };
        running.add(thread);
        for listener in listeners {
            running.add(serve::pages(&running.state, listener, &durable_queues, tls.clone())?);
        }
        Ok(Self { running, address, queues, is_tls })
    }

    /// The address of its status pages.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The scheme of the URLs of its pages.
    pub fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Its queues, with their targets.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Waits for SIGTERM or SIGINT, then releases all claims and ends.
    pub fn run_until_signal(self) -> io::Result<()> {
        self.running.run_until_signal(|_| Duration::ZERO)
    }
}
