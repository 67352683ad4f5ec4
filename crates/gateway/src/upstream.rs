//! Connections to model servers and other HTTP servers, and the exchanges on them.
//!
//! `pool` keeps the connections of the data path, `http1` is one of them, `upstream_body` reads a
//! response from it. `client` is a plain HTTP client for everything that is not proxied.
//! `retry_budget` bounds how many attempts may be repeated.

pub mod client;
mod http1;
mod pool;
mod retry_budget;
mod upstream_body;

pub(crate) use http1::{ExchangeError, Http1Request};
pub(crate) use pool::{ConnectError, Lease, Outgoing, Pool};
pub(crate) use retry_budget::RetryBudget;
pub(crate) use upstream_body::UpstreamBody;
