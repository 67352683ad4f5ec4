//! A gate that asks Prometheus.

use std::time::Duration;

use bytes::Bytes;
use flow::{Span, Time};

use super::fetch::MetricsServer;
use super::promql::{self, PromMetric, Sample};
use super::reading::{Reading, size, sound};
use crate::clock::span;
use crate::config::resolved::dispatch::System;

/// Answers beyond this are not read.
const ANSWER_MAX: usize = 1 << 20;
/// A sample's time is when its scrape began; the page was written within this time after it.
const SCRAPE: Span = Span::from_millis(50);

/// What is asked, and of whom.
#[derive(Debug)]
pub(super) struct Prometheus {
    pub(super) server: MetricsServer,
    pub(super) asks: Query,
    /// What tells how many servers are ready, where that must be known.
    pub(super) ready: Vec<PromMetric>,
    pub(super) system: System,
    pub(super) stale_after: Duration,
    /// The sample that was seen last, by its own time, and when that was by our clock. The same
    /// sample told again is the same reading, to the nanosecond.
    pub(super) seen: Option<(f64, Time)>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Query {
    /// The first of these that has a sample.
    Names {
        /// The names, best first.
        numbers: Vec<PromMetric>,
        /// How many requests each server takes, where the numbers are requests.
        each: Option<f64>,
    },
    /// An expression that gives the free share.
    Expression(String),
}

// === impl Prometheus ===

impl Prometheus {
    pub(super) fn source(&self) -> String {
        let what = match &self.asks {
            Query::Names { numbers, .. } => numbers.first().map(|number| number.series.as_str()),
            Query::Expression(text) => Some(text.as_str()),
        };
        let place = &self.server.base.place;
        format!("{} by Prometheus at http://{place}", what.unwrap_or_default())
    }

    pub(super) async fn read(&mut self) -> Result<Reading, String> {
        match self.asks.clone() {
            Query::Names { numbers, each } => self.by_names(&numbers, each).await,
            Query::Expression(text) => self.by_expression(&text).await,
        }
    }

    async fn by_names(
        &mut self,
        numbers: &[PromMetric],
        each: Option<f64>,
    ) -> Result<Reading, String> {
        let all: Vec<PromMetric> = numbers.iter().chain(&self.ready).cloned().collect();
        let began = self.server.clock.now();
        let body = self.ask(&promql::question(&all)).await?;
        let came = self.server.clock.now();
        let samples = promql::numbers(&body, all.len())?;
        let (loads, readies) = samples.split_at(numbers.len());
        let ready = promql::first(&self.ready, readies, true);
        let load = promql::first(numbers, loads, ready.is_some());
        let load = load.ok_or_else(|| promql::missing(&all))?;
        let servers = ready.map(|ready| sound(ready.sample.value, &ready.number.series));
        let servers = servers.transpose()?;
        let value = sound(load.sample.value, &load.number.series)?;
        let free = load.number.free(value, each, servers);
        let known = servers.zip(each).map(|(servers, each)| servers * each);
        let system = size(&self.system, servers, known)?;
        let by = load.number.series.clone();
        let oldest = ready.map(|ready| ready.sample).into_iter().chain([load.sample]);
        let oldest = oldest.max_by(|a, b| a.age.total_cmp(&b.age)).unwrap_or(load.sample);
        // By its own clock: it may be older than this process.
        if oldest.age > self.stale_after.as_secs_f64() {
            return Err(format!("the last sample of {by} is {:.1} s old", oldest.age));
        }
        let (at, lag) = self.moment(oldest, began, came);
        Ok(Reading { free, system, at, lag, by })
    }

    /// When a sample was taken by our clock, at the latest, and how much earlier it may have been.
    pub(super) fn moment(&mut self, sample: Sample, began: Time, came: Time) -> (Time, Span) {
        let lag = Span::from_nanos(came.since(began).nanos().saturating_add(SCRAPE.nanos()));
        if let Some((taken, at)) = self.seen
            && taken == sample.taken
        {
            return (at, lag);
        }
        let age = Span::from_secs_f64(sample.age).nanos();
        let latest = came.nanos().saturating_sub(age).saturating_add(SCRAPE.nanos());
        let at = Time::from_nanos(latest.min(came.nanos()));
        self.seen = Some((sample.taken, at));
        (at, lag)
    }

    async fn by_expression(&self, text: &str) -> Result<Reading, String> {
        let body = self.ask(text).await?;
        let at = self.server.clock.now();
        let free = promql::least(&body)?;
        let servers = match self.ready.is_empty() {
            true => None,
            false => Some(self.servers().await?),
        };
        let system = size(&self.system, servers, None)?;
        // Nobody can tell how old that is which it is made of.
        let lag = span(self.stale_after);
        Ok(Reading { free, system, at, lag, by: String::new() })
    }

    async fn servers(&self) -> Result<f64, String> {
        let body = self.ask(&promql::question(&self.ready)).await?;
        let samples = promql::numbers(&body, self.ready.len())?;
        let ready = promql::first(&self.ready, &samples, true);
        let ready = ready.ok_or_else(|| promql::missing(&self.ready))?;
        sound(ready.sample.value, &ready.number.series)
    }

    async fn ask(&self, expression: &str) -> Result<Bytes, String> {
        self.server.get(&promql::path(expression), ANSWER_MAX).await
    }
}
