//! The integration test binary.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on must fail loudly")]

mod chaos;
mod chart;
mod check;
mod core_mutants;
mod dispatch;
mod epp;
mod gateway;
mod house;
mod kubernetes;
mod packages;
mod profiles;
mod scenarios;
mod support;
