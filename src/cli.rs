//! The command line: one variant for each command, with its arguments.

mod batch;
mod check;
mod completions;
mod demo;
mod dispatch;
mod drain;
mod engine;
mod epp;
pub(crate) mod existing_picker;
mod explain;
mod init;
mod key;
mod man;
mod plain;
mod remote;
mod runbook;
mod serve;
mod service_manager;
mod simulate;
mod source;
mod status;
mod top;
mod usage;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use gateway::log;

/// Flow control for LLM inference: fair queueing, priorities and backpressure in front of model
/// servers.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version = env!("PROGRAM_VERSION"),
    arg_required_else_help = true,
    after_help = "First steps:
  tidegate demo                                      traffic without and with Tidegate, two minutes
  tidegate init                                      a configuration for the servers found here
  tidegate serve                                     in front of the model servers on this machine
  tidegate serve --backend http://10.0.0.5:8000      in front of one model server
  tidegate check --all                               every setting, its value and its origin

`tidegate COMMAND --help` has examples for each command."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Epp(epp::Epp),
    Dispatch(dispatch::Dispatch),
    Batch(batch::Batch),
    Demo(demo::Demo),
    Engine(engine::Arguments),
    Simulate(simulate::Simulate),
    Check(check::Check),
    Init(init::Init),
    Key(key::Key),
    Usage(usage::Usage),
    Top(top::Top),
    Completions(completions::Completions),
    Man(man::ManPages),
    Status(status::Status),
    Drain(drain::Drain),
    Explain(explain::Explain),
}

// === impl Cli ===

impl Cli {
    /// Runs the command, and writes its output.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        match self.command {
            // Its exit code says how the batch ended.
            Command::Batch(batch) => return batch.run(out),
            // Its exit code says whether all is well.
            Command::Status(status) => return status.run(out),
            // Its exit code says whether requests are left.
            Command::Drain(drain) => return drain.run(out),
            // Its exit code says whether there are problems, also in JSON.
            Command::Check(check) => return check.run(out),
            Command::Serve(serve) => serve.run(out),
            Command::Epp(epp) => epp.run(out),
            Command::Dispatch(dispatch) => dispatch.run(out),
            Command::Demo(demo) => demo.run(out),
            Command::Engine(engine) => engine.run(out),
            Command::Simulate(simulate) => simulate.run(out),
            Command::Init(init) => init.run(out),
            Command::Key(key) => key.run(out),
            Command::Usage(usage) => usage.run(out),
            Command::Top(top) => top.run(out),
            Command::Completions(completions) => completions.run(out),
            Command::Man(pages) => pages.run(out),
            Command::Explain(explain) => explain.run(out),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a line in the format of the log. The access log follows it on standard output.
fn print(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(log::output_line(text).as_bytes())
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
