//! What the awareness of workloads costs when requests wait (W04): ten thousand requests of a
//! thousand workloads, in the order `workload`, beside the same requests without a context.
//!
//! All contexts have the same criticality. Then both gateways serve the requests in nearly the same
//! order, and a difference is the price of the scores, not a choice between workloads.

use std::time::Duration;

use anyhow::Result;

use super::load::{Crowd, Request};
use super::origin::{Behaviour, Origin};
use super::process::Process;
use super::proxies::Proxy;
use super::settings::few_places;
use crate::report::{Table, median, percentile};
use crate::runner::{Bench, turns};

const WORKLOADS: usize = 1000;
const REQUESTS: usize = 10_000;
/// The other 56 wait. As many as the other benchmarks of the gateway have.
const SOME: usize = 64;
/// Eight places then serve 4000 a second, so that the backend is the limit and not the gateway.
const TAKES: Duration = Duration::from_millis(2);
const LOST_MAX: f64 = 0.1;
const CPU_RATIO_MAX: f64 = 1.1;
const P99_MILLIS_MAX: f64 = 5.0;

/// A load on both gateways.
struct Load {
    name: &'static str,
    clients: usize,
    delay: Option<Duration>,
}

/// A gateway, its clients, and the figures of its rounds.
struct Side {
    proxy: Process,
    crowd: Crowd,
    rates: Vec<f64>,
    micros: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

const LOADS: [Load; 3] = [
    Load { name: "64 clients", clients: SOME, delay: None },
    Load { name: "1000 clients", clients: WORKLOADS, delay: None },
    Load { name: "1000 clients, 2 ms each", clients: WORKLOADS, delay: Some(TAKES) },
];

/// Throughput, processor time and latency with a thousand workloads and with none.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let columns = [
        ("requests/s", 0),
        ("over without", 3),
        ("CPU µs/request", 1),
        ("over without", 3),
        ("p50 ms", 1),
        ("p99 ms", 1),
        ("p99 added", 1),
    ];
    let title = "Workloads: 10 000 requests of 1000 workloads a round, eight places, one flow";
    let mut table = Table::new(title, &columns);
    for load in LOADS {
        let [without, with] = play(bench, &load).await?;
        let rate = over(&with.rates, &without.rates);
        let cpu = over(&with.micros, &without.micros);
        let added = differences(&with.p99, &without.p99);
        table.push(format!("{}, without", load.name), without.figures([None; 3]));
        table.push(format!("{}, with", load.name), with.figures([rate, cpu, added].map(Some)));
        table.target(format!("part of the throughput lost, {}", load.name), LOST_MAX, 1.0 - rate);
        table.target(format!("CPU over without, {}", load.name), CPU_RATIO_MAX, cpu);
        table.target(format!("p99 added, {}, ms", load.name), P99_MILLIS_MAX, added);
    }
    Ok(table)
}

/// Both gateways by turns: without contexts, and with them.
async fn play(bench: &mut Bench, load: &Load) -> Result<[Side; 2]> {
    let origin = Origin::start(Behaviour { delay: load.delay, ..Behaviour::default() })?;
    let plain = vec![Request::chat(false, "")];
    let contexts = (0..WORKLOADS).map(context).collect();
    let mut sides = [
        side(bench, &origin, load, ("without", "fifo", plain)).await?,
        side(bench, &origin, load, ("with", "workload", contexts)).await?,
    ];
    let each = bench.count(REQUESTS).div_ceil(load.clients);
    for round in 0..=bench.rounds() {
        for at in turns(sides.len(), round) {
            let side = &mut sides[at];
            let served = side.crowd.ask(&side.proxy, each).await?;
            // The first round makes the workloads known and opens the connections to the backend.
            if round > 0 {
                side.rates.push(served.rate());
                side.micros.push(served.cpu_micros_each());
                side.p50.push(median(&served.millis));
                side.p99.push(percentile(&served.millis, 990));
            }
        }
    }
    Ok(sides)
}

async fn side(
    bench: &mut Bench,
    origin: &Origin,
    load: &Load,
    (name, order, requests): (&'static str, &str, Vec<Request>),
) -> Result<Side> {
    let proxy = Proxy::ours(name, few_places(order));
    let proxy = bench.fixture.start(&proxy, origin.address).await?;
    let crowd = Crowd { clients: load.clients, requests: requests.into() };
    let [rates, micros, p50, p99] = [const { Vec::new() }; 4];
    Ok(Side { proxy, crowd, rates, micros, p50, p99 })
}

/// A request of a workload.
fn context(number: usize) -> Request {
    let context = format!("{{\"workload_id\": \"workload-{number}\", \"criticality\": 3}}");
    Request::chat(false, &format!("x-workload-context: {context}\r\n"))
}

// === impl Side ===

impl Side {
    /// The row of a side; the ratio of the rates, of the times, and what p99 has more.
    fn figures(&self, [rate, cpu, added]: [Option<f64>; 3]) -> Vec<Option<f64>> {
        let own = [&self.rates, &self.micros, &self.p50, &self.p99];
        let [rates, micros, p50, p99] = own.map(|rounds| Some(median(rounds)));
        vec![rates, rate, micros, cpu, p50, p99, added]
    }
}

/// The median over the rounds of the ratio within a round.
fn over(own: &[f64], other: &[f64]) -> f64 {
    median(&own.iter().zip(other).map(|(own, other)| own / other).collect::<Vec<_>>())
}

/// The median over the rounds of the difference within a round.
fn differences(own: &[f64], other: &[f64]) -> f64 {
    median(&own.iter().zip(other).map(|(own, other)| own - other).collect::<Vec<_>>())
}
