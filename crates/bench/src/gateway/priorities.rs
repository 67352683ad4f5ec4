//! What the priorities cost in time (R09), beside a gateway that was built without their code.
//!
//! Both take turns in short rounds, and the ratio within a round counts. The requests have all four
//! bands. `instructions` counts the same two builds without the noise of the machine.

use std::time::Duration;

use anyhow::Result;
use tokio::time::MissedTickBehavior;

use super::load::{Client, Crowd, Request};
use super::origin::{Behaviour, Origin};
use super::proxies::Proxy;
use super::settings::flow_control;
use super::sides::{Side, play, ratios};
use super::without_priorities;
use crate::report::{Table, median, percentile};
use crate::runner::{Bench, turns};

const BANDS: [&str; 4] = ["critical", "high", "normal", "best-effort"];
const CLIENTS: usize = 64;
/// A round is short, because the machine changes its speed every few seconds.
const EACH: usize = 100;
const ROUNDS: usize = 90;
/// Requests of a client that is alone.
const ALONE: usize = 1000;
const ALONE_EVERY: Duration = Duration::from_millis(3);
const LOST_MAX: f64 = 0.01;
const ADDED_MILLIS_MAX: f64 = 0.1;

/// Throughput, processor time and latency with and without the priorities.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    match without_priorities::program() {
        Some(without) => compare(bench, without).await,
        None => Ok(Table::default()),
    }
}

/// The gateway beside this build of it.
pub(super) async fn compare(bench: &mut Bench, without: String) -> Result<Table> {
    let origin = Origin::start(Behaviour::default())?;
    let on = Proxy::ours("priorities on", flow_control());
    let off = Proxy::Ours { name: "without", config: flow_control(), program: Some(without) };
    let crowd = Crowd::new(CLIENTS, BANDS.map(request).into());
    let mut sides = [
        Side::start(bench, &origin, &on, crowd.clone()).await?,
        Side::start(bench, &origin, &off, crowd).await?,
    ];
    play(&mut sides, bench.count(ROUNDS), bench.count(EACH)).await?;
    let alone = play_alone(&sides, bench.count(ALONE)).await?;
    let columns =
        [("requests/s", 0), ("CPU µs/request", 2), ("least", 2), ("p50 ms alone", 3), ("p99", 3)];
    let title = "Priorities: POST of 1 KB in four bands, 64 connections, and one client alone";
    let mut table = Table::new(title, &columns);
    for (Side { proxy, rates, micros, .. }, millis) in sides.iter().zip(&alone) {
        let least = percentile(micros, 1);
        let [p50, p99] = [median(millis), percentile(millis, 990)];
        table.push_all(proxy.name, [median(rates), median(micros), least, p50, p99]);
    }
    let kept = ratios(&sides[0].rates, &sides[1].rates);
    let quartiles = [250, 750].map(|share| 1.0 - percentile(&kept, share));
    table.target("part of the throughput lost to priorities", LOST_MAX, 1.0 - median(&kept));
    table.target("the same, lower quartile of the rounds", LOST_MAX, quartiles[1]);
    table.target("the same, upper quartile of the rounds", LOST_MAX, quartiles[0]);
    let added = median(&alone[0]) - median(&alone[1]);
    table.target("p50 added by priorities, ms", ADDED_MILLIS_MAX, added);
    Ok(table)
}

fn request(band: &str) -> Request {
    Request::chat(false, &format!("x-priority: {band}\r\n"))
}

/// The milliseconds of one request at a time, by turns to both.
async fn play_alone(sides: &[Side; 2], count: usize) -> Result<[Vec<f64>; 2]> {
    let request = request("high");
    let mut clients = [
        Client::connect(sides[0].proxy.address).await?,
        Client::connect(sides[1].proxy.address).await?,
    ];
    let mut millis = [Vec::new(), Vec::new()];
    let mut ticks = tokio::time::interval(ALONE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 0..count {
        for at in turns(sides.len(), round) {
            ticks.tick().await;
            let answer = clients[at].ask_well(&request).await?;
            millis[at].push(answer.total.as_secs_f64() * 1e3);
        }
    }
    Ok(millis)
}
