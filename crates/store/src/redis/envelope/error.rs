//! Why a message cannot be decoded.

use std::fmt;

/// Why a message cannot be decoded.
#[derive(Debug)]
pub(in crate::redis) enum EnvelopeError {
    NotUtf8,
    Json(serde_json::Error),
    NoKind,
    UnknownKind(String),
    NoData,
    /// A field has the wrong type.
    Field(&'static str, serde_json::Error),
    NoId,
}

// === impl EnvelopeError ===

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("it is not UTF-8"),
            Self::Json(error) => error.fmt(f),
            Self::NoKind => f.write_str(
                "it has no request_kind: wrap it as {\"request_kind\": \"plain\", \
                 \"data\": {\"id\": …, \"deadline\": …, \"payload\": …}}",
            ),
            Self::UnknownKind(kind) => write!(f, "its request_kind {kind:?} is not known"),
            Self::NoData => f.write_str("it has no data"),
            Self::Field(name, error) => write!(f, "its {name}: {error}"),
            Self::NoId => f.write_str("it has no id"),
        }
    }
}

impl std::error::Error for EnvelopeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) | Self::Field(_, error) => Some(error),
            _ => None,
        }
    }
}
