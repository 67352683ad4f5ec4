//! Why the runtime of batch work cannot start.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use store::StoreError;

#[cfg(feature = "pubsub")]
use super::google_credentials::CredentialsError;
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
    /// A shared server cannot be used with this configuration.
    Server { name: &'static str, source: StoreError },
    /// The root certificates for Redis cannot be read.
    RedisRoots(PemError),
    /// The address of Pub/Sub is no address for requests.
    #[cfg(feature = "pubsub")]
    PubSubAddress(BaseUrlError),
    /// There are no credentials for Pub/Sub.
    #[cfg(feature = "pubsub")]
    Credentials(CredentialsError),
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
            Self::Server { name, source } => write!(f, "{name}: {source}"),
            Self::RedisRoots(error) => write!(f, "dispatch.redis.ca_file: {error}"),
            #[cfg(feature = "pubsub")]
            Self::PubSubAddress(error) => write!(f, "Pub/Sub: {error}"),
            #[cfg(feature = "pubsub")]
            Self::Credentials(error) => write!(f, "Pub/Sub: {error}"),
            Self::OwnAddress(error) => error.fmt(f),
        }
    }
}

impl Error for DurableQueuesError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Dispatch(error) => Some(error),
            Self::Folder { source, .. } | Self::Server { source, .. } => Some(source),
            Self::RedisRoots(error) => error.source(),
            #[cfg(feature = "pubsub")]
            Self::PubSubAddress(error) => Some(error),
            #[cfg(feature = "pubsub")]
            Self::Credentials(error) => Some(error),
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
