//! Throughput under full load: CPU time of picker and Envoy for each request.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::envoy_setup::{ALONE, EnvoySetup, OURS, setups};
use crate::gateway::load::{Client, Request};
use crate::gateway::origin::{Behaviour, EVENTS, Origin};
use crate::report::{Table, median, percentile};
use crate::runner::{Bench, turns};

const CLIENTS: usize = 64;
const BODY: usize = 2 << 10;
const PROMPT: usize = 220_000;
const WARM: Duration = Duration::from_millis(200);
const COUNTED_SECONDS: f64 = 1.0;

const PICKER_MICROS_MAX: f64 = 100.0;
/// What the existing picker does with 100 clients (llm-d-router, pull request 2024).
const PUBLISHED_RATE: f64 = 388.0;
const TIMES_PUBLISHED: f64 = 10.0;
/// Long prompts in a second, unless Envoy alone does fewer.
const PROMPTS_MIN: f64 = 1000.0;

/// What was found of one setup, round by round.
#[derive(Debug, Default)]
struct Found {
    rates: Vec<f64>,
    picker_micros: Vec<f64>,
    envoy_micros: Vec<f64>,
    p50s: Vec<f64>,
    p99s: Vec<f64>,
}

/// A request, and the unit that is counted.
struct Throughput {
    title: String,
    request: Request,
    /// How many counted units one response has.
    parts: f64,
    heads: [&'static str; 3],
}

const REQUESTS: [&str; 3] = ["picker CPU µs/request", "Envoy CPU µs/request", "requests/s"];
const EVENT: [&str; 3] = ["picker CPU µs/event", "Envoy CPU µs/event", "events/s"];
const RATE: usize = 2;

/// POST of two kilobytes, answered with a small JSON.
pub(crate) async fn post(bench: &mut Bench) -> Result<Table> {
    let title = format!("A request: POST of 2 KB through Envoy, {CLIENTS} connections");
    let request = Request::chat_of(BODY, false, "");
    let mut table =
        Throughput { title, request, parts: 1.0, heads: REQUESTS }.measure(bench).await?;
    let (micros, rate) = (table.figure(OURS, 0), table.figure(OURS, RATE));
    table.target("picker CPU µs per request", PICKER_MICROS_MAX, micros);
    let times = "388 requests/s, published of the existing picker, over ours";
    table.target(times, 1.0 / TIMES_PUBLISHED, PUBLISHED_RATE / rate);
    Ok(table)
}

/// POST of a prompt that fills a context.
pub(crate) async fn prompt(bench: &mut Bench) -> Result<Table> {
    let title = format!("A long prompt: POST of 220 KB through Envoy, {CLIENTS} connections");
    let request = Request::chat_of(PROMPT, false, "");
    let mut table =
        Throughput { title, request, parts: 1.0, heads: REQUESTS }.measure(bench).await?;
    let wanted = PROMPTS_MIN.min(table.figure(ALONE, RATE));
    let what = "1000 requests/s of 220 KB, or what Envoy alone does, over ours";
    let over = wanted / table.figure(OURS, RATE);
    table.target(what, 1.0, over);
    Ok(table)
}

/// A stream of events, as fast as it goes.
pub(crate) async fn stream(bench: &mut Bench) -> Result<Table> {
    let title = format!("A streamed event: {EVENTS} a stream through Envoy, {CLIENTS} connections");
    let request = Request::chat(true, "");
    Throughput { title, request, parts: EVENTS as f64, heads: EVENT }.measure(bench).await
}

// === impl Throughput ===

impl Throughput {
    /// Measures every setup in turn.
    async fn measure(self, bench: &mut Bench) -> Result<Table> {
        let origin = Origin::start(Behaviour::default())?;
        let setups = setups(bench, &origin).await?;
        let mut found: Vec<Found> = setups.iter().map(|_| Found::default()).collect();
        let counted = bench.seconds(COUNTED_SECONDS);
        for round in 0..bench.rounds() {
            for at in turns(setups.len(), round) {
                self.turn(&setups[at], counted, &mut found[at]).await?;
            }
        }
        let [picker, envoy, rate] = self.heads;
        let columns = [(picker, 1), (envoy, 1), (rate, 0), ("p50 ms", 2), ("p99 ms", 2)];
        let mut table = Table::new(self.title, &columns);
        for (setup, found) in setups.iter().zip(&found) {
            let picker = setup.picker.as_ref().map(|_| median(&found.picker_micros));
            let others = [&found.envoy_micros, &found.rates, &found.p50s, &found.p99s];
            let others = others.map(|values| Some(median(values)));
            table.push(setup.name, [vec![picker], others.to_vec()].concat());
        }
        Ok(table)
    }

    async fn turn(&self, setup: &EnvoySetup, counted: Duration, found: &mut Found) -> Result<()> {
        let over = Rc::new(Cell::new(false));
        let answers = Rc::new(RefCell::new(Vec::new()));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (over, answers) = (Rc::clone(&over), Rc::clone(&answers));
            clients.spawn_local(again(setup.envoy.address, self.request.clone(), over, answers));
        }
        tokio::time::sleep(WARM).await;
        answers.borrow_mut().clear();
        let (began, [envoy, picker]) = (Instant::now(), setup.cpu_micros()?);
        tokio::time::sleep(counted).await;
        let [envoy_after, picker_after] = setup.cpu_micros()?;
        let (seconds, millis) = (began.elapsed().as_secs_f64(), answers.take());
        over.set(true);
        while let Some(ended) = clients.join_next().await {
            ended?.with_context(|| format!("a client of {}", setup.name))?;
        }
        let parts = self.parts * millis.len() as f64;
        found.rates.push(parts / seconds);
        found.envoy_micros.push((envoy_after - envoy) / parts);
        found.picker_micros.push((picker_after - picker) / parts);
        found.p50s.push(median(&millis));
        found.p99s.push(percentile(&millis, 990));
        Ok(())
    }
}

/// Asks until it is over, and notes how many milliseconds each answer took.
async fn again(
    address: SocketAddr,
    request: Request,
    over: Rc<Cell<bool>>,
    answers: Rc<RefCell<Vec<f64>>>,
) -> Result<()> {
    let mut client = Client::connect(address).await?;
    while !over.get() {
        let answer = client.ask_well(&request).await?;
        answers.borrow_mut().push(answer.total.as_secs_f64() * 1e3);
    }
    Ok(())
}
