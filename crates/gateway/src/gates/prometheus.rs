//! Reads the numbers of a gate from Prometheus, for the three kinds that use it.

pub(super) mod promql;
pub(super) mod selectors;
pub(super) mod syntax;

use std::time::Duration;

use bytes::Bytes;
use flow::{Span, Time};

use self::promql::{PromMetric, Sample};
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
    stale_after: Duration,
    /// The last sample: its own time, and its time by our clock. The same sample read again is the
    /// same reading, to the nanosecond.
    seen: Option<(f64, Time)>,
}

/// A query to Prometheus.
#[derive(Clone, Debug)]
pub(super) enum PromQuery {
    /// The first of several metrics that has a sample.
    Metrics {
        /// The metrics, best first.
        metrics: Vec<PromMetric>,
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
        let description = source.description();
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
        let (capacity, stale_after) = (gate.capacity.clone(), gate.stale_after);
        Ok(Self { server, query, ready, dated, capacity, stale_after, seen: None })
    }

    fn description(&self) -> String {
        let query = match &self.query {
            PromQuery::Metrics { metrics, .. } => {
                metrics.first().map(|metric| metric.series.as_str()).unwrap_or_default()
            }
            PromQuery::Expression(text) => text.as_str(),
        };
        format!("{query} by Prometheus at {}", self.server.base.origin())
    }

    async fn fetch(&mut self) -> Result<Reading, ReadError> {
        match self.query.clone() {
            PromQuery::Metrics { metrics, each } => self.by_metrics(&metrics, each).await,
            PromQuery::Expression(text) => self.by_expression(&text).await,
        }
    }

    async fn by_metrics(
        &mut self,
        metrics: &[PromMetric],
        each: Option<f64>,
    ) -> Result<Reading, ReadError> {
        let all: Vec<PromMetric> = metrics.iter().chain(&self.ready).cloned().collect();
        let began = self.server.clock.now();
        let body = self.query(&promql::expression(&all), None).await?;
        let came = self.server.clock.now();
        let samples = promql::samples(&body, all.len())?;
        let (loads, readies) = samples.split_at(metrics.len());
        let ready = promql::first(&self.ready, readies, true);
        let load = promql::first(metrics, loads, ready.is_some());
        let load = load.ok_or_else(|| promql::no_sample(&all))?;
        let servers = ready.map(|ready| finite(ready.sample.value, &ready.metric.series));
        let servers = servers.transpose()?;
        let value = finite(load.sample.value, &load.metric.series)?;
        let free = load.metric.free(value, each, servers);
        let known = servers.zip(each).map(|(servers, each)| servers * each);
        let capacity = capacity(&self.capacity, servers, known)?;
        let by = load.metric.series.clone();
        let oldest = ready.map(|ready| ready.sample).into_iter().chain([load.sample]);
        let oldest = oldest.max_by(|a, b| a.age.total_cmp(&b.age)).unwrap_or(load.sample);
        let (at, lag) = self.made_at((&by, oldest), began, came)?;
        Ok(Reading { by, lag, ..Reading::instant(free, capacity, at) })
    }

    /// The moment of a sample, unless it is too old.
    fn made_at(
        &mut self,
        (series, sample): (&str, Sample),
        began: Time,
        came: Time,
    ) -> Result<(Time, Span), ReadError> {
        // Checked by the clock of Prometheus: the sample may be older than this process.
        if sample.age > self.stale_after.as_secs_f64() {
            return Err(ReadError::Stale { sample: series.to_owned(), age: sample.age });
        }
        Ok(self.taken_at(sample, began, came))
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
        let (at, lag) = self.made_at((&series, sample), began, came)?;
        Ok(Reading { lag, ..Reading::instant(free, capacity, at) })
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
