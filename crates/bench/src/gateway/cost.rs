//! What a request costs in processor time, beside the floor and nginx.
//!
//! The same machine gives the same binary a third more or less from one minute to the next. So all
//! take turns, round by round, each keeping a core of its own busy; what counts is the ratio within
//! a round, and of those the median.

use std::time::Duration;

use anyhow::Result;

use super::dialing::Dialing;
use super::load::{ClosedLoop, Request, Stretch};
use super::origin::{Behaviour, EVENTS, Origin};
use super::proxies::{HAPROXY, Proxy, has_haproxy};
use super::settings::{flow_control, logged, queue_off};
use crate::report::{Table, median};
use crate::runner::{Bench, turns};

pub(super) const CLIENTS: usize = 64;
const STREAMS: usize = 256;
const PROMPT: usize = 16 << 10;
const PACE: Duration = Duration::from_millis(20);
const WARM: Duration = Duration::from_millis(100);
/// Rounds are short, because the machine is another one every few seconds.
pub(super) const SHORT: Duration = Duration::from_millis(250);
/// Longer than a stream that keeps to a pace.
const LONG: Duration = Duration::from_millis(1500);
const FLOOR_RATIO_MAX: f64 = 1.25;
const CHUNK_MICROS_MAX: f64 = 10.0;
const CHUNK_RATIO_MAX: f64 = 2.5;

const OURS: &str = "gateway";
const FLOOR: &str = "floor";

/// What was found of one who was measured, round by round.
pub(super) struct Found {
    pub(super) who: &'static str,
    /// Processor time per answer, each event of a stream counted as one.
    pub(super) micros: Vec<f64>,
    /// Answers per second.
    pub(super) rates: Vec<f64>,
}

// === impl Found ===

impl Found {
    pub(super) fn new(who: &'static str) -> Self {
        Self { who, micros: Vec::new(), rates: Vec::new() }
    }

    pub(super) fn add(&mut self, stretch: Stretch) {
        let sent = stretch.sent as f64;
        self.micros.push(stretch.cpu_micros / sent);
        self.rates.push(sent / stretch.seconds);
    }
}

/// POST of a kilobyte, answered with a small JSON.
pub(crate) async fn post(bench: &mut Bench) -> Result<Table> {
    let peers = [
        Proxy::ours(OURS, flow_control()),
        Proxy::ours("gateway, queue off", queue_off()),
        Proxy::ours("gateway, access log", logged()),
    ];
    let load = load(CLIENTS, Request::chat(false, ""), SHORT);
    let found = in_turns(bench, &peers, &load, Behaviour::default()).await?;
    let mut table = requests("A request: POST of 1 KB, 64 connections", &found);
    let over_floor = ratio(&found, OURS, FLOOR);
    table.target("CPU per request over a bare hyper proxy's", FLOOR_RATIO_MAX, over_floor);
    Ok(table)
}

/// POST of a prompt as agents send them.
pub(crate) async fn prompt(bench: &mut Bench) -> Result<Table> {
    let load = load(CLIENTS, Request::chat_of(PROMPT, false, ""), SHORT);
    let ours = [Proxy::ours(OURS, flow_control())];
    let found = in_turns(bench, &ours, &load, Behaviour::default()).await?;
    Ok(requests("A request with a long prompt: POST of 16 KB, 64 connections", &found))
}

/// A stream of events, as fast as it goes.
pub(crate) async fn stream(bench: &mut Bench) -> Result<Table> {
    let load = load(CLIENTS, Request::chat(true, ""), SHORT);
    let (mut table, found) = streamed(bench, &load, Behaviour::default()).await?;
    let micros = table.figure(OURS, 0);
    table.target("CPU µs per streamed event", CHUNK_MICROS_MAX, micros);
    if has_haproxy() {
        let over = ratio(&found, OURS, HAPROXY);
        table.target("CPU per streamed event over HAProxy's", CHUNK_RATIO_MAX, over);
    }
    Ok(table)
}

/// Streams at the pace of an engine: every event is a wakeup of its own.
pub(crate) async fn paced(bench: &mut Bench) -> Result<Table> {
    let load = load(STREAMS, Request::chat(true, ""), LONG);
    let behaviour = Behaviour { pace: Some(PACE), ..Behaviour::default() };
    Ok(streamed(bench, &load, behaviour).await?.0)
}

pub(super) fn load(clients: usize, request: Request, counted: Duration) -> ClosedLoop {
    ClosedLoop { clients, request, dialing: Dialing::default(), warm: WARM, counted }
}

async fn streamed(
    bench: &mut Bench,
    load: &ClosedLoop,
    behaviour: Behaviour,
) -> Result<(Table, Vec<Found>)> {
    let found = in_turns(bench, &[Proxy::ours(OURS, flow_control())], load, behaviour).await?;
    let pace = match behaviour.pace {
        Some(pace) => format!("one every {} ms", pace.as_millis()),
        None => "as fast as they go".to_owned(),
    };
    let title = format!("A streamed event: {EVENTS} a stream, {} streams, {pace}", load.clients);
    Ok((table(title, ["CPU µs/event", "events/s"], &found), found))
}

fn requests(title: &str, found: &[Found]) -> Table {
    table(title.to_owned(), ["CPU µs/request", "requests/s"], found)
}

fn table(title: String, [cost, rate]: [&'static str; 2], found: &[Found]) -> Table {
    let mut table = Table::new(title, &[(cost, 1), ("least", 1), ("× floor", 2), (rate, 0)]);
    for one in found {
        let least = one.micros.iter().copied().fold(f64::INFINITY, f64::min);
        let over_floor = ratio(found, one.who, FLOOR);
        table.push_all(one.who, [median(&one.micros), least, over_floor, median(&one.rates)]);
    }
    table
}

/// Measures `ours`, the floor and nginx by turns.
async fn in_turns(
    bench: &mut Bench,
    ours: &[Proxy],
    load: &ClosedLoop,
    behaviour: Behaviour,
) -> Result<Vec<Found>> {
    let origin = Origin::start(behaviour)?;
    let mut proxies = Vec::new();
    for peer in ours.iter().chain(&Proxy::others(None)) {
        proxies.push(bench.fixture.start(peer, origin.address).await?);
    }
    let mut found: Vec<Found> = proxies.iter().map(|proxy| Found::new(proxy.name)).collect();
    let rounds = if load.counted == SHORT { 3 * bench.rounds() } else { bench.rounds() };
    for round in 0..rounds {
        for at in turns(proxies.len(), round) {
            found[at].add(load.run(&proxies[at], &origin).await?);
        }
    }
    Ok(found)
}

/// The median over the rounds of the processor time per answer over that of another one.
fn ratio(found: &[Found], who: &str, beside: &str) -> f64 {
    let of = |who| found.iter().find(|one| one.who == who);
    let (Some(one), Some(other)) = (of(who), of(beside)) else { return f64::NAN };
    let ratios = one.micros.iter().zip(&other.micros).map(|(one, other)| one / other);
    median(&ratios.collect::<Vec<_>>())
}
