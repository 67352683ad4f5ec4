//! Proxies that are measured by turns, each with clients of its own.

use std::net::SocketAddr;

use anyhow::Result;

use super::cost::Found;
use super::load::ClosedLoop;
use super::origin::Origin;
use super::process::Process;
use super::proxies::Proxy;
use crate::report::{Table, median};
use crate::runner::{Bench, turns};

/// A proxy, its clients, and what was found.
pub(super) struct Measured {
    proxy: Process,
    load: ClosedLoop,
    found: Found,
}

/// Measures all of them by turns.
pub(super) async fn play(bench: &Bench, all: &mut [Measured], origin: &Origin) -> Result<()> {
    for round in 0..3 * bench.rounds() {
        for at in turns(all.len(), round) {
            let Measured { proxy, load, found } = &mut all[at];
            found.add(load.run(proxy, origin).await?);
        }
    }
    Ok(())
}

/// One row for each, beside the one that is named.
pub(super) fn table(title: String, all: &[Measured], beside: &'static str) -> Table {
    let columns = [("CPU µs/request", 1), ("least", 1), ("× the first", 2), ("requests/s", 0)];
    let mut table = Table::new(title, &columns);
    let base = all.iter().find(|one| one.found.who == beside);
    for Measured { found, .. } in all {
        let least = found.micros.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = base.map_or(f64::NAN, |base| {
            let pairs = found.micros.iter().zip(&base.found.micros);
            median(&pairs.map(|(own, base)| own / base).collect::<Vec<_>>())
        });
        let (micros, rate) = (median(&found.micros), median(&found.rates));
        table.push_all(found.who, [micros, least, ratio, rate]);
    }
    table
}

// === impl Measured ===

impl Measured {
    pub(super) fn address(&self) -> SocketAddr {
        self.proxy.address
    }

    /// Starts a proxy in front of `origin`.
    pub(super) async fn start(
        bench: &mut Bench,
        origin: &Origin,
        peer: &Proxy,
        load: ClosedLoop,
    ) -> Result<Self> {
        let proxy = bench.fixture.start(peer, origin.address).await?;
        let found = Found::new(proxy.name);
        Ok(Self { proxy, load, found })
    }
}
