//! How exactly gates keep an engine at four fifths of its places, with endless batch work.
//!
//! The engine itself is asked every 50 ms how many requests it has, running or in line. It is
//! compared with the method of many dispatchers: workers that look at the same reading and send
//! while it is below the threshold.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::api::{Api, chat, lines};
use super::settings::{Gate, bounds, work};
use crate::gateway::load::{Client, Request};
use crate::gateway::process::{Process, Ready};
use crate::gateway::proxies::Proxy;
use crate::report::Table;
use crate::runner::Bench;
use testbed::engine::{Engine, Pace, Running, Settings};

const PLACES: u32 = 128;
const THRESHOLD: f64 = 0.8;
const AVERAGE_OFF_MAX: f64 = 0.02;
const SAMPLE_MAX: f64 = 0.9;

const SERVICE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];
const SAMPLED: f64 = 20.0;
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
const ACCEPTED_WITHIN: Duration = Duration::from_secs(60);
/// Workers of the binary gate: enough to overrun the engine.
const WORKERS: usize = 256;
const READ_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
enum Way {
    /// Our gateway in front, and its own gate.
    Gateway,
    /// Our dispatcher, which reads the engine's metrics so often.
    Scrape(Duration),
    /// Workers that all look at one reading.
    Binary,
}

/// What the engine had, as shares of its places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) average: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// How far from four fifths each gate keeps an engine.
pub(super) async fn measure(bench: &mut Bench) -> Result<Table> {
    let title = format!("Saturation of an engine with {PLACES} places, threshold {THRESHOLD}");
    let mut table = Table::new(title, &["average", "least", "most"].map(|head| (head, 3)));
    let mut ours = Vec::new();
    for way in Way::ALL {
        for service in SERVICE {
            let seen = way.play(bench, service).await?;
            let who = format!("{}, {} s each", way.name(), service.as_secs_f64());
            table.push_all(who, [seen.average, seen.least, seen.most]);
            if !matches!(way, Way::Binary) {
                ours.push(seen);
            }
        }
    }
    let off = ours.iter().map(|seen| (seen.average - THRESHOLD).abs()).fold(0.0, f64::max);
    let most = ours.iter().map(|seen| seen.most).fold(0.0, f64::max);
    table.target("average saturation off 0.8, our gates", AVERAGE_OFF_MAX, off);
    table.target("most saturation of any sample, our gates", SAMPLE_MAX, most);
    Ok(table)
}

// === impl Way ===

impl Way {
    const ALL: [Self; 4] = [
        Self::Gateway,
        Self::Scrape(Duration::from_secs(1)),
        Self::Scrape(Duration::from_millis(250)),
        Self::Binary,
    ];

    fn name(self) -> String {
        match self {
            Self::Gateway => "gateway".to_owned(),
            Self::Scrape(every) => format!("scrape every {} ms", every.as_millis()),
            Self::Binary => format!("binary, {WORKERS} workers"),
        }
    }

    async fn play(self, bench: &mut Bench, service: Duration) -> Result<Seen> {
        let engine = Engine::start(Settings {
            models: vec!["m".to_owned()],
            pace: Pace::Service { time: service, at_once: PLACES },
            ..Settings::default()
        })?;
        let sampled = bench.seconds(SAMPLED).max(2 * service);
        let Some(process) = self.start(bench, engine.address()).await? else {
            return overrun(&engine, (service, sampled)).await;
        };
        let lasts = warm(service) + sampled + ACCEPTED_WITHIN;
        let needed = f64::from(PLACES) * lasts.as_secs_f64() / service.as_secs_f64();
        let file = lines(needed as usize, || chat(64, 1, false));
        Api::at(process.address).await?.begin(&file, ACCEPTED_WITHIN).await?;
        tokio::time::sleep(warm(service)).await;
        let seen = sample(&engine, sampled).await?;
        drop(process);
        Ok(seen)
    }

    /// The process that has the gate; nothing for workers of our own.
    async fn start(self, bench: &mut Bench, engine: SocketAddr) -> Result<Option<Process>> {
        let folder = bench.fixture.file("batches");
        match self {
            Self::Gateway => {
                let gate = Gate::Gateway { baseline: 1.0 - THRESHOLD, rest: 0.0 };
                let config = work(&folder, gate, "best-effort", None);
                let config = config + &bounds(Some(PLACES as usize));
                bench.fixture.start(&Proxy::ours("gateway", config), engine).await.map(Some)
            }
            Self::Scrape(every) => {
                let gate = Gate::Scrape { engine, places: PLACES, every };
                let config = work(&folder, gate, "best-effort", Some(engine));
                start_dispatch(bench, &config).await.map(Some)
            }
            Self::Binary => Ok(None),
        }
    }
}

async fn start_dispatch(bench: &mut Bench, config: &str) -> Result<Process> {
    let (config, log) = (bench.fixture.written(config)?, bench.fixture.file("log"));
    let mut command = bench.fixture.cores.command(&bench.fixture.tidegate);
    command.args(["dispatch", "--config", &config, "--listen", "127.0.0.1:0"]);
    Process::start("dispatch", &mut command, &log, Ready::Says).await
}

/// Until the beginning is forgotten.
fn warm(service: Duration) -> Duration {
    Duration::from_secs(3) + 2 * service
}

/// Looks at the engine for so long.
async fn sample(engine: &Running, time: Duration) -> Result<Seen> {
    let (began, mut samples) = (Instant::now(), Vec::new());
    let mut ticks = tokio::time::interval(SAMPLE_EVERY);
    while began.elapsed() < time {
        ticks.tick().await;
        samples.push(saturation(engine));
    }
    if samples.iter().all(|&sample| sample == 0.0) {
        bail!("the engine had no work");
    }
    Ok(Seen::of(&samples))
}

fn saturation(engine: &Running) -> f64 {
    let counters = engine.control().counters();
    f64::from(counters.running + counters.waiting) / f64::from(PLACES)
}

/// What the engine has when workers share a reading.
async fn overrun(engine: &Running, times: (Duration, Duration)) -> Result<Seen> {
    let (service, sampled) = times;
    let (reading, over) = (Rc::new(Cell::new(0.0)), Rc::new(Cell::new(false)));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn_local(worker(engine.address(), Rc::clone(&reading), Rc::clone(&over)));
    }
    let read = async {
        let mut ticks = tokio::time::interval(READ_EVERY);
        loop {
            ticks.tick().await;
            reading.set(saturation(engine));
        }
    };
    let look = async {
        tokio::time::sleep(warm(service)).await;
        sample(engine, sampled).await
    };
    let seen = tokio::select! {
        seen = look => seen,
        () = read => bail!("readings never end"),
    };
    over.set(true);
    workers.abort_all();
    seen
}

/// Sends whenever the reading is below the threshold.
async fn worker(engine: SocketAddr, reading: Rc<Cell<f64>>, over: Rc<Cell<bool>>) -> Result<()> {
    let mut client = Client::connect(engine).await?;
    let body = chat(64, 1, false).to_string();
    let kind = "content-type: application/json\r\n";
    let request = Request::post("/v1/chat/completions", kind, body.as_bytes());
    while !over.get() {
        if reading.get() < THRESHOLD {
            client.ask_well(&request).await?;
        } else {
            tokio::time::sleep(SAMPLE_EVERY).await;
        }
    }
    Ok(())
}

// === impl Seen ===

impl Seen {
    pub(super) fn of(samples: &[f64]) -> Self {
        Self {
            average: samples.iter().sum::<f64>() / samples.len() as f64,
            least: samples.iter().copied().fold(f64::INFINITY, f64::min),
            most: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}
