//! How long a decision takes, from the last byte of a request to the endpoint: the picker alone,
//! spoken to as Envoy does, a thousand requests a second.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::envoy_setup::{OURS, beside, ours};
use super::grpc::Caller;
use crate::gateway::load::Request;
use crate::gateway::origin::{Behaviour, Origin};
use crate::gateway::process::Process;
use crate::report::{Table, median, percentile};
use crate::runner::Bench;

const EVERY: Duration = Duration::from_millis(1);
const BODY: usize = 2 << 10;
const SECONDS: f64 = 2.0;
const P99_MILLIS_MAX: f64 = 5.0;

/// What was found in one round: milliseconds, and processor time.
struct Round {
    p50: f64,
    p99: f64,
    micros: f64,
}

/// The time that decisions take.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let origin = Origin::start(Behaviour::default())?;
    let mut pickers = vec![ours(bench, origin.address).await?];
    pickers.extend(beside(bench, origin.address).await?);
    let mut rounds: Vec<Vec<Round>> = pickers.iter().map(|_| Vec::new()).collect();
    for _ in 0..bench.rounds() {
        for (picker, rounds) in pickers.iter().zip(&mut rounds) {
            rounds.push(round(picker, bench.seconds(SECONDS)).await?);
        }
    }
    let columns = [("p50 ms", 3), ("p99 ms", 3), ("picker CPU µs/request", 1)];
    let title = "A decision: 1000 requests of 2 KB a second, without Envoy";
    let mut table = Table::new(title, &columns);
    for (picker, rounds) in pickers.iter().zip(&rounds) {
        let own = |pick: fn(&Round) -> f64| median(&rounds.iter().map(pick).collect::<Vec<_>>());
        let figures = [own(|round| round.p50), own(|round| round.p99), own(|round| round.micros)];
        table.push_all(picker.name, figures);
    }
    let p99 = table.figure(OURS, 1);
    table.target("p99 of a decision, ms", P99_MILLIS_MAX, p99);
    Ok(table)
}

/// Asks at its pace, whether or not the ones before have been answered.
async fn round(picker: &Process, lasting: Duration) -> Result<Round> {
    let body = Request::chat_of(BODY, false, "").body();
    let caller = Caller::connect(picker.address, Bytes::from(body)).await?;
    caller.ask().await?;
    let millis = Rc::new(RefCell::new(Vec::new()));
    let mut asked = JoinSet::new();
    let (began, cpu) = (Instant::now(), picker.cpu_nanos()?);
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while began.elapsed() < lasting {
        ticks.tick().await;
        let (caller, millis) = (caller.clone(), Rc::clone(&millis));
        asked.spawn_local(async move {
            let decided = caller.ask().await?;
            millis.borrow_mut().push(decided.as_secs_f64() * 1e3);
            anyhow::Ok(())
        });
    }
    while let Some(ended) = asked.join_next().await {
        ended??;
    }
    let (millis, nanos) = (millis.take(), picker.cpu_nanos()? - cpu);
    let micros = nanos as f64 / 1e3 / millis.len() as f64;
    Ok(Round { p50: median(&millis), p99: percentile(&millis, 990), micros })
}
