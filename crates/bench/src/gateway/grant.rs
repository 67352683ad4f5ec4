//! How long a place that became free stays empty while others wait for it.
//!
//! One request at the backend at a time and a line of clients behind it. The origin sees the gap
//! from the last byte of an answer to the next request: the answer's way back, the settlement, the
//! grant, and the next request's way. The floor with the same limit shows what the ways alone are.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::load::{ClosedLoop, Request};
use super::origin::{Behaviour, Origin};
use super::proxies::Proxy;
use super::report::{Column, Figures, Promise, Row, quantile};
use super::settings::one_at_a_time;

const CLIENTS: usize = 32;
const DELAY: Duration = Duration::from_millis(1);
const GAP_MILLIS_MAX: f64 = 1.0;
const OURS: &str = "gateway";

/// From a completion to the next grant.
pub(crate) async fn measure(bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
    let peers = [Proxy::ours(OURS, one_at_a_time()), Proxy::Floor { limit: Some(1) }];
    let mut proxies = Vec::new();
    for peer in &peers {
        let origin = Origin::start(Behaviour { delay: Some(DELAY), pace: None })?;
        proxies.push((bench.fixture.start(peer, origin.address).await?, origin, Vec::new()));
    }
    let crowd = ClosedLoop {
        clients: CLIENTS,
        request: Request::chat(false, ""),
        warm: Duration::from_millis(100),
        counted: bench.seconds(1.0),
    };
    for _ in 0..bench.rounds() {
        for (proxy, origin, gaps) in &mut proxies {
            crowd.run(proxy, origin).await?;
            gaps.extend(origin.gaps());
        }
    }
    let row = |(proxy, origin, gaps): &(super::process::Process, Origin, Vec<f64>)| {
        let millis = |share| Some(quantile(gaps, share) / 1e3);
        let most = Some(origin.in_flight_max() as f64);
        Row::new(proxy.name, vec![millis(0.5), millis(0.99), millis(1.0), most])
    };
    let rows: Vec<Row> = proxies.iter().map(row).collect();
    let p99 = rows.iter().find(|row| row.who == OURS).and_then(|row| row.figures[1]);
    let promise =
        Promise::new("completion to next grant, p99 ms", GAP_MILLIS_MAX, p99.unwrap_or(f64::NAN));
    let millis = |head| Column { head, decimals: 3 };
    let columns = vec![
        millis("p50 ms"),
        millis("p99 ms"),
        millis("most ms"),
        Column { head: "most at once", decimals: 0 },
    ];
    let title = "Completion to next grant: one place, 32 clients".to_owned();
    Ok((Figures { name: "grant", title, columns, rows }, vec![promise]))
}
