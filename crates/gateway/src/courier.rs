//! The dispatcher as a process of its own: it serves nothing but its pages and the Batch API, and
//! sends to a gateway elsewhere.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::config::resolved::dispatch::Queue;
use crate::config::{self, Resolved, Source};
use crate::depot;
use crate::lifecycle::{self, Running, StartError};
use crate::serve;

/// A running dispatcher. Dropping it does not end it; a signal does.
#[derive(Debug)]
pub struct Courier {
    running: Running,
    address: SocketAddr,
    queues: Vec<Queue>,
}

// === impl Courier ===

impl Courier {
    /// Starts what the source describes. It sends when this returns.
    pub fn start(source: Source) -> Result<Self, StartError> {
        let mut config = config::load(&source)?;
        // There is nothing to relay to: model servers are the gateway's affair.
        config.fleet.backends.clear();
        config.fleet.endpoints_file = None;
        config.fleet.discover = false;
        Self::start_with(config)
    }

    fn start_with(config: Resolved) -> Result<Self, StartError> {
        lifecycle::prepare(&config);
        let listeners = lifecycle::listen((config.dispatch.listen, "--listen"), 1)?;
        let address = lifecycle::address(&listeners)?;
        let queues = config.dispatch.queues.clone();
        let mut running = Running::begin(config, None, vec![address])?;
        let what = "there is nothing to dispatch: give --redis URL, or a folder in [batch]";
        let nothing = || StartError::Unfit(what.into());
        let opened = depot::open(&running.state, None).and_then(|depot| depot.ok_or_else(nothing));
        let (depot, thread) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(running.give_up(error)),
        };
        running.add(thread);
        for listener in listeners {
            running.add(serve::pages(&running.state, listener, &depot)?);
        }
        Ok(Self { running, address, queues })
    }

    /// Where its pages are.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it sends, and where.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Waits for SIGTERM or SIGINT, then hands back what is under way and ends.
    pub fn run_until_signal(self) -> io::Result<()> {
        self.running.run_until_signal(Duration::ZERO)
    }
}
