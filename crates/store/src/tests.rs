//! The tests of both engines: a conformance suite, a model of the protocol, and tests of each
//! engine.

mod conformance;
mod ledger;
mod model;
mod redis;
pub(crate) mod sqlite;
