//! The type of a body, as its client labels it.

use super::headers::{ControlHeaders, text};
use crate::reply::Fault;

/// A form without files. Curl labels every body so unless it is told otherwise.
pub(super) const FORM_OF_TEXT: &str = "application/x-www-form-urlencoded";

/// The types of a JSON object. Some servers read one from a body of any type, so a client can hide
/// none behind another label.
const OF_OBJECTS: [&str; 3] = ["application/json", FORM_OF_TEXT, "text/plain"];

/// A content type with its parameters; empty if there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentType<'a>(pub(super) &'a str);

// === impl ContentType ===

impl<'a> ContentType<'a> {
    /// That of a request, which has at most one.
    pub(super) fn of(controls: &ControlHeaders<'a>) -> Result<Self, Fault> {
        if controls.types_differ {
            return Err(Fault::InvalidRequest("The request has two content types.".into()));
        }
        Ok(Self(controls.content_type.and_then(text).unwrap_or_default().trim_ascii()))
    }

    /// Whether it is this type, whatever its parameters.
    pub(super) fn is(self, kind: &str) -> bool {
        let start = self.0.get(..kind.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(kind))
    }

    /// Whether it stands for something else than one JSON object.
    pub(super) fn is_foreign(self) -> bool {
        !self.0.is_empty() && !OF_OBJECTS.into_iter().any(|kind| self.is(kind))
    }
}
