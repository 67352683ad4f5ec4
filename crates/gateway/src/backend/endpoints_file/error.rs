//! Errors of the endpoints file.

use std::{error, fmt, io};

use super::{BYTES_MAX, ENTRIES_MAX, PLACES_MAX};
use crate::backend::endpoint::EndpointError;
use crate::config::settings::BackendKind;

/// Why an endpoints file cannot be used.
#[derive(Debug)]
pub(crate) enum EndpointsFileError {
    Io(io::Error),
    /// It is a folder, a pipe or a device.
    NotRegular,
    TooLong,
    Json(serde_json::Error),
    Yaml(Box<serde_saphyr::Error>),
    /// It has this many endpoints.
    TooMany(usize),
    /// One of its endpoints is invalid.
    Endpoint {
        index: usize,
        /// The line where it begins.
        line: u64,
        problem: EndpointProblem,
    },
}

/// The error in an endpoint.
#[derive(Debug)]
pub(crate) enum EndpointProblem {
    Port(String),
    /// The address is no host.
    NoHost(String),
    Places(u64),
    Kind(String),
    Traits(flow::OutOfRange),
    Address(EndpointError),
    DuplicateName(String),
}

// === impl EndpointsFileError ===

impl EndpointsFileError {
    /// The error in one line. That of YAML shows the part of the file in further lines.
    pub(crate) fn first_line(&self) -> String {
        let text = self.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    }
}

impl fmt::Display for EndpointsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotRegular => f.write_str("is not a regular file"),
            Self::TooLong => write!(f, "is longer than {BYTES_MAX} bytes"),
            Self::Json(error) => error.fmt(f),
            Self::Yaml(error) => error.fmt(f),
            Self::TooMany(count) => {
                write!(f, "{count} endpoints, at most {ENTRIES_MAX} are allowed")
            }
            Self::Endpoint { index, line, problem } => {
                write!(f, "line {line}: endpoints[{index}]: {problem}")
            }
        }
    }
}

impl error::Error for EndpointsFileError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Json(error) => Some(error),
            Self::Yaml(error) => Some(error),
            Self::Endpoint { problem: EndpointProblem::Traits(error), .. } => Some(error),
            Self::Endpoint { problem: EndpointProblem::Address(error), .. } => Some(error),
            Self::NotRegular | Self::TooLong | Self::TooMany(_) | Self::Endpoint { .. } => None,
        }
    }
}

// === impl EndpointProblem ===

impl fmt::Display for EndpointProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(text) => write!(f, "port {text:?} is not a number from 1 to 65535"),
            Self::NoHost(address) => write!(
                f,
                "address {address:?} is no host name and no IP address: write it without scheme, \
                 user, port, path and query"
            ),
            Self::Places(places) => {
                write!(f, "places is {places}: 1 to {PLACES_MAX} are allowed")
            }
            Self::Kind(name) => {
                write!(f, "kind {name:?} is unknown; write {}", BackendKind::known())
            }
            Self::Traits(error) => error.fmt(f),
            Self::Address(error) => error.fmt(f),
            Self::DuplicateName(name) => write!(f, "the name {name:?} occurs twice"),
        }
    }
}
