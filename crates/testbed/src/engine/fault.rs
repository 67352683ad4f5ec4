//! Faults on demand: everything that a model server can do wrong, by name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Something that goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server is gone: all connections are reset and new ones refused for so long.
    Refuse(Duration),
    /// The request is taken and never answered.
    Hang,
    /// The connection is reset instead of an answer.
    Reset,
    /// The connection is reset after so many tokens.
    ResetAfter(u32),
    /// An error of this status, perhaps with the seconds to wait before coming back.
    Status(u16, Option<u32>),
    /// The answer begins so much later.
    Slow(Duration),
    /// The answer is not HTTP.
    Garbage,
    /// The answer is shorter than it says.
    BadLength,
    /// The answer goes on until the client leaves.
    NeverEnd,
}

/// An unknown fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault(String);

/// For how long a server is gone when nothing else is said.
const REFUSE: Duration = Duration::from_secs(1);

// === impl Fault ===

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let unknown = || UnknownFault(text.chars().take(40).collect());
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (text.trim(), None),
        };
        let number = value.map(str::parse::<u32>).transpose().map_err(|_| unknown())?;
        match (name, number) {
            ("refuse", None) => Ok(Self::Refuse(REFUSE)),
            ("refuse", Some(seconds)) => Ok(Self::Refuse(Duration::from_secs(seconds.into()))),
            ("hang", None) => Ok(Self::Hang),
            ("reset", None) => Ok(Self::Reset),
            ("reset-after", Some(tokens)) => Ok(Self::ResetAfter(tokens)),
            ("slow", Some(millis)) => Ok(Self::Slow(Duration::from_millis(millis.into()))),
            ("garbage", None) => Ok(Self::Garbage),
            ("bad-length", None) => Ok(Self::BadLength),
            ("never-end", None) => Ok(Self::NeverEnd),
            // As llm-d-inference-sim calls them.
            ("rate_limit", None) => Ok(Self::Status(429, None)),
            ("server_error", None) => Ok(Self::Status(503, None)),
            ("invalid_api_key", None) => Ok(Self::Status(401, None)),
            ("invalid_request" | "context_length", None) => Ok(Self::Status(400, None)),
            ("model_not_found", None) => Ok(Self::Status(404, None)),
            (status, retry_after) => match status.parse() {
                Ok(status @ 400..=599) => Ok(Self::Status(status, retry_after)),
                _ => Err(unknown()),
            },
        }
    }
}

// === impl UnknownFault ===

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = "refuse[=SECONDS], hang, reset, reset-after=TOKENS, STATUS[=RETRY_AFTER], \
                     slow=MS, garbage, bad-length, never-end";
        write!(f, "no fault is called {:?}: there are {known}", self.0)
    }
}

impl std::error::Error for UnknownFault {}
