//! A request at a busy server, with few clients and with many: it passes the queue by, or it waits
//! in the queue of the default configuration. Beside it the proxies that have no queue.

use anyhow::Result;

use super::cost::{SHORT, load};
use super::load::Request;
use super::measured::{Measured, play, table};
use super::origin::{Behaviour, Origin};
use super::proxies::{HAPROXY, Proxy, has_haproxy};
use super::settings::{passing, waiting};
use crate::report::Table;
use crate::runner::Bench;

const CLIENTS: [usize; 3] = [64, 256, 1000];
const PASSING: &str = "gateway, passing";
const WAITING: &str = "gateway, waiting";
const PASSING_MAX: f64 = 1.35;
const WAITING_MAX: f64 = 1.6;

/// The same request through so many connections.
pub(crate) async fn few(bench: &mut Bench) -> Result<Table> {
    measure(bench, CLIENTS[0]).await
}

/// See [`few`].
pub(crate) async fn more(bench: &mut Bench) -> Result<Table> {
    measure(bench, CLIENTS[1]).await
}

/// See [`few`].
pub(crate) async fn many(bench: &mut Bench) -> Result<Table> {
    measure(bench, CLIENTS[2]).await
}

async fn measure(bench: &mut Bench, clients: usize) -> Result<Table> {
    let origin = Origin::start(Behaviour::default())?;
    let mut peers = Proxy::others(None);
    peers.push(Proxy::ours(PASSING, passing(origin.address.port())));
    peers.push(Proxy::ours(WAITING, waiting(origin.address.port())));
    let mut all = Vec::new();
    for peer in peers {
        let load = load(clients, Request::chat(false, "x-team: blue\r\n"), SHORT);
        all.push(Measured::start(bench, &origin, &peer, load).await?);
    }
    play(bench, &mut all, &origin).await?;
    let title = format!("A request at a busy server: POST of 1 KB, {clients} connections");
    let mut table = table(title, &all, HAPROXY);
    if has_haproxy() {
        let limits = [(PASSING, PASSING_MAX), (WAITING, WAITING_MAX)];
        let passing_counts = clients == CLIENTS[0];
        for (who, limit) in limits.into_iter().filter(|(who, _)| passing_counts || *who == WAITING)
        {
            let ratio = table.figure(who, 2);
            table.target(format!("CPU of {who}, {clients} clients, over HAProxy's"), limit, ratio);
        }
    }
    Ok(table)
}
