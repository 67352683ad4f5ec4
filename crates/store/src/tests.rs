//! What the engines are held to.

mod conformance;
mod ledger;
mod model;
mod redis;
pub(crate) mod sqlite;
