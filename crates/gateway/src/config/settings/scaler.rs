//! What an autoscaler is told, and how one is called.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use flow::ScaleGoal;

use super::EppTls;

/// What an autoscaler is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaler {
    /// The address on which KEDA connects; `None` if it does not.
    pub listen: Option<SocketAddr>,
    /// Whether callers speak TLS.
    pub tls: EppTls,
    /// The folder of the certificate; without one it is made at the start.
    pub cert_path: Option<PathBuf>,
    /// How long after the last request a model counts as active.
    pub quiet: Duration,
    /// The most streams at once.
    pub streams_max: usize,
    /// What the number of backends aims at.
    pub goal: ScaleGoal,
    /// The call when requests wait without a backend.
    pub wake: Option<Wake>,
}

/// The call when requests wait without a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Where it goes.
    pub url: String,
    /// When it is made again while requests still wait without a backend.
    pub again: Duration,
    /// How often it is tried.
    pub attempts: u32,
    /// How long one try may take.
    pub timeout: Duration,
}
