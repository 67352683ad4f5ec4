//! The integration test binary.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on must fail loudly")]

mod check;
mod dispatch;
mod epp;
mod gateway;
mod house;
mod mutants;
mod scenarios;
mod support;
