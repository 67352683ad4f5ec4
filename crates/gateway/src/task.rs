//! Tasks, runtimes and signals. All tasks and blocking work of the gateway are spawned here.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// The signals that end the process. One listener receives them all: one that is made later would
/// miss a signal in between.
#[derive(Debug)]
pub(crate) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// Spawns a task on the runtime of this thread.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    // A panic ends the task alone.
    drop(tokio::spawn(future));
}

/// Spawns a task that runs to its end, even if the caller stops waiting for it.
pub(crate) fn detached<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(future)
}

/// Runs blocking work, such as disk access, on a thread of its own.
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
    /// Starts to listen, inside a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Resolves with the name of the next signal.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
