//! A cycle of the core: an ask ends, another one is granted, and a third one comes.

use std::fs;
use std::process::Command;

use anyhow::Result;

use super::callgrind::{Counts, total};
use crate::gateway::process::tool;
use crate::gateway::proxies::ourselves;
use crate::runner::Bench;

const FLOWS: &str = "10";
const QUEUED: u32 = 1000;
/// What a cycle costs moves with the draws of so many cycles by less than a hundredth.
const CYCLES: usize = 1000;

/// With fixed bounds and without prompts.
pub(super) async fn fixed(bench: &mut Bench) -> Result<Counts> {
    cycles(bench, "core", (QUEUED, "none"))
}

/// The least that such a queue could cost.
pub(super) async fn floor(bench: &mut Bench) -> Result<Counts> {
    cycles(bench, "floor", (QUEUED, "none"))
}

/// In the default configuration.
pub(super) async fn served(bench: &mut Bench, load: (u32, &str)) -> Result<Counts> {
    cycles(bench, "served", load)
}

/// Two runs that differ in nothing but the number of their cycles.
fn cycles(bench: &mut Bench, subject: &str, (queued, prompts): (u32, &str)) -> Result<Counts> {
    let mut run = |cycles: usize| -> Result<Counts> {
        let counts = bench.fixture.file("callgrind");
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind");
        command.arg(format!("--callgrind-out-file={}", counts.display()));
        command.args([&ourselves()?, "cycles", "--subject", subject, "--flows", FLOWS]);
        command.args(["--queued", &queued.to_string(), "--prompts", prompts]);
        command.args(["--cycles", &cycles.to_string()]);
        command.args(["--prepared", &(2 * CYCLES).to_string()]);
        tool(&mut command)?;
        let all = total(&fs::read_to_string(&counts)?)?;
        Ok(Counts { busiest: all, all })
    };
    let fewer = run(CYCLES)?;
    Ok(run(2 * CYCLES)?.beyond(fewer, CYCLES))
}
