//! What the engines are held to.

mod conformance;
mod ledger;
pub(crate) mod sqlite;
