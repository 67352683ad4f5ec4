//! Reads the numbers of a gate from Prometheus, for the three kinds that use it.

pub(super) mod promql;
pub(super) mod scrape_interval;
pub(super) mod selectors;
pub(super) mod syntax;

use std::time::Duration;

use bytes::Bytes;
use flow::{Span, Time};

use self::promql::{PromMetric, Sample, SelectedSample};
use self::scrape_interval::ScrapeInterval;
use super::error::{ReadError, SetupError};
use super::kinds::{GateContext, OpenGate, PolledSource, ReadingFuture, Source, measured};
use super::metrics_server::{HTTP_URL, MetricsServer};
use super::reading::{Reading, capacity, finite};
use super::settings::{Capacity, GateSettings};
use crate::schema::{Key, NOT_EMPTY, ValueType, key};

/// The keys that several kinds have.
pub(super) const URL: Key = key("url", ValueType::Text(&HTTP_URL), "The server.").required();
pub(super) const POOL: Key =
    key("pool", ValueType::Text(&NOT_EMPTY), "The name of the pool.").required();

/// The largest response that is read.
const RESPONSE_MAX: usize = 1 << 20;
/// A sample has the time at which its scrape began; the page was written within this time after it.
const SCRAPE: Span = Span::from_millis(50);

/// A query and the server that answers it.
#[derive(Debug)]
pub(super) struct Prometheus {
    server: MetricsServer,
    query: PromQuery,
    /// The metrics that count the ready servers, if the reading needs them.
    ready: Vec<PromMetric>,
    /// The series of an expression, for the time of their samples.
    dated: Vec<PromMetric>,
    capacity: Capacity,
    /// The age at which a sample no longer counts: the configured one, or else at least the other,
    /// and what the intervals of the scrapes say.
    stale_after: Option<Duration>,
    stale_after_least: Duration,
    scrapes: ScrapeInterval,
    /// The last sample: its own time, and its time by our clock. The same sample read again is the
    /// same reading, to the nanosecond.
    seen: Option<(f64, Time)>,
}

/// A query to Prometheus.
#[derive(Clone, Debug)]
pub(super) enum PromQuery {
    /// The fullest of several measures that have a sample.
    Metrics {
        /// The metrics of each measure, best first: the first that has a sample counts.
        measures: Vec<Vec<PromMetric>>,
        /// The requests that each server takes, if the metrics count requests.
        each: Option<f64>,
    },
    /// An expression that gives the free share.
    Expression(String),
}

// === impl Prometheus ===

impl Prometheus {
    /// Opens a gate on the server at `url`, perhaps for one pool.
    pub(super) fn open(
        (url, pool): (&str, Option<&str>),
        query: PromQuery,
        gate: &GateSettings,
        context: &GateContext,
    ) -> Result<OpenGate, SetupError> {
        let source = Self::new((url, pool), query, gate, context)?;
        let description = source.description(pool.unwrap_or_default());
        Ok(OpenGate::new(Source::polled(source), description, measured(true)))
    }

    pub(super) fn new(
        (url, pool): (&str, Option<&str>),
        query: PromQuery,
        gate: &GateSettings,
        context: &GateContext,
    ) -> Result<Self, SetupError> {
        let ready = match (&gate.capacity, &query) {
            (Capacity::PerServer { ready, .. }, _) => PromMetric::readies(pool, ready.as_deref()),
            // The load of all servers is compared with their capacity.
            (_, PromQuery::Metrics { each: Some(_), .. }) => PromMetric::readies(pool, None),
            _ => Vec::new(),
        };
        let dated = match &query {
            PromQuery::Metrics { .. } => Vec::new(),
            PromQuery::Expression(text) => PromMetric::dated(text),
        };
        let server = MetricsServer::at(url, context)?;
        Ok(Self {
            server,
            query,
            ready,
            dated,
            capacity: gate.capacity.clone(),
            stale_after: gate.stale_after,
            stale_after_least: gate.valid_for(),
            scrapes: ScrapeInterval::default(),
            seen: None,
        })
    }

    /// Of several metrics the last reading names the one that counts, which may change.
    fn description(&self, pool: &str) -> String {
        let query = match &self.query {
            PromQuery::Metrics { each: Some(_), .. } => format!("the fullest load of {pool:?}"),
            PromQuery::Metrics { each: None, .. } => format!("the saturation of {pool:?}"),
            PromQuery::Expression(text) => text.clone(),
        };
        format!("{query} by Prometheus at {}", self.server.base.origin())
    }

    async fn fetch(&mut self) -> Result<Reading, ReadError> {
        match self.query.clone() {
            PromQuery::Metrics { measures, each } => self.by_measures(&measures, each).await,
            PromQuery::Expression(text) => self.by_expression(&text).await,
        }
    }

