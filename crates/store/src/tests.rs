//! What the engines are held to.

mod ledger;
mod sqlite;
