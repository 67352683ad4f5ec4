//! The type of a body, as its client labels it.

use http::HeaderValue;

use super::headers::ControlHeaders;
use crate::reply::Fault;

/// A form without files. Curl labels every body so unless it is told otherwise.
pub(super) const FORM_OF_TEXT: &str = "application/x-www-form-urlencoded";

/// A content type with its parameters; empty if there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentType<'a>(&'a [u8]);

// === impl ContentType ===

impl<'a> ContentType<'a> {
    /// That of a request, which has at most one.
    pub(super) fn of(controls: &ControlHeaders<'a>) -> Result<Self, Fault> {
        if controls.types_differ {
            return Err(Fault::InvalidRequest("The request has two content types.".into()));
        }
        let value = controls.content_type.map(HeaderValue::as_bytes);
        Ok(Self(value.unwrap_or_default().trim_ascii()))
    }

    /// Whether it is this type, whatever its parameters.
    pub(super) fn is(self, kind: &str) -> bool {
        let start = self.0.get(..kind.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
    }

    /// The type with its parameters; empty if it is no text.
    pub(super) fn text(self) -> &'a str {
        std::str::from_utf8(self.0).unwrap_or_default()
    }
}
