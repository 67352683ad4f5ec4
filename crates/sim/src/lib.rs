//! A simulated world around the core: engines, traffic, faults and scenarios in virtual time.
//!
//! Pure like the core: no clock, no files, no threads. One seed gives one history.

pub mod arrivals;
pub mod autoscaler;
pub mod engine;
pub mod measure;
pub mod percentile;
pub mod plot;
pub mod policy;
pub mod random;
#[cfg(test)]
mod recorded;
pub mod report;
pub mod scenario;
pub mod trace;
pub mod world;
