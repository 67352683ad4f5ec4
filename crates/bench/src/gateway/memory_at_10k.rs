//! What waiting clients cost in memory: ten thousand of them, and none.

use std::time::Duration;

use anyhow::{Result, bail};

use super::load::{Client, Request};
use super::metrics::await_depth;
use super::origin::{Behaviour, Origin};
use super::process::Process;
use super::proxies::Proxy;
use super::settings::patient;
use crate::report::Table;
use crate::runner::Bench;

const CLIENTS: usize = 10_000;
/// Longer than anyone waits here.
const NEVER: Duration = Duration::from_secs(3600);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
const WAITING_MEGABYTES_MAX: f64 = 250.0;
const IDLE_MEGABYTES_MAX: f64 = 20.0;
/// What waits is not to grow by itself; a page here and there is no drift.
const DRIFT_MEGABYTES_MAX: f64 = 1.0;
const OURS: &str = "gateway";

/// Megabytes in use at one time or another.
struct Memory {
    idle: f64,
    waiting: f64,
    later: f64,
    after: f64,
    /// How many waited according to the proxy itself.
    waited: Option<f64>,
}

/// Memory with ten thousand waiting clients, and with none.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let hold = bench.seconds(5.0);
    let heads = ["idle MB", "waiting MB", "later MB", "gone MB", "KB each"];
    let columns: Vec<_> = heads.map(|head| (head, 1)).into_iter().chain([("waiting", 0)]).collect();
    let mut table = Table::new(format!("Memory: {CLIENTS} waiting clients"), &columns);
    for peer in [Proxy::ours(OURS, patient()), Proxy::Floor { limit: Some(1) }] {
        let origin = Origin::start(Behaviour { delay: Some(NEVER), ..Behaviour::default() })?;
        let proxy = bench.fixture.start(&peer, origin.address).await?;
        let reports_depth = proxy.name == OURS;
        let memory = fill(&proxy, &origin, hold, reports_depth).await?;
        let Memory { idle, waiting, later, after, .. } = memory;
        let each = (waiting - idle) * 1024.0 / CLIENTS as f64;
        let megabytes = [idle, waiting, later, after, each].map(Some);
        let figures: Vec<_> = megabytes.into_iter().chain([memory.waited]).collect();
        table.push(proxy.name, figures);
        if reports_depth {
            table.target("10 000 waiting clients, MB", WAITING_MEGABYTES_MAX, waiting);
            table.target("drift while they wait, MB", DRIFT_MEGABYTES_MAX, later - waiting);
            table.target("idle, MB", IDLE_MEGABYTES_MAX, idle);
        }
    }
    Ok(table)
}

/// Clients that have each sent a request.
async fn send_all(proxy: &Process) -> Result<Vec<Client>> {
    let request = Request::chat(false, "");
    let mut clients = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let mut client = Client::connect(proxy.address).await?;
        client.send(&request).await?;
        clients.push(client);
    }
    Ok(clients)
}

async fn fill(proxy: &Process, origin: &Origin, hold: Duration, told: bool) -> Result<Memory> {
    let idle = proxy.resident_megabytes()?;
    let clients = send_all(proxy).await?;
    let waited = if told { Some(await_depth(proxy.address, CLIENTS - 1).await?) } else { None };
    let waiting = settled(proxy).await?;
    tokio::time::sleep(hold).await;
    let later = settled(proxy).await?;
    let at_once = origin.in_flight();
    if at_once != 1 {
        bail!("{} sent {at_once} requests to a backend that takes one", proxy.name);
    }
    drop(clients);
    if told {
        await_depth(proxy.address, 0).await?;
    }
    let after = settled(proxy).await?;
    Ok(Memory { idle, waiting, later, after, waited })
}

/// The memory in use once it has stopped changing.
async fn settled(proxy: &Process) -> Result<f64> {
    let mut before = f64::NAN;
    for _ in 0..SETTLED_WITHIN.as_millis() / LOOK_EVERY.as_millis() {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = proxy.resident_megabytes()?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
    bail!("the memory of {} does not settle", proxy.name)
}
