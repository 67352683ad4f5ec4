//! The tests of all engines: a conformance suite, a model of the protocol, and tests of each
//! engine.

mod conformance;
mod ledger;
mod model;
#[cfg(feature = "pubsub")]
mod pubsub;
mod redis;
pub(crate) mod sqlite;
