//! The parts of Tidegate that stand in for others: a model server, clients, a simulated cluster.
//!
//! [`engine`] is a model server without a model and [`load`] sends it requests; [`demo`] shows both
//! with the gateway between them. [`simulate`] runs scenarios in virtual time.

pub mod demo;
pub mod engine;
pub mod load;
pub mod progress;
pub mod simulate;
pub mod stopwatch;
pub mod table;
