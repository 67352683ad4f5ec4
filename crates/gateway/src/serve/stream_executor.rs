//! Runs the streams of HTTP/2, each as a task that can be ended from outside.
//!
//! hyper does not look at a response body while its client leaves no window. So the error at the
//! end of such a body resets nothing. Here the task of the stream ends instead, and h2 then sends
//! RST_STREAM, also without a window.

use std::sync::Arc;

use hyper::rt::Executor;
use tokio::sync::Notify;

use crate::task;

tokio::task_local! {
    static THIS_STREAM: StreamReset;
}

/// The executor of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor;

/// Resets one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamReset(Arc<Notify>);

// === impl StreamExecutor ===

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let reset = StreamReset::default();
        let end = reset.clone();
        task::spawn(THIS_STREAM.scope(reset, async move {
            tokio::select! {
                biased;
                () = stream => {}
                () = end.0.notified() => {}
            }
        }));
    }
}

// === impl StreamReset ===

impl StreamReset {
    /// The stream whose task runs now, if it is one of HTTP/2.
    pub(super) fn of_this_task() -> Option<Self> {
        THIS_STREAM.try_with(Self::clone).ok()
    }

    pub(super) fn send(&self) {
        self.0.notify_one();
    }
}
