//! The dispatcher as a process of its own: it serves nothing but its pages and the Batch API, and
//! sends to a gateway elsewhere.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::config::settled::dispatch::Queue;
use crate::config::{self, Settled, Source};
use crate::depot;
use crate::running::{self, Running, StartError};
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
        let mut settled = config::load(&source)?;
        // There is nothing to relay to: model servers are the gateway's affair.
        settled.fleet.backends.clear();
        settled.fleet.endpoints_file = None;
        settled.fleet.discover = false;
        Self::start_with(settled)
    }

    fn start_with(settled: Settled) -> Result<Self, StartError> {
        running::prepare(&settled);
        let listeners = running::listen((settled.dispatch.listen, "--listen"), 1)?;
        let address = running::address(&listeners)?;
        let queues = settled.dispatch.queues.clone();
        let mut running = Running::begin(settled, None, vec![address])?;
        let what = "there is nothing to dispatch: give --redis URL, or a folder in [batch]";
        let nothing = || StartError::Unfit(what.into());
        let opened = depot::open(&running.gate, None).and_then(|depot| depot.ok_or_else(nothing));
        let (depot, thread) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(running.give_up(error)),
        };
        running.add(thread);
        for listener in listeners {
            running.add(serve::pages(&running.gate, listener, &depot)?);
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
