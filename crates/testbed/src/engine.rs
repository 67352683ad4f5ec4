//! A stand-in model server: the simulated engine behind the APIs of real ones, in real time.
//!
//! It batches, queues, runs out of memory and preempts as `sim::engine` does. It offers OpenAI's
//! and Ollama's APIs and metrics by vLLM's names, and produces the faults that a test asks for.
//! Each engine has its own thread, so that it can run beside a gateway in one process.

mod api;
mod api_request;
mod body;
mod connection;
mod control;
mod fault;
mod generated_text;
mod handler;
mod listener;
mod machine;
mod settings;
mod status_pages;
mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use gateway::StartError;
use tokio::runtime;
use tokio::sync::oneshot;

pub use control::{Control, Counters, digest};
pub use fault::{Fault, UnknownFault};
pub use settings::{Pace, Settings, Text, TokenPace};

use handler::Server;
use machine::Machine;

/// A stand-in model server.
#[derive(Clone, Copy, Debug)]
pub struct Engine;

/// An engine that runs; dropped, it stops.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    control: Control,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

// === impl Engine ===

impl Engine {
    /// Starts an engine; it listens when this returns.
    pub fn start(settings: Settings) -> io::Result<Running> {
        let rules = settings.rules()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let within = runtime.enter();
        let listener =
            listener::bind(settings.listen).and_then(listener::listen).map_err(|error| {
                io::Error::new(error.kind(), StartError::Listen(settings.listen, "--listen", error))
            })?;
        let machine = Arc::new(Machine::new(rules));
        drop(within);
        let address = listener.local_addr()?;
        let control = Control::new(&settings, machine.clone());
        let server = Arc::new(Server::new(settings, control.clone()));
        let (stop, stopped) = oneshot::channel();
        let life = async move {
            tokio::select! {
                served = listener::serve(server, listener) => served,
                () = machine.drive() => Ok(()),
                _ = stopped => Ok(()),
            }
        };
        let name = format!("engine-{}", address.port());
        let thread = thread::Builder::new().name(name).spawn(move || runtime.block_on(life))?;
        Ok(Running { address, control, stop: Some(stop), thread: Some(thread) })
    }
}

// === impl Running ===

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The handle on it.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Ends it at once, as if it had been killed: all connections are closed.
    pub fn stop(mut self) -> io::Result<()> {
        self.stop = None;
        self.wait()
    }

    /// Waits until it ends, which only happens when it can listen no more.
    pub fn wait(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the engine's thread panicked")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop = None;
        // A drop cannot report how the engine ended.
        let _ = self.join();
    }
}
