//! The one place that spawns, makes runtimes and hears signals.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// The signals that ask for the end. One listener hears them all: one made later would miss what
/// came in between.
#[derive(Debug)]
pub(crate) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// Runs something beside what is going on, on the same worker.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    // Whoever needs the end of it has its own way to hear; a panic ends the task alone.
    drop(tokio::spawn(future));
}

/// Runs something to its end, also where nobody waits for that any more.
pub(crate) fn detached<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(future)
}

/// Does what keeps a thread waiting, such as the disk, on a thread of its own.
pub(crate) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}

/// A runtime of one thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

// === impl EndSignals ===

impl EndSignals {
    /// Begins to listen, inside a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Resolves with the name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
