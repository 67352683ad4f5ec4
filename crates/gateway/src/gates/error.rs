//! Why a gate cannot be opened, and why it cannot be read.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use flow::OutOfRange;
use http::StatusCode;
use http::uri::InvalidUri;

use crate::upstream::ConnectError;
use crate::upstream::client::{BaseUrlError, ClientError};

/// A gate that cannot be used.
#[derive(Debug)]
pub(crate) enum GateError {
    /// The settings of a gate cannot work.
    Setup { gate: String, source: SetupError },
    /// A queue names a gate that does not exist.
    Unknown { gate: String, known: Vec<String> },
}

/// Why the settings of a gate cannot work.
#[derive(Debug)]
pub(crate) enum SetupError {
    /// The address of a server.
    Address(BaseUrlError),
    /// The address of a page.
    PageUrl { url: String, source: InvalidUri },
    /// The address of a Redis server, without its text: it may contain a password.
    RedisAddress(&'static str),
    /// A gate of the kind `gateway` in a process without backends.
    NoGateway,
    /// A free share outside 0 to 1.
    FreeShare(f64),
    /// A capacity that is not a positive number.
    BadCapacity(f64),
    /// No capacity, and a source that does not know it.
    NoCapacity,
    /// A capacity per server, and a source that does not count servers.
    NoServerCount,
    /// A capacity that the gateway knows only in requests.
    CapacityInRequests,
    /// Readings that expire before the next one.
    Interval,
    /// A number that the core does not accept.
    OutOfRange(OutOfRange),
}

/// Why a reading failed.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The server was not reached, or the connection broke.
    Call(ClientError),
    /// The request could not be built.
    Request(http::Error),
    /// The server refused the request.
    Refused { status: StatusCode, text: String },
    /// There was no response in time.
    Timeout(Duration),
    /// A value that is infinite or not a number.
    NotFinite { what: String, value: f64 },
    /// A text that is not a number.
    NotANumber(String),
    /// A metrics page without the metric.
    NoMetric(String),
    /// A metrics page without the number of ready servers.
    NoReadyMetric(Vec<String>),
    /// No source for the number of ready servers.
    NoReadyCount,
    /// No source for the capacity.
    NoCapacity,
    /// The last sample is this old, in seconds.
    Stale { sample: String, age: f64 },
    /// Prometheus did not give a usable result.
    Prometheus(PrometheusError),
    /// Redis did not give a usable reply.
    Redis(RedisError),
}

/// Why a result of Prometheus is not usable.
#[derive(Debug)]
pub(crate) enum PrometheusError {
    Json(serde_json::Error),
    Refused(String),
    /// Another type of result than the query has.
    ResultType,
    /// None of these metrics has a sample.
    NoSample(Vec<String>),
    /// An expression of the operator that gives a range, a text or nothing.
    Range,
    Text,
    Empty,
}

/// Why a reply of Redis is not usable.
#[derive(Debug)]
pub(crate) enum RedisError {
    Connect {
        address: String,
        source: ConnectError,
    },
    Broken(io::Error),
    Closed,
    Refused(String),
    Missing(String),
    NotANumber {
        key: String,
        text: String,
    },
    TooLong(usize),
    /// The beginning of a reply that is not in the protocol of Redis.
    Protocol(String),
}

// === impl GateError ===

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup { gate, source } => write!(f, "gate {gate:?}: {source}"),
            Self::Unknown { gate, known } => {
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                write!(f, "there is no gate {gate:?}; there are: {known}")
            }
        }
    }
}

impl Error for GateError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Setup { source, .. } => Some(source),
            Self::Unknown { .. } => None,
        }
    }
}

