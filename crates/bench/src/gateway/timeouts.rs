//! How late a client hears that its time in the queue is over (Q08).
//!
//! One request holds the only place, so that every other one waits for its whole time to live. It
//! is late by what its client measures beyond that time, the way there and back included.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::load::{Client, Request};
use super::origin::{Behaviour, Origin};
use super::process::Process;
use super::proxies::Proxy;
use super::settings::{SHORT_TTL, patient, short_lived};
use crate::report::{Table, percentile};
use crate::runner::Bench;

const NEVER: Duration = Duration::from_secs(3600);
const REQUESTS: usize = 5000;
/// As many as may wait by default.
const CAPACITY: usize = 1000;
/// Requests are sent this far apart.
const EVERY: Duration = Duration::from_micros(500);
/// When all wait until the same moment: this long after the first of them.
const TOGETHER: Duration = Duration::from_secs(5);
const LATE_MILLIS_MAX: f64 = 200.0;

/// The time to live of the request with this number.
type Ttl = fn(u32) -> Duration;

const fn apart(_: u32) -> Duration {
    SHORT_TTL
}

fn together(number: u32) -> Duration {
    TOGETHER - EVERY * number
}

/// The lateness of the responses to requests that expire.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let columns = [("requests", 0), ("p50 ms", 2), ("p99 ms", 2), ("p99.9 ms", 2), ("most ms", 2)];
    let title = "Timeouts: how long after the end of its time to live a client has its 503";
    let mut table = Table::new(title, &columns);
    let runs = [
        ("2000 deadlines a second", REQUESTS, short_lived(), apart as Ttl),
        ("a full queue at the same moment", CAPACITY, patient(), together),
        ("five times as many", REQUESTS, patient(), together),
    ];
    for (who, count, config, ttl) in runs {
        let count = bench.count(count);
        let origin = Origin::start(Behaviour { delay: Some(NEVER), ..Behaviour::default() })?;
        let proxy = bench.fixture.start(&Proxy::ours("gateway", config), origin.address).await?;
        let mut holder = Client::connect(proxy.address).await?;
        holder.send(&Request::chat(false, "")).await?;
        while origin.in_flight() == 0 {
            tokio::task::yield_now().await;
        }
        let late = expire(&proxy, count, ttl).await?;
        let [p50, p99, p999, most] = [500, 990, 999, 1000].map(|share| percentile(&late, share));
        table.push_all(who, [late.len() as f64, p50, p99, p999, most]);
        table.target(format!("most ms late, {who}"), LATE_MILLIS_MAX, most);
    }
    Ok(table)
}

/// Milliseconds that each of so many requests was late.
async fn expire(proxy: &Process, count: usize, ttl: Ttl) -> Result<Vec<f64>> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        clients.push(Client::connect(proxy.address).await?);
    }
    let began = Instant::now();
    let mut waiting = JoinSet::new();
    for (number, client) in (0..).zip(clients) {
        waiting.spawn_local(lateness(client, began + EVERY * number, ttl(number)));
    }
    let mut late = Vec::with_capacity(count);
    while let Some(ended) = waiting.join_next().await {
        late.push(ended??);
    }
    Ok(late)
}

/// Milliseconds from the end of the time to live to the end of the response.
async fn lateness(mut client: Client, due: Instant, ttl: Duration) -> Result<f64> {
    let request =
        Request::chat(false, &format!("x-llm-d-inference-ttl: {}us\r\n", ttl.as_micros()));
    tokio::time::sleep_until(due).await;
    let answer = client.ask(&request).await?;
    ensure!(answer.status == 503, "{} where a request had to expire", answer.status);
    ensure!(answer.total >= ttl, "a request expired after {:?}, not {ttl:?}", answer.total);
    Ok((answer.total - ttl).as_secs_f64() * 1e3)
}
