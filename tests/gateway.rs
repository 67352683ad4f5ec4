//! The gateway from outside: what clients, model servers and operators see of it.

mod bad_input;
mod bands;
mod batch;
mod batch_cli;
mod burst;
mod bus;
pub(crate) mod clients;
mod control;
mod doors;
mod edges;
mod faults;
mod harness;
mod hasty;
mod headline;
mod passthrough;
mod reload;
mod retries;
mod routing;
mod shutdown;
mod windows;

use crate::support::Answer;

/// A chat's stream that goes word by word once the test lets it go.
fn streams(words: &[&str]) -> Answer {
    Answer::stream_held(words)
}
