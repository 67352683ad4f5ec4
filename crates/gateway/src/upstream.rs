//! Connections from the gateway to other HTTP servers, and the exchanges on them.
//!
//! `connect` is the one way out: it makes every connection and hides the socket below. `pool` keeps
//! the connections of the data path, `backend_files` bounds their number, `http1` is one of them,
//! `upstream_body` reads a response from it. `client` is a plain HTTP client for everything that is
//! not proxied, `grpc_client` one for gRPC. `inner_error` knows a failure with a good status,
//! `retry_after` reads when a server wants to be asked
//! again, `retry_budget` bounds how many attempts may be repeated.

mod backend_files;
mod backend_retry_after;
pub mod client;
mod connect;
pub(crate) mod grpc_client;
mod http1;
mod inner_error;
mod pool;
mod retry_budget;
mod upstream_body;

pub(crate) use backend_files::BackendFiles;
pub(crate) use backend_retry_after::{is_full, retry_after};
pub(crate) use connect::{ConnectError, Connection, ServerAddress, connect};
pub(crate) use http1::{ExchangeError, Framing, Http1, Http1Request, Silence};
pub(crate) use inner_error::{InnerError, LINE, begins_with_error, inner_error};
pub(crate) use pool::{Lease, Pool, WholeBody};
pub(crate) use retry_budget::{RetryBudget, RetryBudgets};
pub(crate) use upstream_body::UpstreamBody;
