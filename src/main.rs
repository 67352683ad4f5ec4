//! Tidegate: flow control for LLM inference.

mod cli;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use gateway::log;

use crate::cli::Cli;
use crate::cli::existing_picker::with_command;

/// A request makes some thirty small allocations, and a worker is never the first thread: the
/// system's allocator is at its slowest there.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    // Not locked: the access log writes there too.
    let outcome = Cli::parse_from(with_command(std::env::args_os())).run(&mut std::io::stdout());
    log::flush();
    match outcome {
        Ok(code) => code,
        // The reader of the output has closed it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // A failed write to standard error cannot be reported.
            let _ = write!(std::io::stderr(), "{}", log::failure_lines(&with_causes(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes. A cause is left out if the text before it contains it.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
