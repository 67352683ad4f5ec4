//! The latency that a proxy adds without load.
//!
//! One client that asks a few hundred times a second, so that every step is a wakeup from idle, as
//! on a small server; the same client asks the origin directly in the same round.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::time::MissedTickBehavior;

use super::load::{Client, Request};
use super::origin::{Behaviour, Origin};
use super::proxies::Proxy;
use super::settings::flow_control;
use crate::report::{Table, median, percentile};
use crate::runner::Bench;

const EVERY: Duration = Duration::from_millis(5);
const ADDED_MILLIS_MAX: f64 = 0.15;
const DIRECT: &str = "no proxy";
const OURS: &str = "gateway";

/// Milliseconds in one round.
#[derive(Clone, Copy)]
struct Round {
    total_p50: f64,
    total_p99: f64,
    first_p50: f64,
}

/// The latency that a proxy adds at low load.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let origin = Origin::start(Behaviour::default())?;
    let mut proxies = Vec::new();
    for peer in [Proxy::ours(OURS, flow_control())].iter().chain(&Proxy::others(None)) {
        proxies.push(bench.fixture.start(peer, origin.address).await?);
    }
    let named = proxies.iter().map(|proxy| (proxy.name, proxy.address));
    let all: Vec<_> = [(DIRECT, origin.address)].into_iter().chain(named).collect();
    let asks = bench.count(200);
    let mut rounds = vec![Vec::new(); all.len()];
    for _ in 0..bench.rounds() {
        for (&(_, address), rounds) in all.iter().zip(&mut rounds) {
            rounds.push(round(address, asks).await?);
        }
    }
    let heads = ["p50 ms", "p99 ms", "added", "first byte ms", "added"];
    let title = "Latency at low load: one client, 200 requests a second";
    let mut table = Table::new(title, &heads.map(|head| (head, 3)));
    for (&(who, _), own) in all.iter().zip(&rounds) {
        let added = |pick: fn(&Round) -> f64| (who != DIRECT).then(|| added(&rounds[0], own, pick));
        let own = |pick: fn(&Round) -> f64| Some(median(&own.iter().map(pick).collect::<Vec<_>>()));
        let figures = [
            own(|round| round.total_p50),
            own(|round| round.total_p99),
            added(|round| round.total_p50),
            own(|round| round.first_p50),
            added(|round| round.first_p50),
        ];
        table.push(who, figures);
    }
    let (total, first) = (table.figure(OURS, 2), table.figure(OURS, 4));
    table.target("added p50 at low load, ms", ADDED_MILLIS_MAX, total);
    table.target("added time to first byte at low load, ms", ADDED_MILLIS_MAX, first);
    Ok(table)
}

async fn round(address: SocketAddr, asks: usize) -> Result<Round> {
    let mut client = Client::connect(address).await?;
    let plain = asked(&mut client, &Request::chat(false, ""), asks).await?;
    let streamed = asked(&mut client, &Request::chat(true, ""), asks / 2).await?;
    let totals: Vec<f64> = plain.iter().map(|(_, total)| *total).collect();
    let firsts: Vec<f64> = streamed.iter().map(|(first, _)| *first).collect();
    Ok(Round {
        total_p50: median(&totals),
        total_p99: percentile(&totals, 990),
        first_p50: median(&firsts),
    })
}

/// Milliseconds to the first byte and to the end of each answer.
async fn asked(client: &mut Client, request: &Request, asks: usize) -> Result<Vec<(f64, f64)>> {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut millis = Vec::with_capacity(asks);
    for _ in 0..asks {
        ticks.tick().await;
        let answer = client.ask_well(request).await?;
        millis.push((answer.first.as_secs_f64() * 1e3, answer.total.as_secs_f64() * 1e3));
    }
    Ok(millis)
}

/// The median over the rounds of the difference to no proxy.
fn added(direct: &[Round], own: &[Round], pick: fn(&Round) -> f64) -> f64 {
    let more = own.iter().zip(direct).map(|(own, direct)| pick(own) - pick(direct));
    median(&more.collect::<Vec<_>>())
}
