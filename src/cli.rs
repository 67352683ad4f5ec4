//! The command line: what can be typed, and which part of the program answers.
//!
//! Each verb is one variant with its arguments; nothing else sees them.

mod batch;
mod check;
mod demo;
mod dispatch;
mod engine;
mod epp;
mod plain;
mod remote;
mod serve;
mod simulate;
mod source;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Flow control for LLM inference: fair queueing, priorities and backpressure in front of model
/// servers.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(serve::Serve),
    Epp(epp::Epp),
    Dispatch(dispatch::Dispatch),
    Batch(batch::Batch),
    Demo(demo::Demo),
    Engine(engine::Arguments),
    Simulate(simulate::Simulate),
    Check(check::Check),
}

// === impl Cli ===

impl Cli {
    /// Does what was asked for, and writes what there is to say about it.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        match self.verb {
            // What it waits for may end in more than two ways.
            Verb::Batch(batch) => return batch.run(out),
            Verb::Serve(serve) => serve.run(out),
            Verb::Epp(epp) => epp.run(out),
            Verb::Dispatch(dispatch) => dispatch.run(out),
            Verb::Demo(demo) => demo.run(out),
            Verb::Engine(engine) => engine.run(out),
            Verb::Simulate(simulate) => simulate.run(out),
            Verb::Check(check) => check.run(out),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
