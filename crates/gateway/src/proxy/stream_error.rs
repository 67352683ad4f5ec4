//! The error at the end of a stream that breaks off.
//!
//! A stream has its status 200 already, so an error can only be a part of it: an event with
//! OpenAI's error, as vLLM sends it, or a line with Ollama's. It is added between two events or
//! lines alone. Anywhere else a client would read it as a part of the text before it.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use super::token_counter::StreamFormat;
use crate::reply::{ErrorFormat, Fault, Refused, error};

/// Where the client of a stream stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamEnd {
    format: StreamFormat,
    /// The form of an error in an event.
    errors: ErrorFormat,
    /// Whether the last byte ended an event or a line.
    between: bool,
}

// === impl StreamEnd ===

impl StreamEnd {
    /// At the beginning of a response with these headers. Nothing can be added to compressed bytes,
    /// nor to a response of a given length.
    pub(super) fn of(format: StreamFormat, errors: ErrorFormat, headers: &HeaderMap) -> Self {
        let is_stream = matches!(format, StreamFormat::Events | StreamFormat::Lines);
        let is_fixed =
            || headers.contains_key(CONTENT_ENCODING) || headers.contains_key(CONTENT_LENGTH);
        let can_add = is_stream && !is_fixed();
        let format = if can_add { format } else { StreamFormat::Opaque };
        Self { format, errors, between: can_add }
    }

    /// Bytes have gone to the client. An end that is split over two frames is not recognised.
    pub(super) fn passed(&mut self, data: &[u8]) {
        self.between = match self.format {
            StreamFormat::Events => data.ends_with(b"\n\n") || data.ends_with(b"\r\n\r\n"),
            StreamFormat::Lines => data.ends_with(b"\n"),
            _ => return,
        } || (self.between && data.is_empty());
    }

    /// The error as the next part of the stream, if it can be added.
    pub(super) fn error(self, fault: &Fault) -> Option<Bytes> {
        let refused = Refused::from(fault.clone());
        let body = |format| error::body_in(format, &refused);
        match self.format {
            _ if !self.between => None,
            StreamFormat::Events => {
                Some([b"data: ", &body(self.errors)[..], b"\n\n"].concat().into())
            }
            StreamFormat::Lines => Some([&body(ErrorFormat::Ollama)[..], b"\n"].concat().into()),
            _ => None,
        }
    }
}
