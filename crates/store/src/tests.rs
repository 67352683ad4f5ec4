//! What the engines are held to.

mod conformance;
mod ledger;
mod model;
pub(crate) mod sqlite;
