//! As many requests as go: what they cost picker and Envoy, and how many there are.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Bench;
use super::envoy_setup::{ALONE, EnvoySetup, OURS, setups};
use crate::gateway::load::{Client, Request};
use crate::gateway::origin::{Behaviour, EVENTS, Origin};
use crate::gateway::report::{Column, Figures, Promise, Row, median, quantile};

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

/// What is asked, and what is counted of it.
struct Throughput {
    name: &'static str,
    title: String,
    request: Request,
    /// How many of what is counted one answer has.
    parts: f64,
    heads: [&'static str; 3],
}

/// POST of two kilobytes, answered with a small JSON.
pub(crate) async fn post(bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
    let title = format!("A request: POST of 2 KB through Envoy, {CLIENTS} connections");
    let heads = ["picker CPU µs/request", "Envoy CPU µs/request", "requests/s"];
    let request = Request::chat_of(BODY, false, "");
    let rush = Throughput { name: "post", title, request, parts: 1.0, heads };
    let (figures, ours, _) = rush.run(bench).await?;
    let times = "388 requests/s, published of the existing picker, over ours";
    let promises = vec![
        Promise::new("picker CPU µs per request", PICKER_MICROS_MAX, median(&ours.picker_micros)),
        Promise::new(times, 1.0 / TIMES_PUBLISHED, PUBLISHED_RATE / median(&ours.rates)),
    ];
    Ok((figures, promises))
}

/// POST of a prompt that fills a context.
pub(crate) async fn prompt(bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
    let title = format!("A long prompt: POST of 220 KB through Envoy, {CLIENTS} connections");
    let heads = ["picker CPU µs/request", "Envoy CPU µs/request", "requests/s"];
    let request = Request::chat_of(PROMPT, false, "");
    let rush = Throughput { name: "prompt", title, request, parts: 1.0, heads };
    let (figures, ours, alone) = rush.run(bench).await?;
    let wanted = PROMPTS_MIN.min(median(&alone.rates));
    let what = "1000 requests/s of 220 KB, or what Envoy alone does, over ours";
    Ok((figures, vec![Promise::new(what, 1.0, wanted / median(&ours.rates))]))
}

/// A stream of events, as fast as it goes.
pub(crate) async fn stream(bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
    let title = format!("A streamed event: {EVENTS} a stream through Envoy, {CLIENTS} connections");
    let heads = ["picker CPU µs/event", "Envoy CPU µs/event", "events/s"];
    let request = Request::chat(true, "");
    let rush = Throughput { name: "stream", title, request, parts: EVENTS as f64, heads };
    let (figures, _, _) = rush.run(bench).await?;
    Ok((figures, Vec::new()))
}

// === impl Throughput ===

impl Throughput {
    /// Measures everybody by turns; also tells of us and of Envoy alone.
    async fn run(self, bench: &mut Bench) -> Result<(Figures, Found, Found)> {
        let origin = Origin::start(Behaviour::default())?;
        let setups = setups(bench, &origin).await?;
        let mut found: Vec<Found> = setups.iter().map(|_| Found::default()).collect();
        let counted = bench.seconds(COUNTED_SECONDS);
        for round in 0..bench.rounds() {
            for turn in 0..setups.len() {
                // Nobody is always first.
                let at = (turn + round) % setups.len();
                self.turn(&setups[at], counted, &mut found[at]).await?;
            }
        }
        let rows = setups.iter().zip(&found).map(|(setup, found)| found.row(setup)).collect();
        let column = |head, decimals| Column { head, decimals };
        let [picker, envoy, rate] = self.heads;
        let columns = vec![
            column(picker, 1),
            column(envoy, 1),
            column(rate, 0),
            column("p50 ms", 2),
            column("p99 ms", 2),
        ];
        let mut take = |name| {
            let at = setups.iter().position(|setup| setup.name == name);
            at.map(|at| std::mem::take(&mut found[at])).context(name)
        };
        let (ours, alone) = (take(OURS)?, take(ALONE)?);
        Ok((Figures { name: self.name, title: self.title, columns, rows }, ours, alone))
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
        found.p99s.push(quantile(&millis, 0.99));
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

// === impl Found ===

impl Found {
    fn row(&self, setup: &EnvoySetup) -> Row {
        let figures = vec![
            setup.picker.as_ref().map(|_| median(&self.picker_micros)),
            Some(median(&self.envoy_micros)),
            Some(median(&self.rates)),
            Some(median(&self.p50s)),
            Some(median(&self.p99s)),
        ];
        Row::new(setup.name, figures)
    }
}