// === impl SetupError ===

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::PageUrl { url, source } => {
                write!(f, "{url:?} is not the address of a page: {source}")
            }
            Self::RedisAddress(why) => write!(f, "the URL of Redis is wrong: {why}"),
            Self::NoGateway => {
                f.write_str("there is no gateway in this process: read its metrics instead")
            }
            Self::FreeShare(free) => {
                write!(f, "the free share is {free}, it must be from 0 to 1")
            }
            Self::BadCapacity(capacity) => {
                write!(f, "the capacity is {capacity}, it must be more than 0")
            }
            Self::NoCapacity => f.write_str("this kind does not know the capacity: set it"),
            Self::NoServerCount => f.write_str(
                "this kind does not know how many servers are ready: set the whole capacity",
            ),
            Self::CapacityInRequests => f.write_str(
                "the gateway knows its capacity in requests: set the capacity in the unit",
            ),
            Self::Interval => f.write_str("a reading must stay valid until the next one"),
            Self::OutOfRange(error) => error.fmt(f),
        }
    }
}

impl Error for SetupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Address(error) => Some(error),
            Self::PageUrl { source, .. } => Some(source),
            Self::OutOfRange(error) => Some(error),
            _ => None,
        }
    }
}

impl From<OutOfRange> for SetupError {
    fn from(error: OutOfRange) -> Self {
        Self::OutOfRange(error)
    }
}

// === impl ReadError ===

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Request(error) => write!(f, "the request cannot be built: {error}"),
            Self::Refused { status, text } => write!(f, "it answered {status}: {text}"),
            Self::Timeout(limit) => write!(f, "no response within {:.1} s", limit.as_secs_f64()),
            Self::NotFinite { what, value } => write!(f, "{what} is {value}"),
            Self::NotANumber(text) => write!(f, "{text:?} is not a number"),
            Self::NoMetric(metric) => write!(f, "the page has no line {metric}"),
            Self::NoReadyMetric(names) => {
                let names = names.join(", ");
                write!(f, "the page does not say how many servers are ready ({names})")
            }
            Self::NoReadyCount => f.write_str("the number of ready servers is unknown"),
            Self::NoCapacity => f.write_str("the capacity of the system is unknown"),
            Self::Stale { sample, age } => {
                write!(f, "the last sample of {sample} is {age:.1} s old")
            }
            Self::Prometheus(error) => error.fmt(f),
            Self::Redis(error) => error.fmt(f),
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Call(error) => Some(error),
            Self::Request(error) => Some(error),
            Self::Prometheus(error) => Some(error),
            Self::Redis(error) => Some(error),
            _ => None,
        }
    }
}

impl From<PrometheusError> for ReadError {
    fn from(error: PrometheusError) -> Self {
        Self::Prometheus(error)
    }
}

impl From<RedisError> for ReadError {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

// === impl PrometheusError ===

impl fmt::Display for PrometheusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the response is not from Prometheus: {error}"),
            Self::Refused(why) => write!(f, "Prometheus refused: {why}"),
            Self::ResultType => f.write_str("Prometheus gave an unexpected type of result"),
            Self::NoSample(series) => write!(f, "no sample of any of {}", series.join(", ")),
            Self::Range => f.write_str("the expression gives a range, not a moment"),
            Self::Text => f.write_str("the expression gives a text, not a number"),
            Self::Empty => f.write_str("the expression gives no sample"),
        }
    }
}

impl Error for PrometheusError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            _ => None,
        }
    }
}

// === impl RedisError ===

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { address, source } => write!(f, "cannot connect to {address}: {source}"),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
            Self::Closed => f.write_str("the connection was closed"),
            Self::Refused(why) => write!(f, "Redis refused: {why}"),
            Self::Missing(key) => write!(f, "the key {key:?} does not exist"),
            Self::NotANumber { key, text } => write!(f, "{key:?} holds {text:?}, not a number"),
            Self::TooLong(length) => write!(f, "it holds {length} bytes, which is no number"),
            Self::Protocol(start) => write!(f, "the reply is not from Redis: {start:?}"),
        }
    }
}

impl Error for RedisError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Connect { source, .. } => Some(source),
            Self::Broken(source) => Some(source),
            _ => None,
        }
    }
}
