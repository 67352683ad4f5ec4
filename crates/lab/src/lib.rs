//! Measurements and demonstrations of Tidegate.
//!
//! Everything that reads a clock or spends a minute of processor time to prove a figure lives here,
//! so that the product does not. [`mod@bench`] measures, [`demo`] shows; the binary's verbs are
//! thin calls into this crate.

pub mod bench;
pub mod demo;
pub mod engine;
pub mod load;
pub mod simulate;
mod stopwatch;
pub mod study;
mod table;
