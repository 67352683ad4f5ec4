//! What the awareness of workloads costs when requests wait (W04): ten thousand requests of a
//! thousand workloads, in the order `workload`, beside the same requests without a context.
//!
//! All contexts have the same criticality. Under the weights of the source a workload that sent
//! more within the last minute waits longer: 5 ms for each request. That is a choice, not a price.
//! So the workloads send in turn, and none is ever more than one request ahead of another. The same
//! is measured without a weight of the rate, where the order is that of arrival.

use std::time::Duration;

use anyhow::Result;

use super::load::{Crowd, Request};
use super::origin::{Behaviour, Origin};
use super::proxies::Proxy;
use super::settings::{few_places, few_places_by_wait};
use super::sides::{Side, differences, play, ratios};
use crate::report::{Table, median};
use crate::runner::Bench;

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
        let sides = compare(bench, &load).await?;
        let without = &sides[0];
        table.push(format!("{}, without", load.name), figures(without, [None; 3]));
        for side in &sides[1..] {
            let rate = median(&ratios(&side.rates, &without.rates));
            let cpu = median(&ratios(&side.micros, &without.micros));
            let added = median(&differences(&side.p99, &without.p99));
            let who = format!("{}, {}", load.name, side.proxy.name);
            table.push(who.clone(), figures(side, [rate, cpu, added].map(Some)));
            table.target(format!("part of the throughput lost, {who}"), LOST_MAX, 1.0 - rate);
            table.target(format!("CPU over without, {who}"), CPU_RATIO_MAX, cpu);
            table.target(format!("p99 added, {who}, ms"), P99_MILLIS_MAX, added);
        }
    }
    Ok(table)
}

/// The gateways by turns: without contexts, and with them under both weights.
async fn compare(bench: &mut Bench, load: &Load) -> Result<[Side; 3]> {
    let origin = Origin::start(Behaviour { delay: load.delay, ..Behaviour::default() })?;
    let crowd = |requests| Crowd::new(load.clients, requests);
    let (plain, contexts) =
        (crowd(vec![Request::chat(false, "")]), crowd((0..WORKLOADS).map(context).collect()));
    let without = Proxy::ours("without", few_places("fifo"));
    let with = Proxy::ours("with", few_places("workload"));
    let by_wait = Proxy::ours("with, rates without weight", few_places_by_wait());
    let mut sides = [
        Side::start(bench, &origin, &without, plain).await?,
        Side::start(bench, &origin, &with, contexts.clone()).await?,
        Side::start(bench, &origin, &by_wait, contexts).await?,
    ];
    let each = bench.count(REQUESTS).div_ceil(load.clients);
    play(&mut sides, bench.rounds(), each).await?;
    Ok(sides)
}

/// A request of a workload.
fn context(number: usize) -> Request {
    let context = format!("{{\"workload_id\": \"workload-{number}\", \"criticality\": 3}}");
    Request::chat(false, &format!("x-workload-context: {context}\r\n"))
}

/// The row of a side; the ratio of the rates, of the times, and what p99 has more.
fn figures(side: &Side, [rate, cpu, added]: [Option<f64>; 3]) -> Vec<Option<f64>> {
    let own = [&side.rates, &side.micros, &side.p50, &side.p99];
    let [rates, micros, p50, p99] = own.map(|rounds| Some(median(rounds)));
    vec![rates, rate, micros, cpu, p50, p99, added]
}
