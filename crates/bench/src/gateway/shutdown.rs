//! How soon waiting requests have their 503 when the gateway is told to end (N07).

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::load::{Client, Request};
use super::metrics::await_depth;
use super::origin::{Behaviour, Origin};
use super::proxies::Proxy;
use super::settings::patient;
use crate::report::{Table, percentile};
use crate::runner::Bench;

const NEVER: Duration = Duration::from_secs(3600);
const WAITING: [usize; 2] = [500, 5000];
const MILLIS_MAX: f64 = 1000.0;

/// The time from SIGTERM to the end of the response of each waiting request.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let columns = [("runs", 0), ("p50 ms", 1), ("p99 ms", 1), ("most ms", 1)];
    let mut table = Table::new("Shutdown: from SIGTERM to the 503 of waiting requests", &columns);
    for waiting in WAITING {
        let mut millis = Vec::new();
        for _ in 0..bench.rounds() {
            millis.extend(end(bench, bench.count(waiting)).await?);
        }
        let [p50, p99, most] = [500, 990, 1000].map(|share| percentile(&millis, share));
        let who = format!("{} waiting", bench.count(waiting));
        table.target(format!("SIGTERM to the last 503, {who}, ms"), MILLIS_MAX, most);
        table.push_all(who, [bench.rounds() as f64, p50, p99, most]);
    }
    Ok(table)
}

/// Ends a gateway with so many waiting requests; milliseconds from the signal to each response.
async fn end(bench: &mut Bench, waiting: usize) -> Result<Vec<f64>> {
    let origin = Origin::start(Behaviour { delay: Some(NEVER), ..Behaviour::default() })?;
    let proxy = bench.fixture.start(&Proxy::ours("gateway", patient()), origin.address).await?;
    let request = Request::chat(false, "");
    let mut holder = Client::connect(proxy.address).await?;
    holder.send(&request).await?;
    // The place is taken before the others come.
    while origin.in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    let mut clients = Vec::with_capacity(waiting);
    for _ in 0..waiting {
        let mut client = Client::connect(proxy.address).await?;
        client.send(&request).await?;
        clients.push(client);
    }
    await_depth(proxy.address, waiting).await?;
    let began = Instant::now();
    proxy.signal("TERM")?;
    let mut ending = JoinSet::new();
    for mut client in clients {
        ending.spawn_local(async move { client.receive(began).await });
    }
    let mut millis = Vec::with_capacity(waiting);
    while let Some(ended) = ending.join_next().await {
        let answer = ended??;
        ensure!(answer.status == 503, "{} at the end instead of 503", answer.status);
        millis.push(answer.total.as_secs_f64() * 1e3);
    }
    Ok(millis)
}
