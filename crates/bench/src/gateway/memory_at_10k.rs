//! What clients cost in memory: none, ten thousand connections, and the same while each waits.

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
const WAITING_MEGABYTES_MAX: f64 = 150.0;
/// A client that waits, beyond its connection.
const WAIT_KILOBYTES_MAX: f64 = 6.0;
const IDLE_MEGABYTES_MAX: f64 = 20.0;
/// What waits is not to grow by itself; a page here and there is no drift.
const DRIFT_MEGABYTES_MAX: f64 = 1.0;
const OURS: &str = "gateway";
const OURS_KEPT: &str = "gateway, kept";
const FLOOR: &str = "floor";
const FLOOR_KEPT: &str = "floor, kept";

/// Megabytes in use at one time or another.
struct Memory {
    idle: f64,
    /// With connections on which nothing is asked.
    connected: f64,
    waiting: f64,
    later: f64,
    after: f64,
    /// How many waited according to the proxy itself.
    waited: Option<f64>,
}

/// Memory with ten thousand clients, and with none: clients that ask on new connections, and such
/// that have had a response before.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let hold = bench.seconds(5.0);
    let megabytes = ["idle MB", "connected MB", "waiting MB", "later MB", "gone MB"];
    let kilobytes = ["KB connected", "KB waiting", "KB each"];
    let heads = megabytes.into_iter().chain(kilobytes).map(|head| (head, 1));
    let columns: Vec<_> = heads.chain([("waiting", 0)]).collect();
    let mut table = Table::new(format!("Memory: {CLIENTS} waiting clients"), &columns);
    for (name, kept) in [(OURS, 0), (OURS_KEPT, CLIENTS), (FLOOR, 0), (FLOOR_KEPT, CLIENTS)] {
        let is_ours = [OURS, OURS_KEPT].contains(&name);
        let peer = match is_ours {
            true => Proxy::ours(name, patient()),
            false => Proxy::Floor { limit: Some(1) },
        };
        let behaviour = Behaviour { delay: Some(NEVER), at_once: kept, ..Behaviour::default() };
        let origin = Origin::start(behaviour)?;
        let proxy = bench.fixture.start(&peer, origin.address).await?;
        let memory = fill(&proxy, &origin, hold, (kept, is_ours)).await?;
        let Memory { idle, connected, waiting, later, after, .. } = memory;
        let each = |more: f64| more * 1024.0 / CLIENTS as f64;
        let (connection, wait) = (each(connected - idle), each(waiting - connected));
        let figures = [idle, connected, waiting, later, after, connection, wait, connection + wait];
        let figures: Vec<_> = figures.map(Some).into_iter().chain([memory.waited]).collect();
        table.push(name, figures);
        match name {
            OURS => {
                table.target("10 000 waiting clients, MB", WAITING_MEGABYTES_MAX, waiting);
                table.target("drift while they wait, MB", DRIFT_MEGABYTES_MAX, later - waiting);
                table.target("idle, MB", IDLE_MEGABYTES_MAX, idle);
            }
            OURS_KEPT => {
                table.target("a wait, beyond the connection, KB", WAIT_KILOBYTES_MAX, wait)
            }
            _ => {}
        }
    }
    Ok(table)
}

/// Clients of which the first `kept` have had a response.
async fn connect_all(proxy: &Process, request: &Request, kept: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(CLIENTS);
    for at in 0..CLIENTS {
        let mut client = Client::connect(proxy.address).await?;
        if at < kept {
            client.ask_well(request).await?;
        }
        clients.push(client);
    }
    Ok(clients)
}

async fn fill(
    proxy: &Process,
    origin: &Origin,
    hold: Duration,
    (kept, told): (usize, bool),
) -> Result<Memory> {
    let request = Request::chat(false, "");
    let idle = proxy.resident_megabytes()?;
    let mut clients = connect_all(proxy, &request, kept).await?;
    let connected = settled(proxy).await?;
    for client in &mut clients {
        client.send(&request).await?;
    }
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
    Ok(Memory { idle, connected, waiting, later, after, waited })
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
