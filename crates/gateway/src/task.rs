//! The one place that spawns, makes runtimes and hears signals.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Runs something beside what is going on, on the same worker.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    // Whoever needs the end of it has its own way to hear; a panic ends the task alone.
    drop(tokio::spawn(future));
}

/// A runtime of one thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Resolves with the name of the signal that asks for the end.
pub(crate) async fn end_signal() -> io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