    /// The free share by the fullest of the measures that are known.
    async fn by_measures(
        &mut self,
        measures: &[Vec<PromMetric>],
        each: Option<f64>,
    ) -> Result<Reading, ReadError> {
        let metrics = measures.iter().flatten();
        let all: Vec<PromMetric> = metrics.chain(&self.ready).cloned().collect();
        let began = self.server.clock.now();
        let body = self.query(&promql::expression(&all), None).await?;
        let came = self.server.clock.now();
        let samples = promql::samples(&body, all.len())?;
        let (loads, readies) = samples.split_at(all.len() - self.ready.len());
        let ready = promql::first(&self.ready, readies, true);
        let known = promql::known(measures, loads, ready.is_some());
        let value = |of: &SelectedSample<'_>| finite(of.sample.value, &of.metric.series);
        let servers = ready.as_ref().map(value).transpose()?;
        let mut least: Option<(f64, SelectedSample<'_>)> = None;
        for load in &known {
            let free = load.metric.free(value(load)?, each, servers);
            if least.is_none_or(|(least, _)| free < least) {
                least = Some((free, *load));
            }
        }
        let (free, load) = least.ok_or_else(|| promql::no_sample(&all))?;
        let whole = servers.zip(each).map(|(servers, each)| servers * each);
        let capacity = capacity(&self.capacity, servers, whole)?;
        let oldest = ready.into_iter().chain(known);
        let oldest = oldest.max_by(|a, b| a.sample.age.total_cmp(&b.sample.age)).unwrap_or(load);
        let by = load.metric.series.clone();
        let series = oldest.metric.series.clone();
        let reading = Reading { by, ..Reading::instant(free, capacity, came) };
        self.dated_by((&series, oldest.sample), began, reading)
    }

    /// A reading that came now, dated by its oldest sample, unless that is too old.
    fn dated_by(
        &mut self,
        (series, sample): (&str, Sample),
        began: Time,
        reading: Reading,
    ) -> Result<Reading, ReadError> {
        self.scrapes.note(sample);
        let least = self.stale_after_least.as_secs_f64();
        let learnt = || self.scrapes.stale_after(least);
        let valid = self.stale_after.map_or_else(learnt, |given| given.as_secs_f64());
        // Checked by the clock of Prometheus: the sample may be older than this process.
        if sample.age > valid {
            return Err(ReadError::Stale { sample: series.to_owned(), age: sample.age });
        }
        let (at, lag) = self.taken_at(sample, began, reading.at);
        Ok(Reading { at, lag, valid_for: Some(Span::from_secs_f64(valid)), ..reading })
    }

    /// The latest moment, by our clock, at which a sample was taken, and how much earlier it may
    /// have been.
    pub(super) fn taken_at(&mut self, sample: Sample, began: Time, came: Time) -> (Time, Span) {
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

    /// The value of an expression and the time of the oldest sample behind it. Prometheus does not
    /// say which samples an expression used, and evaluates a range long after its last sample. So
    /// the times of all series in it are queried first, and the expression at the same moment.
    async fn by_expression(&mut self, text: &str) -> Result<Reading, ReadError> {
        let all: Vec<PromMetric> = self.ready.iter().chain(&self.dated).cloned().collect();
        let began = self.server.clock.now();
        if all.is_empty() {
            let free = promql::least(&self.query(text, None).await?)?;
            let came = self.server.clock.now();
            let capacity = capacity(&self.capacity, None, None)?;
            return Ok(Reading {
                lag: came.since(began),
                ..Reading::instant(free, capacity, came)
            });
        }
        let body = self.query(&promql::expression(&all), None).await?;
        let came = self.server.clock.now();
        let samples = promql::samples(&body, all.len())?;
        let (readies, dated) = samples.split_at(self.ready.len());
        let ready = promql::first(&self.ready, readies, true);
        let servers = ready.map(|ready| finite(ready.sample.value, &ready.metric.series));
        let found = self.dated.iter().zip(dated);
        let found = found.filter_map(|(metric, sample)| Some((metric.series.clone(), (*sample)?)));
        let ready = ready.map(|ready| (ready.metric.series.clone(), ready.sample));
        let oldest = found.chain(ready).max_by(|a, b| a.1.age.total_cmp(&b.1.age));
        let (series, sample) = oldest.ok_or_else(|| promql::no_sample(&all))?;
        let free = promql::least(&self.query(text, Some(sample.taken + sample.age)).await?)?;
        let capacity = capacity(&self.capacity, servers.transpose()?, None)?;
        self.dated_by((&series, sample), began, Reading::instant(free, capacity, came))
    }

    async fn query(&self, expression: &str, at: Option<f64>) -> Result<Bytes, ReadError> {
        self.server.get(&promql::path(expression, at), RESPONSE_MAX).await
    }
}

impl PolledSource for Prometheus {
    fn read(&mut self) -> ReadingFuture<'_> {
        Box::pin(self.fetch())
    }
}
