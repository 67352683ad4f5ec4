//! A flooding tenant beside a quiet one: the case that a fair queue is for.
//!
//! Eight requests at the backend at once, each takes 200 ms. One tenant always has 200 outstanding;
//! another sends two a second, in the same band. A perfect queue-jumper would see 0.31 s. The
//! others, with the same limit of eight, run at the same time: first come first served (the floor
//! with a line in front), and nginx, which has no line and answers with errors.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::load::{Client, Request};
use super::origin::{Behaviour, Origin};
use super::process::Process;
use super::proxies::Proxy;
use super::settings::{HEADLINE_AT_ONCE, headline};
use crate::report::{Table, percentile};
use crate::runner::Bench;

const FLOOD: usize = 200;
const TAKES: Duration = Duration::from_millis(200);
const QUIET_EVERY: Duration = Duration::from_millis(500);
/// The flood is there before the quiet tenant comes.
const HEAD_START: Duration = Duration::from_secs(1);
/// The pause of a client after a refusal.
const AFTER_ERROR: Duration = Duration::from_millis(100);
const QUIET_P50_MAX: f64 = 0.42;
const OURS: &str = "gateway";

/// The quiet tenant's seconds, and how many of its requests failed.
#[derive(Default)]
struct Quiet {
    seconds: Vec<f64>,
    errors: usize,
}

/// The quiet tenant's latency behind a flood.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let asks = bench.count(32);
    let mut running = JoinSet::new();
    let peers = [Proxy::ours(OURS, headline())];
    for (at, peer) in peers.iter().chain(&Proxy::others(Some(HEADLINE_AT_ONCE))).enumerate() {
        let origin = Origin::start(Behaviour { delay: Some(TAKES), ..Behaviour::default() })?;
        let proxy = bench.fixture.start(peer, origin.address).await?;
        running.spawn_local(async move {
            anyhow::Ok((at, proxy.name, play(&proxy, &origin, asks).await?))
        });
    }
    let mut rows = Vec::new();
    while let Some(ended) = running.join_next().await {
        rows.push(ended??);
    }
    rows.sort_by_key(|(at, ..)| *at);
    let columns = [
        ("quiet p50 s", 2),
        ("p90 s", 2),
        ("most s", 2),
        ("quiet errors %", 0),
        ("most at once", 0),
        ("flood answers/s", 1),
    ];
    let title = "A flooding tenant (200 outstanding) beside a quiet one (2 a second)";
    let mut table = Table::new(title, &columns);
    rows.into_iter().for_each(|(_, who, figures)| table.push(who, figures));
    let (p50, most) = (table.figure(OURS, 0), table.figure(OURS, 4));
    table.target("quiet tenant's p50 beside a flood, s", QUIET_P50_MAX, p50);
    table.target("most at the backend at once", HEADLINE_AT_ONCE as f64, most);
    Ok(table)
}

async fn play(proxy: &Process, origin: &Origin, asks: usize) -> Result<[Option<f64>; 6]> {
    let began = Instant::now();
    let over = Rc::new(Cell::new(false));
    let mut flood = JoinSet::new();
    for _ in 0..FLOOD {
        flood.spawn_local(flooding(proxy.address, Rc::clone(&over)));
    }
    tokio::time::sleep(HEAD_START).await;
    let quiet = ask_quietly(proxy.address, asks).await?;
    // A flood that ended in an error would have been no flood.
    over.set(true);
    let (answered, lasted) = (origin.answered(), began.elapsed().as_secs_f64());
    while let Some(ended) = flood.join_next().await {
        ended??;
    }
    let seconds = |share| Some(percentile(&quiet.seconds, share)).filter(|it| !it.is_nan());
    Ok([
        seconds(500),
        seconds(900),
        seconds(1000),
        Some(100.0 * quiet.errors as f64 / asks as f64),
        Some(origin.in_flight_max() as f64),
        Some((answered - quiet.seconds.len()) as f64 / lasted),
    ])
}

async fn flooding(address: SocketAddr, over: Rc<Cell<bool>>) -> Result<()> {
    let mut client = Client::connect(address).await?;
    let request = Request::chat(false, "x-team: flood\r\n");
    while !over.get() {
        if client.ask(&request).await?.status != 200 {
            tokio::time::sleep(AFTER_ERROR).await;
        }
    }
    Ok(())
}

/// Sends on time, whether or not the ones before have been answered.
async fn ask_quietly(address: SocketAddr, asks: usize) -> Result<Quiet> {
    let request = Request::chat(false, "x-team: quiet\r\n");
    let mut ticks = tokio::time::interval(QUIET_EVERY);
    let mut sent = JoinSet::new();
    for _ in 0..asks {
        ticks.tick().await;
        let request = request.clone();
        sent.spawn_local(async move { Client::connect(address).await?.ask(&request).await });
    }
    let mut quiet = Quiet::default();
    while let Some(ended) = sent.join_next().await {
        let answer = ended??;
        match answer.status {
            200 => quiet.seconds.push(answer.total.as_secs_f64()),
            _ => quiet.errors += 1,
        }
    }
    Ok(quiet)
}
