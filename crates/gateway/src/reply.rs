//! Responses that the gateway writes itself, and the headers that it adds to others.
//!
//! `fault` lists why a request fails, `fault_table` gives each fault its code and text, `error`
//! builds the response, `retry_after` says when to try again, `json` builds all other responses,
//! and `headers` adds to a backend's response how the request was served.

pub(crate) mod error;
mod fault;
mod fault_table;
pub(crate) mod headers;
mod json;
mod retry_after;

#[cfg(test)]
mod tests;

pub(crate) use error::ErrorFormat;
pub(crate) use fault::{Fault, Refused};
pub(crate) use json::{content, forbid_sniffing, json, uncached};
