//! Instructions per request, which neighbours on the machine hardly disturb.
//!
//! Two runs under callgrind that differ only in the number of requests; their difference is the
//! requests alone. The gateway also works for each second that passes: it checks backends and looks
//! for what is wrong. So the run with fewer requests stands idle for as long as the other one is
//! busy. Counts what the process does itself, not what the kernel does for it. Traces are sent to a
//! receiver in this process before the gateway ends, so their encoding is counted too.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::Instant;

use super::load::{Client, Request};
use super::origin::{Behaviour, Origin};
use super::process::{Process, Ready, installed};
use super::proxies::{floor, ourselves};
use super::settings::{flow_control, no_prefix_cache, traced, workloads};
use super::without_priorities;
use crate::report::Table;
use crate::runner::Bench;

const WARM: usize = 200;
const PRIORITY_MAX: f64 = 1.01;
const WORKLOAD_MAX: f64 = 1.10;
const TRACES_MAX: f64 = 1.05;
const CACHE_MAX: f64 = 1.10;
/// The size of the bodies; twice that shows what each byte costs.
const BODY: usize = 1024;

const HIGH: &str = "x-priority: high\r\n";
const IN_WORKLOAD: &str = concat!(
    "x-priority: high\r\n",
    "x-workload-context: {\"workload_id\": \"nightly\", \"criticality\": 4}\r\n",
);

const FLOOR: &str = "floor";
const OURS: &str = "gateway";
const WORKLOADS: &str = "gateway, workloads";
const UNTRACED: &str = "gateway, sample_ratio 0";
const TRACED: &str = "gateway, sample_ratio 1";
const LARGER: &str = "gateway, 2 KB";
const LARGER_UNCACHED: &str = "gateway, 2 KB, cache_tokens 0";
const WITHOUT_PRIORITIES: &str = "gateway without priorities";

/// Who is counted.
struct Counted {
    name: &'static str,
    /// Nothing for the floor.
    config: Option<String>,
    /// Another build of the gateway.
    program: Option<String>,
    headers: &'static str,
    body: usize,
}

/// What a gateway does after it is warm.
struct Load {
    requests: usize,
    /// How long it then stands idle.
    idle: Duration,
}

/// Whether instructions can be counted here.
pub(crate) fn available() -> bool {
    installed("valgrind").is_some()
}

/// The gateway, without priorities, with workloads (R09, W04) and with traces, beside the floor.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    if !available() {
        return Ok(Table::default());
    }
    let receiver = Origin::start(Behaviour::default())?;
    let requests = bench.count(1000);
    let mut each = Vec::new();
    for counted in all(&receiver) {
        let (many, took) = counted.run(bench, Load { requests, idle: Duration::ZERO }).await?;
        let (few, _) = counted.run(bench, Load { requests: 0, idle: took }).await?;
        each.push((counted.name, (many - few) / requests as f64));
    }
    ensure!(receiver.answered() > 1, "the receiver got no traces");
    let title = "Instructions outside the kernel: POST of 1 KB, one connection";
    let mut table = Table::new(title, &[("instructions/request", 0), ("× floor", 3)]);
    for &(name, own) in &each {
        table.push_all(name, [own, own / each[0].1]);
    }
    judge(&mut table, &each);
    Ok(table)
}

/// Everybody who is counted, the floor first.
fn all(receiver: &Origin) -> Vec<Counted> {
    let ours = Counted::ours;
    let mut all = vec![
        Counted { config: None, ..ours(FLOOR, String::new()) },
        ours(OURS, flow_control()),
        Counted { headers: IN_WORKLOAD, ..ours(WORKLOADS, workloads()) },
        ours(UNTRACED, traced(receiver.address, 0.0)),
        ours(TRACED, traced(receiver.address, 1.0)),
        Counted { body: 2 * BODY, ..ours(LARGER, flow_control()) },
        Counted { body: 2 * BODY, ..ours(LARGER_UNCACHED, no_prefix_cache()) },
    ];
    if let Some(program) = without_priorities::program() {
        let without = ours(WITHOUT_PRIORITIES, flow_control());
        all.push(Counted { program: Some(program), ..without });
    }
    all
}

/// Compares two rows at a time.
fn judge(table: &mut Table, each: &[(&str, f64)]) {
    let pairs = [
        ("workloads", WORKLOAD_MAX, WORKLOADS, OURS),
        ("traces of no request", TRACES_MAX, UNTRACED, OURS),
        ("traces of every request", TRACES_MAX, TRACED, OURS),
        ("prefix caches, 2 KB,", CACHE_MAX, LARGER, LARGER_UNCACHED),
        ("priorities", PRIORITY_MAX, OURS, WITHOUT_PRIORITIES),
    ];
    let of = |name| each.iter().find(|(who, _)| *who == name).map(|(_, own)| own);
    for (what, limit, with, without) in pairs {
        if let (Some(with), Some(without)) = (of(with), of(without)) {
            table.target(format!("instructions with {what} over without"), limit, with / without);
        }
    }
}

// === impl Counted ===

impl Counted {
    /// The gateway, with this configuration.
    fn ours(name: &'static str, config: String) -> Self {
        Self { name, config: Some(config), program: None, headers: HIGH, body: BODY }
    }

    /// All instructions of a run, and how long its requests took.
    async fn run(&self, bench: &mut Bench, load: Load) -> Result<(f64, Duration)> {
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
        let request = Request::chat_of(self.body, false, self.headers);
        let mut client = Client::connect(process.address).await?;
        for _ in 0..WARM {
            client.ask_well(&request).await?;
        }
        let began = Instant::now();
        for _ in 0..load.requests {
            client.ask_well(&request).await?;
        }
        let took = began.elapsed();
        tokio::time::sleep(load.idle).await;
        drop(client);
        process.end_beside().await?;
        let text = fs::read_to_string(&counts).with_context(|| counts.display().to_string())?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals:"));
        Ok((total.context("callgrind counted nothing")?.trim().parse()?, took))
    }
}
