//! Reads figures from a page of metrics.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::Instant;

use super::load::{Client, Request};

/// The gauge of waiting requests.
pub(crate) const QUEUE_DEPTH: &str = "nexus_queue_depth";

const LOOK_EVERY: Duration = Duration::from_millis(20);
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// The sum over the series of a metric; nothing if there is none.
pub(crate) fn sum(metrics: &str, name: &str) -> Option<f64> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let series = lines.filter(|rest| rest.starts_with(['{', ' ']));
    let values = series.map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
    values.reduce(|sum, value| Some(sum? + value?))?
}

/// Waits until so many requests wait according to the gateway.
pub(crate) async fn await_depth(address: SocketAddr, expected: usize) -> Result<f64> {
    let mut client = Client::connect(address).await?;
    let began = Instant::now();
    loop {
        let text = client.text(&Request::get("/metrics")).await?;
        let depth = sum(&text, QUEUE_DEPTH).context("/metrics has no nexus_queue_depth")?;
        if depth == expected as f64 {
            return Ok(depth);
        }
        if began.elapsed() > SETTLED_WITHIN {
            bail!("{depth} requests wait, not {expected}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
