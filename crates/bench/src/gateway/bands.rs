//! How long requests of the high band wait beside normal ones, as their clients see it (P08).
//!
//! Two hundred clients keep the queue full of normal requests. Other clients send on a timetable, a
//! tenth of what the backend can take: in the high band, and for comparison in the normal band too.
//! A wait is the time to the end of the response, less the time that the backend takes.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::load::{Client, Request};
use super::origin::{Behaviour, Origin};
use super::proxies::Proxy;
use super::settings::{FEW_PLACES, few_places};
use crate::report::{Table, percentile};
use crate::runner::Bench;

const BACKLOG: usize = 200;
const TAKES: Duration = Duration::from_millis(20);
/// One in ten of the requests that the backend can take.
const EVERY: Duration = Duration::from_micros(20_000 * 10 / FEW_PLACES as u64);
/// A backlog that does not stand by then never will.
const START_MAX: Duration = Duration::from_secs(60);
const TIMED: usize = 400;
const SHARE_MAX: f64 = 0.1;

/// Milliseconds that requests waited.
struct Waits {
    timed: Vec<f64>,
    backlog: Vec<f64>,
}

/// The waits of the high and of the normal band under load.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let high = play(bench, "x-priority: high\r\n").await?;
    let alike = play(bench, "").await?;
    let columns = [("requests", 0), ("mean ms", 1), ("p50 ms", 1), ("p90 ms", 1), ("p99 ms", 1)];
    let title = "Waits by band: 200 normal requests always wait, a tenth of the load is timed";
    let mut table = Table::new(title, &columns);
    table.push_all("timed, high band", figures(&high.timed));
    table.push_all("the normal band beside it", figures(&high.backlog));
    table.push_all("timed, normal band", figures(&alike.timed));
    table.push_all("the normal band beside it too", figures(&alike.backlog));
    let over = |share| percentile(&high.timed, share) / percentile(&high.backlog, share);
    let means = mean(&high.timed) / mean(&high.backlog);
    table.target("mean wait of the high band over that of normal", SHARE_MAX, means);
    table.target("the same at p50", SHARE_MAX, over(500));
    table.target("the same at p99", SHARE_MAX, over(990));
    Ok(table)
}

/// One run through a gateway of its own; the timed requests have these headers.
async fn play(bench: &mut Bench, headers: &str) -> Result<Waits> {
    let origin = Origin::start(Behaviour { delay: Some(TAKES), ..Behaviour::default() })?;
    let proxy = Proxy::ours("gateway", few_places("fifo"));
    let proxy = bench.fixture.start(&proxy, origin.address).await?;
    let over = Rc::new(Cell::new(false));
    let began = Rc::new(Semaphore::new(0));
    let mut backlog = JoinSet::new();
    for _ in 0..BACKLOG {
        backlog.spawn_local(ask_on(proxy.address, Rc::clone(&began), Rc::clone(&over)));
    }
    // Each client has its first response and asks again: the queue is full from here on.
    let all = tokio::time::timeout(START_MAX, began.acquire_many(BACKLOG as u32)).await;
    let _full = all.context("the queue of normal requests did not fill")??;
    let timed = ask_timed(proxy.address, &Request::chat(false, headers), bench.count(TIMED)).await;
    over.set(true);
    let mut waits = Waits { timed: timed?, backlog: Vec::new() };
    while let Some(ended) = backlog.join_next().await {
        waits.backlog.extend(ended??);
    }
    Ok(waits)
}

/// The waits of a client that asks until it is over. The first one is left out: there was no queue.
async fn ask_on(
    address: SocketAddr,
    began: Rc<Semaphore>,
    over: Rc<Cell<bool>>,
) -> Result<Vec<f64>> {
    let mut client = Client::connect(address).await?;
    let request = Request::chat(false, "");
    client.ask_well(&request).await?;
    began.add_permits(1);
    let mut waits = Vec::new();
    while !over.get() {
        waits.push(wait(client.ask_well(&request).await?.total));
    }
    Ok(waits)
}

/// The waits of requests that are sent on time, whether or not the ones before have a response.
async fn ask_timed(address: SocketAddr, request: &Request, count: usize) -> Result<Vec<f64>> {
    let mut ticks = tokio::time::interval(EVERY);
    let mut sent = JoinSet::new();
    for _ in 0..count {
        ticks.tick().await;
        let request = request.clone();
        sent.spawn_local(async move { Client::connect(address).await?.ask_well(&request).await });
    }
    let mut waits = Vec::with_capacity(count);
    while let Some(ended) = sent.join_next().await {
        waits.push(wait(ended??.total));
    }
    Ok(waits)
}

fn wait(total: Duration) -> f64 {
    total.saturating_sub(TAKES).as_secs_f64() * 1e3
}

fn figures(waits: &[f64]) -> [f64; 5] {
    let [p50, p90, p99] = [500, 900, 990].map(|share| percentile(waits, share));
    [waits.len() as f64, mean(waits), p50, p90, p99]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
