//! Why a backend is down, as operators read it.

/// Reasons that have advice of their own.
pub(crate) const OWN_GATEWAY: &str = "it is this gateway itself";
pub(crate) const NO_ADDRESS: &str = "its name has no address (DNS)";

/// Why a backend is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend) enum DownReason {
    Starting,
    Refused,
    Unhealthy(String),
    NoResponse,
    NoAddress,
    OwnGateway,
}

// === impl DownReason ===

impl std::fmt::Display for DownReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Refused => f.write_str("connection refused"),
            Self::Unhealthy(said) => f.write_str(said),
            Self::NoResponse => f.write_str("health checks get no response"),
            Self::NoAddress => f.write_str(NO_ADDRESS),
            Self::OwnGateway => f.write_str(OWN_GATEWAY),
        }
    }
}
