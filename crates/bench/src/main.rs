//! `tidegate-bench`: the measurements of Tidegate, apart from the product.
//!
//! Every figure is a ratio to something that was measured in the same run, because a duration alone
//! says more about the machine than about the code. Gateways, pickers and dispatchers run as
//! processes of the `tidegate` binary; the simulated and the bare structures run in this process.

mod batch;
mod cli;
mod controller;
mod epp;
mod gateway;
mod instructions;
mod recorded;
mod report;
mod runner;
mod soak;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::Parser as _;

/// The same allocator as in the product, for the controller and for the bare proxy alike.
#[cfg(not(feature = "memory"))]
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> anyhow::Result<ExitCode> {
    cli::Cli::parse().run(&mut std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
