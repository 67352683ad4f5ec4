//! The latency that a picker adds at low load: a thousand requests a second through Envoy, with the
//! picker and without.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::envoy_setup::{ALONE, setups};
use crate::gateway::load::{Client, Request};
use crate::gateway::origin::{Behaviour, Origin};
use crate::report::{Table, median, percentile};
use crate::runner::{Bench, turns};

const CLIENTS: u32 = 20;
/// Each client asks so often: a thousand a second together.
const EVERY: Duration = Duration::from_millis(20);
const BODY: usize = 2 << 10;
const SECONDS: f64 = 1.5;

/// The latency that a picker adds.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let origin = Origin::start(Behaviour::default())?;
    let setups = setups(bench, &origin).await?;
    let mut rounds = vec![Vec::new(); setups.len()];
    for round in 0..bench.rounds() {
        for at in turns(setups.len(), round) {
            let lasting = bench.seconds(SECONDS);
            rounds[at].push(paced(setups[at].envoy.address, lasting).await?);
        }
    }
    let heads = ["p50 ms", "p99 ms", "added p50", "added p99"];
    let title = "Latency through Envoy: POST of 2 KB, 1000 requests a second";
    let mut table = Table::new(title, &heads.map(|head| (head, 2)));
    let alone = setups.iter().position(|setup| setup.name == ALONE).unwrap_or_default();
    for (at, setup) in setups.iter().enumerate() {
        let own = |which: usize| -> Vec<f64> { rounds[at].iter().map(|it| it[which]).collect() };
        let added = |which: usize| {
            let pairs = rounds[at].iter().zip(&rounds[alone]);
            let more: Vec<f64> = pairs.map(|(own, alone)| own[which] - alone[which]).collect();
            (at != alone).then(|| median(&more))
        };
        table.push(setup.name, [Some(median(&own(0))), Some(median(&own(1))), added(0), added(1)]);
    }
    Ok(table)
}

/// Milliseconds that half of the answers did not exceed, and that 99 of 100 did not.
async fn paced(address: SocketAddr, lasting: Duration) -> Result<[f64; 2]> {
    let millis = Rc::new(RefCell::new(Vec::new()));
    let mut clients = JoinSet::new();
    let began = Instant::now();
    for number in 0..CLIENTS {
        let millis = Rc::clone(&millis);
        clients.spawn_local(async move {
            let mut client = Client::connect(address).await?;
            let request = Request::chat_of(BODY, false, "");
            let mut ticks = tokio::time::interval_at(began + EVERY / CLIENTS * number, EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            while began.elapsed() < lasting {
                ticks.tick().await;
                let answer = client.ask_well(&request).await?;
                millis.borrow_mut().push(answer.total.as_secs_f64() * 1e3);
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let millis = millis.take();
    Ok([median(&millis), percentile(&millis, 990)])
}
