//! What the engines are held to.

mod conformance;
mod ledger;
mod sqlite;
