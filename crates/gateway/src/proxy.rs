//! One attempt at a backend, and the way of its response to the client.
//!
//! Bodies pass byte for byte. A stream is read only as far as accounting needs, and however it
//! ends, its request settles with the core.

mod attempt;
mod response_body;
mod token_counter;

pub(crate) use attempt::{Failure, Limits, Outcome, UpstreamRequest, attempt, verdict};
pub(crate) use response_body::{BodyError, Flight, ResponseBody};
pub(crate) use token_counter::{StreamFormat, TokenCounter};
