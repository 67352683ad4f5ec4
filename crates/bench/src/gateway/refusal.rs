//! How soon a full queue says so, to ten thousand a second.
//!
//! Clients keep to a timetable whatever the answers do, and an answer counts from the moment its
//! request was due: a proxy that falls behind cannot hide it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::load::{Client, Request};
use super::origin::{Behaviour, Origin};
use super::process::Process;
use super::proxies::{Proxy, has_nginx};
use super::settings::{FULL_AT, full};
use crate::report::{Table, percentile};
use crate::runner::Bench;

const CLIENTS: usize = 200;
const RATE: f64 = 10_000.0;
const NEVER: Duration = Duration::from_secs(3600);
const SETTLED: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(5);
const P99_MILLIS_MAX: f64 = 10.0;
const OURS: &str = "gateway";

/// Refusals of a full queue.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let lasts = bench.seconds(3.0);
    let nginx = has_nginx().then_some(Proxy::Nginx { limit: Some(FULL_AT) });
    let columns =
        [("refusals/s", 0), ("p50 ms", 2), ("p99 ms", 2), ("most ms", 2), ("CPU µs each", 1)];
    let mut table = Table::new("Refusals: a full queue, 10 000 requests a second", &columns);
    for peer in [Proxy::ours(OURS, full())].iter().chain(&nginx) {
        let origin = Origin::start(Behaviour { delay: Some(NEVER), ..Behaviour::default() })?;
        let proxy = bench.fixture.start(peer, origin.address).await?;
        table.push_all(proxy.name, refused(&proxy, lasts).await?);
    }
    let p99 = table.figure(OURS, 2);
    table.target("refusal by a full queue at 10 000 a second, p99 ms", P99_MILLIS_MAX, p99);
    Ok(table)
}

async fn refused(proxy: &Process, lasts: Duration) -> Result<[f64; 5]> {
    let request = Request::chat(false, "");
    let mut holders = Vec::new();
    for _ in 0..FULL_AT {
        let mut holder = Client::connect(proxy.address).await?;
        holder.send(&request).await?;
        holders.push(holder);
        // It must have its place before the next one comes, or that one takes it.
        tokio::time::sleep(SETTLED).await;
    }
    // The first to be refused proves that those before it have their places.
    first(proxy.address, &request).await?;
    let began = Instant::now();
    let cpu = proxy.cpu_nanos()?;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let due = began + Duration::from_secs_f64(client as f64 / RATE);
        clients.spawn_local(keep_to_it(proxy.address, request.clone(), due, began + lasts));
    }
    let mut millis = Vec::new();
    while let Some(ended) = clients.join_next().await {
        millis.extend(ended??);
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu_micros = (proxy.cpu_nanos()? - cpu) as f64 / 1e3;
    let count = millis.len() as f64;
    let [p50, p99, most] = [500, 990, 1000].map(|share| percentile(&millis, share));
    Ok([count / seconds, p50, p99, most, cpu_micros / count])
}

/// Asks until it is refused, on a connection of its own each time.
async fn first(address: SocketAddr, request: &Request) -> Result<()> {
    let patience = Duration::from_secs(1);
    for _ in 0..10 {
        let mut client = Client::connect(address).await?;
        // One that hears nothing has a place, and gives it up; the queue hears of that.
        if let Ok(answer) = tokio::time::timeout(patience, client.ask(request)).await {
            let status = answer?.status;
            return if refusal(status) { Ok(()) } else { bail!("{status} instead of a refusal") };
        }
    }
    bail!("no request is refused")
}

/// Milliseconds from the moment each request was due to the end of its refusal.
async fn keep_to_it(
    address: SocketAddr,
    request: Request,
    mut due: Instant,
    over: Instant,
) -> Result<Vec<f64>> {
    let mut client = Client::connect(address).await?;
    let mut millis = Vec::new();
    while due < over {
        tokio::time::sleep_until(due).await;
        let Ok(answer) = tokio::time::timeout(PATIENCE, client.ask(&request)).await else {
            bail!("no refusal within {} s", PATIENCE.as_secs());
        };
        let answer = answer?;
        if !refusal(answer.status) {
            bail!("{} where a refusal was due", answer.status);
        }
        millis.push(due.elapsed().as_secs_f64() * 1e3);
        due += Duration::from_secs_f64(CLIENTS as f64 / RATE);
    }
    Ok(millis)
}

/// Ours are 503; nginx says 502 when a limit is reached.
fn refusal(status: u16) -> bool {
    matches!(status, 502 | 503)
}
