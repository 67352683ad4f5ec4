//! What the priorities cost in time (R09), beside a gateway that was built without their code.
//!
//! Both take turns in short rounds, and the ratio within a round counts. The requests have all four
//! bands. `instructions` counts the same two builds without the noise of the machine.

use std::time::Duration;

use anyhow::Result;
use tokio::time::MissedTickBehavior;

use super::load::{Client, Crowd, Request};
use super::origin::{Behaviour, Origin};
use super::process::Process;
use super::proxies::Proxy;
use super::settings::flow_control;
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

/// A build of the gateway, and the figures of its rounds.
struct Side {
    proxy: Process,
    crowd: Crowd,
    rates: Vec<f64>,
    micros: Vec<f64>,
    /// Milliseconds of the client that is alone.
    millis: Vec<f64>,
}

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
    let mut sides = [side(bench, &origin, &on).await?, side(bench, &origin, &off).await?];
    play_crowded(&mut sides, bench.count(ROUNDS), bench.count(EACH)).await?;
    play_alone(&mut sides, bench.count(ALONE)).await?;
    let columns =
        [("requests/s", 0), ("CPU µs/request", 2), ("least", 2), ("p50 ms alone", 3), ("p99", 3)];
    let title = "Priorities: POST of 1 KB in four bands, 64 connections, and one client alone";
    let mut table = Table::new(title, &columns);
    for Side { proxy, rates, micros, millis, .. } in &sides {
        let least = percentile(micros, 1);
        let alone = [median(millis), percentile(millis, 990)];
        table.push_all(proxy.name, [median(rates), median(micros), least, alone[0], alone[1]]);
    }
    let [on, off] = &sides;
    let kept = on.rates.iter().zip(&off.rates).map(|(on, off)| on / off).collect::<Vec<_>>();
    let quartiles = [250, 750].map(|share| 1.0 - percentile(&kept, share));
    table.target("part of the throughput lost to priorities", LOST_MAX, 1.0 - median(&kept));
    table.target("the same, lower quartile of the rounds", LOST_MAX, quartiles[1]);
    table.target("the same, upper quartile of the rounds", LOST_MAX, quartiles[0]);
    let added = median(&on.millis) - median(&off.millis);
    table.target("p50 added by priorities, ms", ADDED_MILLIS_MAX, added);
    Ok(table)
}

async fn side(bench: &mut Bench, origin: &Origin, proxy: &Proxy) -> Result<Side> {
    let proxy = bench.fixture.start(proxy, origin.address).await?;
    let crowd = Crowd { clients: CLIENTS, requests: BANDS.map(request).into() };
    let [rates, micros, millis] = [const { Vec::new() }; 3];
    Ok(Side { proxy, crowd, rates, micros, millis })
}

fn request(band: &str) -> Request {
    Request::chat(false, &format!("x-priority: {band}\r\n"))
}

/// All clients at once, as fast as it goes.
async fn play_crowded(sides: &mut [Side; 2], rounds: usize, each: usize) -> Result<()> {
    for round in 0..=rounds {
        for at in turns(sides.len(), round) {
            let side = &mut sides[at];
            let served = side.crowd.ask(&side.proxy, each).await?;
            // The first round opens the connections to the backend.
            if round > 0 {
                side.rates.push(served.rate());
                side.micros.push(served.cpu_micros_each());
            }
        }
    }
    Ok(())
}

/// One request at a time, by turns to both.
async fn play_alone(sides: &mut [Side; 2], count: usize) -> Result<()> {
    let request = request("high");
    let mut clients = [
        Client::connect(sides[0].proxy.address).await?,
        Client::connect(sides[1].proxy.address).await?,
    ];
    let mut ticks = tokio::time::interval(ALONE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 0..count {
        for at in turns(sides.len(), round) {
            ticks.tick().await;
            let answer = clients[at].ask_well(&request).await?;
            sides[at].millis.push(answer.total.as_secs_f64() * 1e3);
        }
    }
    Ok(())
}
