//! What a client hears beside a backend's own words: the one place that knows status codes.
//!
//! `fault` says why there is no answer, `table` what that is called outside, `error` makes the
//! answer of it, and `headers` tells with an answer what became of the request.

pub(crate) mod error;
mod fault;
pub(crate) mod headers;
mod json;
mod retry_after;
mod table;

#[cfg(test)]
mod tests;

pub(crate) use fault::{Fault, Refused};
pub(crate) use json::{content, json, uncached};
