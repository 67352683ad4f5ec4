//! Why an exchange with a backend gave no response.

use std::error::Error;
use std::io;

use flow::Span;

/// Why there is no response, or no more of it.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// No response began in time.
    TimedOut,
    /// The backend begins no response to any request, far beyond its usual time.
    Silent(Silence),
    /// The same for this request alone.
    Stuck(Silence),
    /// Another request found the backend silent, and the time of this one is over too.
    Withdrawn,
    /// The backend closed the connection, or broke a rule of HTTP.
    Protocol(&'static str),
    /// The head of the response cannot be parsed.
    Head(httparse::Error),
    /// The connection failed.
    Io(io::Error),
    /// An exchange over HTTP/2 failed.
    Http2(hyper::Error),
}

/// How long no response began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) span: Span,
    /// The longest time to a first byte before, and whether it is that of other backends.
    pub(crate) longest: Span,
    pub(crate) of_others: bool,
}

// === impl ExchangeError ===

impl ExchangeError {
    /// Whether the exchange broke, and did not just take too long.
    pub(crate) fn is_broken(&self) -> bool {
        !matches!(self, Self::TimedOut | Self::Silent(_) | Self::Stuck(_) | Self::Withdrawn)
    }
}

impl From<io::Error> for ExchangeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<hyper::Error> for ExchangeError {
    fn from(error: hyper::Error) -> Self {
        Self::Http2(error)
    }
}

impl Error for ExchangeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Head(error) => Some(error),
            Self::Io(error) => Some(error),
            Self::Http2(error) => Some(error),
            Self::TimedOut
            | Self::Silent(_)
            | Self::Stuck(_)
            | Self::Withdrawn
            | Self::Protocol(_) => None,
        }
    }
}

impl std::fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimedOut => f.write_str("it took too long"),
            Self::Silent(silence) | Self::Stuck(silence) => silence.fmt(f),
            Self::Withdrawn => f.write_str("another request found that it begins no response"),
            Self::Protocol(what) => f.write_str(what),
            Self::Head(error) => write!(f, "its head cannot be read: {error}"),
            Self::Io(error) => error.fmt(f),
            // The text of hyper's error does not include its cause.
            Self::Http2(error) => match error.source() {
                Some(source) => write!(f, "{error}: {source}"),
                None => error.fmt(f),
            },
        }
    }
}

// === impl Silence ===

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = if self.of_others { "time of other backends is" } else { "time before was" };
        let (span, longest) = (self.span.secs_f64(), self.longest.secs_f64());
        write!(f, "it began no response for {span:.1} s; the longest {whose} {longest:.1} s")
    }
}
