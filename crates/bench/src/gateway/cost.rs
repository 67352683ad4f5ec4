//! What a request costs in processor time, beside the floor and nginx.
//!
//! The same machine gives the same binary a third more or less from one minute to the next. So all
//! take turns, round by round, each keeping a core of its own busy; what counts is the ratio within
//! a round, and of those the median.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::load::{ClosedLoop, Request};
use super::origin::{Behaviour, EVENTS, Origin};
use super::proxies::Proxy;
use super::report::{Column, Figures, Promise, Row, median};
use super::settings::{flow_control, logged, queue_off};

const CLIENTS: usize = 64;
const STREAMS: usize = 256;
const PROMPT: usize = 16 << 10;
const PACE: Duration = Duration::from_millis(20);
const WARM: Duration = Duration::from_millis(100);
/// Rounds are short, because the machine is another one every few seconds.
const SHORT: Duration = Duration::from_millis(250);
/// Longer than a stream that keeps to a pace.
const LONG: Duration = Duration::from_millis(1500);
const FLOOR_RATIO_MAX: f64 = 1.25;
const CHUNK_MICROS_MAX: f64 = 10.0;

const OURS: &str = "gateway";
const FLOOR: &str = "floor";

/// What was found of one who was measured, round by round.
struct Found {
    who: &'static str,
    /// Processor time per answer, each event of a stream counted as one.
    micros: Vec<f64>,
    /// Answers per second.
    rates: Vec<f64>,
}

/// POST of a kilobyte, answered with a small JSON.
pub(crate) async fn post(bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
    let peers = [
        Proxy::ours(OURS, flow_control()),
        Proxy::ours("gateway, queue off", queue_off()),
        Proxy::ours("gateway, access log", logged()),
    ];
    let request = Request::chat(false, "");
    let crowd = ClosedLoop { clients: CLIENTS, request, warm: WARM, counted: SHORT };
    let found = in_turns(bench, &peers, &crowd, Behaviour::default()).await?;
    let columns = columns("CPU µs/request", "requests/s");
    let rows = found.iter().map(|one| one.row(&found)).collect();
    let title = "A request: POST of 1 KB, 64 connections".to_owned();
    let target = "CPU per request over a bare hyper proxy's";
    let promise = Promise::new(target, FLOOR_RATIO_MAX, ratio(&found, OURS));
    Ok((Figures { name: "post", title, columns, rows }, vec![promise]))
}

/// POST of a prompt as agents send them.
pub(crate) async fn prompt(bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
    let request = Request::chat_of(PROMPT, false, "");
    let crowd = ClosedLoop { clients: CLIENTS, request, warm: WARM, counted: SHORT };
    let ours = [Proxy::ours(OURS, flow_control())];
    let found = in_turns(bench, &ours, &crowd, Behaviour::default()).await?;
    let columns = columns("CPU µs/request", "requests/s");
    let rows = found.iter().map(|one| one.row(&found)).collect();
    let title = "A request with a long prompt: POST of 16 KB, 64 connections".to_owned();
    Ok((Figures { name: "prompt", title, columns, rows }, Vec::new()))
}

/// A stream of events, as fast as it goes.
pub(crate) async fn stream(bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
    let request = Request::chat(true, "");
    let crowd = ClosedLoop { clients: CLIENTS, request, warm: WARM, counted: SHORT };
    let (found, figures) = streamed(bench, "stream", &crowd, Behaviour::default()).await?;
    let ours = found.iter().find(|one| one.who == OURS).map(|one| median(&one.micros));
    let micros = ours.unwrap_or(f64::NAN);
    Ok((figures, vec![Promise::new("CPU µs per streamed event", CHUNK_MICROS_MAX, micros)]))
}

/// Streams at the pace of an engine: every event is a wakeup of its own.
pub(crate) async fn paced(bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
    let request = Request::chat(true, "");
    let crowd = ClosedLoop { clients: STREAMS, request, warm: WARM, counted: LONG };
    let manner = Behaviour { pace: Some(PACE), ..Behaviour::default() };
    let (_, figures) = streamed(bench, "paced", &crowd, manner).await?;
    Ok((figures, Vec::new()))
}

async fn streamed(
    bench: &mut Bench,
    name: &'static str,
    crowd: &ClosedLoop,
    manner: Behaviour,
) -> Result<(Vec<Found>, Figures)> {
    let found = in_turns(bench, &[Proxy::ours(OURS, flow_control())], crowd, manner).await?;
    let rows = found.iter().map(|one| one.row(&found)).collect();
    let pace = match manner.pace {
        Some(pace) => format!("one every {} ms", pace.as_millis()),
        None => "as fast as they go".to_owned(),
    };
    let title = format!("A streamed event: {EVENTS} a stream, {} streams, {pace}", crowd.clients);
    let columns = columns("CPU µs/event", "events/s");
    Ok((found, Figures { name, title, columns, rows }))
}

/// Measures `ours`, the floor and nginx by turns.
async fn in_turns(
    bench: &mut Bench,
    ours: &[Proxy],
    crowd: &ClosedLoop,
    manner: Behaviour,
) -> Result<Vec<Found>> {
    let origin = Origin::start(manner)?;
    let mut proxies = Vec::new();
    for peer in ours.iter().chain(&Proxy::others(None)) {
        proxies.push(bench.fixture.start(peer, origin.address).await?);
    }
    let new = |who| Found { who, micros: Vec::new(), rates: Vec::new() };
    let mut found: Vec<Found> = proxies.iter().map(|proxy| new(proxy.name)).collect();
    let rounds = if crowd.counted == SHORT { bench.many() } else { bench.rounds() };
    for round in 0..rounds {
        for turn in 0..proxies.len() {
            // Nobody is always first.
            let at = (turn + round) % proxies.len();
            let stretch = crowd.run(&proxies[at], &origin).await?;
            let sent = stretch.sent as f64;
            found[at].micros.push(stretch.cpu_micros / sent);
            found[at].rates.push(sent / stretch.seconds);
        }
    }
    Ok(found)
}

fn columns(cost: &'static str, rate: &'static str) -> Vec<Column> {
    let column = |head, decimals| Column { head, decimals };
    vec![column(cost, 1), column("least", 1), column("× floor", 2), column(rate, 0)]
}

/// The median over the rounds of the processor time per answer over the floor's.
fn ratio(found: &[Found], who: &str) -> f64 {
    let of = |who| found.iter().find(|one| one.who == who);
    let (Some(one), Some(floor)) = (of(who), of(FLOOR)) else { return f64::NAN };
    let ratios = one.micros.iter().zip(&floor.micros).map(|(one, floor)| one / floor);
    median(&ratios.collect::<Vec<_>>())
}

// === impl Found ===

impl Found {
    fn row(&self, all: &[Self]) -> Row {
        let least = self.micros.iter().copied().fold(f64::INFINITY, f64::min);
        let figures = [median(&self.micros), least, ratio(all, self.who), median(&self.rates)];
        Row::new(self.who, figures.map(Some).to_vec())
    }
}
