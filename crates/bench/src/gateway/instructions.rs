//! Instructions per request, which no neighbour on the machine can disturb.
//!
//! Two runs under callgrind that differ only in the number of requests; their difference is the
//! requests alone. Counts what the process does itself, not what the kernel does for it.

use std::fs;

use anyhow::{Context as _, Result};

use super::load::{Client, Request};
use super::origin::{Behaviour, Origin};
use super::process::{Process, Ready, installed};
use super::proxies::{floor, ourselves};
use super::settings::{flow_control, workloads};
use super::without_priorities;
use crate::report::Table;
use crate::runner::Bench;

const WARM: usize = 200;
const PRIORITY_MAX: f64 = 1.01;
const WORKLOAD_MAX: f64 = 1.10;

/// Who is counted.
struct Counted {
    name: &'static str,
    /// Nothing for the floor.
    config: Option<String>,
    /// Another build of the gateway.
    program: Option<String>,
    headers: &'static str,
}

/// Whether instructions can be counted here.
pub(crate) fn available() -> bool {
    installed("valgrind")
}

/// The gateway, without priorities and with workloads (R09, W04), beside the floor.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    if !available() {
        return Ok(Table::default());
    }
    let on = "x-priority: high\r\n";
    let context = "x-priority: high\r\n\
                   x-workload-context: {\"workload_id\": \"nightly\", \"criticality\": 4}\r\n";
    let ours = |name, config, headers| Counted { name, config, program: None, headers };
    let mut counted = vec![
        ours("floor", None, on),
        ours("gateway", Some(flow_control()), on),
        ours("gateway, workloads", Some(workloads()), context),
    ];
    if let Some(program) = without_priorities::program() {
        let without = ours("gateway without priorities", Some(flow_control()), on);
        counted.push(Counted { program: Some(program), ..without });
    }
    let requests = bench.count(1000);
    let mut each = Vec::new();
    for counted in &counted {
        let few = counted.run(bench, WARM).await?;
        let many = counted.run(bench, WARM + requests).await?;
        each.push((many - few) / requests as f64);
    }
    let title = "Instructions outside the kernel: POST of 1 KB, one connection";
    let mut table = Table::new(title, &[("instructions/request", 0), ("× floor", 3)]);
    for (counted, &own) in counted.iter().zip(&each) {
        table.push_all(counted.name, [own, own / each[0]]);
    }
    table.target("instructions with workloads over without", WORKLOAD_MAX, each[2] / each[1]);
    if let Some(without) = each.get(3) {
        table.target("instructions with priorities over without", PRIORITY_MAX, each[1] / without);
    }
    Ok(table)
}

// === impl Counted ===

impl Counted {
    /// All instructions of a run with so many requests.
    async fn run(&self, bench: &mut Bench, requests: usize) -> Result<f64> {
        let origin = Origin::start(Behaviour::default())?;
        let (log, counts) = (bench.fixture.file("log"), bench.fixture.file("callgrind"));
        let (program, arguments) = match &self.config {
            Some(config) => {
                let program = self.program.as_ref().unwrap_or(&bench.fixture.tidegate);
                (program.clone(), bench.fixture.ours(config, origin.address)?)
            }
            None => (ourselves()?, floor(origin.address, None)),
        };
        let mut command = bench.fixture.cores.command("valgrind");
        command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", counts.display()));
        command.arg(program).args(arguments);
        let process = Process::start(self.name, &mut command, &log, Ready::Says).await?;
        let request = Request::chat(false, self.headers);
        let mut client = Client::connect(process.address).await?;
        for _ in 0..requests {
            client.ask_well(&request).await?;
        }
        drop(client);
        process.end()?;
        let text = fs::read_to_string(&counts).with_context(|| counts.display().to_string())?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals:"));
        Ok(total.context("callgrind counted nothing")?.trim().parse()?)
    }
}
