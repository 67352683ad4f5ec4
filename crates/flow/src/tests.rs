//! Tests of the whole controller: requirements by id, properties, oracles.
//!
//! Tests of one module alone stand beside it. Every random test takes its seed from a constant or
//! from proptest, and names it when it fails.

mod admission;
mod aimd;
mod auto_watermark;
mod bands;
mod budget;
mod cache_waits;
mod caches;
mod demand;
mod differential;
mod endings;
mod fairness;
mod fixture;
mod histories;
mod lane_scheduler;
mod limits;
mod many_names;
mod misuse;
mod models;
mod objectives;
mod oracles;
mod orders;
mod positions;
mod range;
mod reference;
mod reserve;
mod resilience;
mod routing;
mod sessions;
mod slack;
mod start_limiter;
mod stock;
mod supply;
mod told_places;
mod views;
mod waits;
mod workload_waits;
