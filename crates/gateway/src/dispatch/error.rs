//! Why a dispatcher cannot start.

use std::error::Error;
use std::fmt;

use crate::gates::GateError;
use crate::upstream::client::BaseUrlError;

/// See the module's description.
#[derive(Debug)]
pub(crate) enum DispatchError {
    /// The dispatcher has no queue.
    NoQueue,
    /// A queue has no target.
    NoTarget { queue: String },
    /// The address of a queue's target is invalid.
    Target { queue: String, source: BaseUrlError },
    /// A gate cannot be opened, or does not exist.
    Gate(GateError),
}

// === impl DispatchError ===

impl fmt::Display for DispatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQueue => {
                f.write_str("there is no queue: name one in [[dispatch.queues]] or by --queue")
            }
            Self::NoTarget { queue } => {
                write!(
                    f,
                    "the queue {queue:?} has no target: set its `target`, or give --target URL"
                )
            }
            Self::Target { queue, source } => write!(f, "the target of queue {queue:?}: {source}"),
            Self::Gate(error) => error.fmt(f),
        }
    }
}

impl Error for DispatchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Target { source, .. } => Some(source),
            Self::Gate(error) => Some(error),
            Self::NoQueue | Self::NoTarget { .. } => None,
        }
    }
}

impl From<GateError> for DispatchError {
    fn from(error: GateError) -> Self {
        Self::Gate(error)
    }
}
