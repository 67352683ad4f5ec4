//! How long a place that became free stays empty while others wait for it.
//!
//! One request at the backend at a time and a line of clients behind it. The origin sees the gap
//! from the last byte of an answer to the next request: the answer's way back, the settlement, the
//! grant, and the next request's way. The floor with the same limit shows what the ways alone are.

use std::time::Duration;

use anyhow::Result;

use super::dialing::Dialing;
use super::load::{ClosedLoop, Request};
use super::origin::{Behaviour, Origin};
use super::proxies::Proxy;
use super::settings::one_at_a_time;
use crate::report::{Table, percentile};
use crate::runner::Bench;

const CLIENTS: usize = 32;
const DELAY: Duration = Duration::from_millis(1);
const GAP_MILLIS_MAX: f64 = 1.0;
const OURS: &str = "gateway";

/// From a completion to the next grant.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let peers = [Proxy::ours(OURS, one_at_a_time()), Proxy::Floor { limit: Some(1) }];
    let mut proxies = Vec::new();
    for peer in &peers {
        let origin = Origin::start(Behaviour { delay: Some(DELAY), ..Behaviour::default() })?;
        proxies.push((bench.fixture.start(peer, origin.address).await?, origin, Vec::new()));
    }
    let load = ClosedLoop {
        clients: CLIENTS,
        request: Request::chat(false, ""),
        dialing: Dialing::default(),
        warm: Duration::from_millis(100),
        counted: bench.seconds(1.0),
    };
    for _ in 0..bench.rounds() {
        for (proxy, origin, gaps) in &mut proxies {
            load.run(proxy, origin).await?;
            gaps.extend(origin.gaps());
        }
    }
    let columns = [("p50 ms", 3), ("p99 ms", 3), ("most ms", 3), ("most at once", 0)];
    let mut table = Table::new("Completion to next grant: one place, 32 clients", &columns);
    for (proxy, origin, gaps) in &proxies {
        let [p50, p99, most] = [500, 990, 1000].map(|share| percentile(gaps, share) / 1e3);
        table.push_all(proxy.name, [p50, p99, most, origin.in_flight_max() as f64]);
    }
    let p99 = table.figure(OURS, 1);
    table.target("completion to next grant, p99 ms", GAP_MILLIS_MAX, p99);
    Ok(table)
}
