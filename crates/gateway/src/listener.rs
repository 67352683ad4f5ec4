//! The one accept loop: a thread that takes connections from a listener and serves each in a task.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::lifecycle::{StartError, spawn};
use crate::state::State;
use crate::task;

/// The pause after an error, usually that the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often a lasting error is logged.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Starts a thread that serves connections until the process has ended. `start` runs inside the
/// thread's runtime and returns the function that serves one connection to its end.
pub(crate) fn start<S, F>(
    name: &str,
    state: Arc<State>,
    listener: TcpListener,
    start: impl FnOnce() -> S + Send + 'static,
) -> Result<JoinHandle<()>, StartError>
where
    S: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = task::runtime()?;
    spawn(name, move || {
        runtime.block_on(async {
            tokio::select! {
                () = accept(listener, start()) => {}
                _ = state.ended() => {}
            }
        });
    })
}

async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "a listener could not be registered"),
    };
    let mut told: Option<Instant> = None;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                task::spawn(serve(stream));
                // A connection too many is closed in its task. If a whole crowd were accepted
                // first, it would take the files of the pages and of the backends.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                    tracing::warn!(%error, "connections are not accepted");
                    told = Some(Instant::now());
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
