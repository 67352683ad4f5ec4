//! Why the runtime of batch work cannot start.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use store::StoreError;

use crate::dispatch::DispatchError;
use crate::gates::GateError;
use crate::tls::PemError;
use crate::upstream::client::BaseUrlError;

/// See the module's description.
#[derive(Debug)]
pub(crate) enum DurableQueuesError {
    /// A dispatcher or a gate cannot start.
    Dispatch(DispatchError),
    /// The folder of the Batch API cannot be opened.
    Folder { path: PathBuf, source: StoreError },
    /// Redis cannot be used with this configuration.
    Redis(StoreError),
    /// The root certificates for Redis cannot be read.
    RedisRoots(PemError),
    /// The address of this process's own listener is no address for requests.
    OwnAddress(BaseUrlError),
}

// === impl DurableQueuesError ===

impl fmt::Display for DurableQueuesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dispatch(error) => error.fmt(f),
            Self::Folder { path, source } => {
                write!(f, "the folder of the Batch API, {}: {source}", path.display())
            }
            Self::Redis(error) => write!(f, "Redis: {error}"),
            Self::RedisRoots(error) => write!(f, "dispatch.redis.ca_file: {error}"),
            Self::OwnAddress(error) => error.fmt(f),
        }
    }
}

impl Error for DurableQueuesError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Dispatch(error) => Some(error),
            Self::Folder { source, .. } | Self::Redis(source) => Some(source),
            Self::RedisRoots(error) => error.source(),
            Self::OwnAddress(error) => Some(error),
        }
    }
}

impl From<DispatchError> for DurableQueuesError {
    fn from(error: DispatchError) -> Self {
        Self::Dispatch(error)
    }
}

impl From<GateError> for DurableQueuesError {
    fn from(error: GateError) -> Self {
        Self::Dispatch(error.into())
    }
}
