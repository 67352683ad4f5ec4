//! Sends a request to a backend and its response back to the client.
//!
//! `forward` makes attempts until a response begins, `attempt` is one of them, `retry` decides
//! whether a failed one is repeated, `response_body` passes the response on, `stream_error` ends a
//! stream that breaks off, `token_counter` counts the tokens on the way and `model_name` puts the
//! client's model name back where another was sent. Otherwise bodies pass byte for byte. However a
//! response ends, its request settles with the core.

mod attempt;
mod forward;
mod model_name;
mod response_body;
mod response_headers;
mod response_watch;
mod retry;
mod stream_error;
mod token_counter;
mod upstream_request;

pub(crate) use forward::{NO_RESPONSE, ProxiedRequest};
pub(crate) use model_name::ModelNameRestorer;
pub(crate) use response_body::{BodyError, ResponseBody};
pub(crate) use response_headers::add_room;
pub(crate) use retry::verdict;
pub(crate) use token_counter::{StreamFormat, TokenCounter, is_encoded};
pub(crate) use upstream_request::UpstreamRequest;
