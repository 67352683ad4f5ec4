//! An hour of mixed traffic, to see whether the gateway's memory grows with it.
//!
//! A leak shows only in what a gateway keeps of requests that are gone: names that clients invent,
//! requests that leave, expire, fail or are tried again. So the traffic consists of those, and the
//! memory is sampled until the end.

mod traffic;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use sim::plot::{Axis, Chart, Series, Style, Unit};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::gateway::load::{Client, Request};
use crate::gateway::metrics::{QUEUE_DEPTH, sum};
use crate::gateway::origin::{Behaviour, Origin};
use crate::gateway::process::{Cores, Process};
use crate::gateway::proxies::{Fixture, Proxy};
use crate::report::{Report, Table, median};
use traffic::Traffic;

/// The memory at the end may exceed that after the first third by so much.
const GROWTH_MEGABYTES_MAX: f64 = 2.0;
const SAMPLES: u32 = 240;
const ROWS: usize = 12;
const SERVICE_TIME: Duration = Duration::from_millis(200);
/// Every so many requests find the backend full and are tried again.
const FULL_EVERY: usize = 20;
const DRAINED_WITHIN: Duration = Duration::from_secs(30);
const RELOADS: u32 = 20;

/// Watch the gateway's memory under an hour of mixed traffic.
///
/// Clients invent names, leave while they wait and while they read, expire, are refused and send
/// malformed requests; the backend is full now and then; the configuration is reloaded. Fails if
/// memory grows, or if anything is still counted when the traffic has ended.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate-bench soak                                        an hour
  tidegate-bench soak --minutes 1                            a first impression
  tidegate-bench soak --picture docs/pictures/soak.svg       with the curve")]
pub(crate) struct Soak {
    /// How long the traffic lasts.
    #[arg(long, default_value_t = 60.0, value_name = "MINUTES")]
    minutes: f64,
    /// Write the curve of the memory to this file, as SVG.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the gateway held at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    minutes: f64,
    megabytes: f64,
    files: usize,
    /// Requests that clients have ended so far.
    ended: u64,
}

// === impl Soak ===

impl Soak {
    /// Runs the traffic to its end and reports the memory on the way.
    pub(crate) fn run(&self) -> Result<Report> {
        ensure!(self.minutes > 0.0 && self.minutes <= 600.0, "--minutes: more than 0, at most 600");
        let mut fixture = Fixture::new(Cores::share)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let samples = LocalSet::new().block_on(&runtime, self.watch(&mut fixture))?;
        if let Some(file) = &self.picture {
            std::fs::write(file, chart(&samples).svg())
                .with_context(|| file.display().to_string())?;
        }
        Ok(Report { tables: vec![table(&samples)], ..Report::default() })
    }

    async fn watch(&self, fixture: &mut Fixture) -> Result<Vec<Sample>> {
        let behaviour = Behaviour {
            delay: Some(SERVICE_TIME),
            full_every: Some(FULL_EVERY),
            ..Behaviour::default()
        };
        let origin = Origin::start(behaviour)?;
        let config = traffic::config();
        let gateway = fixture.start(&Proxy::ours("gateway", config), origin.address).await?;
        let traffic = Traffic::start(gateway.address);
        let lasts = Duration::from_secs_f64(60.0 * self.minutes);
        let samples = sample(&gateway, &traffic, lasts).await?;
        traffic.end().await?;
        drained(&gateway).await?;
        Ok(samples)
    }
}

/// Samples while the traffic lasts, and reloads the configuration now and then.
async fn sample(gateway: &Process, traffic: &Traffic, lasts: Duration) -> Result<Vec<Sample>> {
    let began = Instant::now();
    let mut ticks = tokio::time::interval(lasts / SAMPLES);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut samples = Vec::new();
    for number in 0..=SAMPLES {
        ticks.tick().await;
        if number % (SAMPLES / RELOADS) == 1 {
            gateway.signal("HUP")?;
        }
        let sample = Sample {
            minutes: began.elapsed().as_secs_f64() / 60.0,
            megabytes: gateway.resident_megabytes()?,
            files: gateway.open_files()?,
            ended: traffic.ended(),
        };
        samples.push(sample);
    }
    Ok(samples)
}

/// Waits until the gateway counts no request any more.
async fn drained(gateway: &Process) -> Result<()> {
    let began = Instant::now();
    let mut client = Client::connect(gateway.address).await?;
    loop {
        let metrics = client.text(&Request::get("/metrics")).await?;
        let left = [QUEUE_DEPTH, "tidegate_stock_level"].map(|name| sum(&metrics, name));
        if left == [Some(0.0); 2] {
            return Ok(());
        }
        ensure!(began.elapsed() < DRAINED_WITHIN, "waiting and in flight at the end: {left:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn table(samples: &[Sample]) -> Table {
    let columns = [("requests", 0), ("MB", 1), ("open files", 0)];
    let mut table = Table::new("Memory under mixed traffic", &columns);
    table.subject = "minutes";
    for sample in samples.iter().step_by((samples.len() / ROWS).max(1)) {
        let figures = [sample.ended as f64, sample.megabytes, sample.files as f64];
        table.push_all(format!("{:.1}", sample.minutes), figures);
    }
    table.target("growth over the last two thirds, MB", GROWTH_MEGABYTES_MAX, growth(samples));
    table
}

/// How much more memory the last sixth has than the sixth after the first third, by medians.
fn growth(samples: &[Sample]) -> f64 {
    let sixth = samples.len() / 6;
    let middle =
        |part: &[Sample]| median(&part.iter().map(|sample| sample.megabytes).collect::<Vec<_>>());
    middle(&samples[samples.len() - sixth..]) - middle(&samples[2 * sixth..3 * sixth])
}

fn chart(samples: &[Sample]) -> Chart {
    let points = |pick: fn(&Sample) -> f64| {
        samples.iter().map(|sample| (60.0 * sample.minutes, pick(sample))).collect()
    };
    let memory = Series::new("resident, MB", Style::Line, 0, points(|sample| sample.megabytes));
    let files = Series::new("open files", Style::Line, 1, points(|sample| sample.files as f64));
    let ended = samples.last().map_or(0, |sample| sample.ended);
    Chart {
        title: "The gateway's memory under mixed traffic".to_owned(),
        subtitle: format!("{ended} requests: fresh names, clients that leave, retries, reloads"),
        x: Axis::linear("time", Unit::Seconds),
        y: Axis::linear("MB, open files", Unit::Plain),
        series: vec![memory, files],
    }
}

#[cfg(test)]
mod tests {
    use super::{Sample, growth};

    #[test]
    fn growth_is_the_difference_of_medians_after_the_first_third() {
        let sample = |megabytes| Sample { minutes: 0.0, megabytes, files: 0, ended: 0 };
        let warm = [1.0, 5.0, 9.0, 10.0, 10.0, 11.0, 10.0, 10.0, 10.0, 10.0, 13.0, 14.0];
        assert_eq!(growth(&warm.map(sample)), 3.0);
        assert_eq!(growth(&[7.0; 12].map(sample)), 0.0);
    }
}
