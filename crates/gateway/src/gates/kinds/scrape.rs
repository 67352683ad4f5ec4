//! The kind `scrape`: one metric of a metrics page.
//!
//! Several lines may match, for example one per server or rank. Counts are added and shares are
//! averaged, because each line is a part of the whole system. A line that is not a number makes the
//! reading fail, and so does a page without a matching line. A line may have a time of its own; the
//! reading is then as old as the oldest such line.

use std::time::Duration;

use super::{
    GateContext, GateKind, Kind, KindDeclaration, OpenGate, PolledSource, ReadingFuture, Source,
    measured,
};
use crate::clock::since_epoch;
use crate::gates::error::{ReadError, SetupError};
use crate::gates::metrics_server::{HTTP_URL, MetricsServer};
use crate::gates::reading::{Reading, capacity, finite};
use crate::gates::settings::{Capacity, GateSettings};
use crate::prometheus_parser;
use crate::schema::ValueType::{Keyword, Map, Text};
use crate::schema::{
    ANY_TEXT, Keyword as Spelled, Keywords, NOT_EMPTY, Section, Variant, key, words,
};
use crate::upstream::client::BaseUrl;

pub(super) const KIND: KindDeclaration = KindDeclaration {
    variant: Variant {
        name: "scrape",
        aliases: &["endpoint-scrape"],
        doc: "One number of a metrics page.",
        keys: &[
            key("url", Text(&HTTP_URL), "The page.").required(),
            key("metric", Text(&NOT_EMPTY), "The name of the metric.").required(),
            key("labels", Map(&Text(&ANY_TEXT)), "Labels that the metric must have.").unset("none"),
            key("says", Keyword(words::<MetricMeaning>), "What the number means.")
                .default("saturation"),
        ],
    },
    read,
    knows_capacity: false,
    counts_servers: true,
};

/// The largest page that is read.
const PAGE_MAX: usize = 4 << 20;
/// The metrics that count the ready servers, the current name and the old one.
pub(in crate::gates) const READY: [&str; 2] =
    ["llm_d_epp_ready_endpoints", "inference_pool_ready_pods"];

/// The settings of the kind `scrape`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeGate {
    /// The page.
    pub url: String,
    /// The metric.
    pub metric: String,
    /// The labels that its lines must have.
    pub labels: Vec<(String, String)>,
    /// The meaning of its value.
    pub says: MetricMeaning,
}

/// The meaning of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricMeaning {
    /// A load from 0 to 1.
    #[default]
    Saturation,
    /// A free share from 0 to 1.
    Budget,
    /// A number of requests, of the capacity of the system.
    Count,
}

/// A metrics page and the metric on it.
#[derive(Debug)]
struct MetricsPage {
    server: MetricsServer,
    path: String,
    settings: ScrapeGate,
    capacity: Capacity,
    stale_after: Duration,
}

/// The lines that match.
#[derive(Clone, Copy, Debug, Default)]
struct MatchedLines {
    count: u32,
    sum: f64,
    /// The oldest time of a line, in milliseconds since 1970.
    oldest: Option<u64>,
}

fn read(section: &Section<'_>) -> Option<GateKind> {
    let labels = section.map("labels").into_iter().map(|(name, value, _)| (name, value));
    Some(GateKind::Scrape(ScrapeGate {
        url: section.given("url")?,
        metric: section.given("metric")?,
        labels: labels.collect(),
        says: section.get("says"),
    }))
}

// === impl ScrapeGate ===

impl Kind for ScrapeGate {
    fn declaration(&self) -> &'static KindDeclaration {
        &KIND
    }

    fn open(&self, gate: &GateSettings, context: &GateContext) -> Result<OpenGate, SetupError> {
        let (base, path) = split(&self.url)?;
        let description = format!("{} on {}{path}", self.selector(), base.origin());
        let server = MetricsServer::new(base, context);
        let (settings, capacity) = (self.clone(), gate.capacity.clone());
        let stale_after = gate.valid_for();
        let page = MetricsPage { server, path, settings, capacity, stale_after };
        let source = Source::polled(page);
        Ok(OpenGate::new(source, description, measured(true)))
    }
}

impl ScrapeGate {
    /// The metric and its labels, as Prometheus writes them.
    fn selector(&self) -> String {
        if self.labels.is_empty() {
            return self.metric.clone();
        }
        let labels = self.labels.iter().map(|(name, text)| format!("{name}={text:?}"));
        format!("{}{{{}}}", self.metric, labels.collect::<Vec<_>>().join(","))
    }

    /// The free share and the capacity by a page.
    pub(in crate::gates) fn evaluate(
        &self,
        page: &[u8],
        settings: &Capacity,
    ) -> Result<(f64, f64), ReadError> {
        let matched = MatchedLines::on(page, &self.metric, &self.labels);
        if matched.count == 0 {
            return Err(ReadError::NoMetric(self.selector()));
        }
        let sum = finite(matched.sum, &self.metric)?;
        let ready = match settings {
            Capacity::PerServer { ready, .. } => Some(ready_servers(page, ready.as_deref())?),
            Capacity::Fixed(_) | Capacity::FromSource => None,
        };
        let capacity = capacity(settings, ready, None)?;
        let mean = sum / f64::from(matched.count);
        Ok((self.says.free_share(sum, mean, capacity), capacity))
    }
}

/// The number of ready servers by a page.
fn ready_servers(page: &[u8], metric: Option<&str>) -> Result<f64, ReadError> {
    let names: Vec<&str> = metric.map_or(READY.to_vec(), |name| vec![name]);
    for name in &names {
        let matched = MatchedLines::on(page, name, &[]);
        if matched.count > 0 {
            return finite(matched.sum, name);
        }
    }
    Err(ReadError::NoReadyMetric(names.into_iter().map(str::to_owned).collect()))
}

/// Splits the address of a page into its server and its path with the query.
pub(in crate::gates) fn split(url: &str) -> Result<(BaseUrl, String), SetupError> {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?']).map_or(url.len(), |at| after_scheme + at);
    let (server, path) = url.split_at(end);
    let path = match path {
        "" | "/" => "/metrics".to_owned(),
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    };
    let uri: Result<http::Uri, _> = path.parse();
    uri.map_err(|source| SetupError::PageUrl { url: url.to_owned(), source })?;
    let base = BaseUrl::parse(server).map_err(SetupError::Address)?;
    Ok((base, path))
}

// === impl MetricsPage ===

impl PolledSource for MetricsPage {
    fn read(&mut self) -> ReadingFuture<'_> {
        Box::pin(self.fetch())
    }
}

impl MetricsPage {
    async fn fetch(&self) -> Result<Reading, ReadError> {
        let began = self.server.clock.now();
        let page = self.server.get(&self.path, PAGE_MAX).await?;
        let at = self.server.clock.now();
        let (free, capacity) = self.settings.evaluate(&page, &self.capacity)?;
        // The values date from some moment between the request and the response, unless they say.
        let reading = Reading { lag: at.since(began), ..Reading::instant(free, capacity, at) };
        let ScrapeGate { metric, labels, .. } = &self.settings;
        match MatchedLines::on(&page, metric, labels).oldest {
            Some(millis) => {
                let age = since_epoch().saturating_sub(Duration::from_millis(millis));
                reading.aged((metric, age), self.stale_after)
            }
            None => Ok(reading),
        }
    }
}

// === impl MatchedLines ===

impl MatchedLines {
    fn on(page: &[u8], metric: &str, labels: &[(String, String)]) -> Self {
        let mut matched = Self::default();
        for line in prometheus_parser::lines(page) {
            match prometheus_parser::name(line) {
                Some((name, rest)) if name == metric.as_bytes() => matched.add(rest, labels),
                _ => {}
            }
        }
        matched
    }

    /// Adds a line, which is given without its name, if its labels fit.
    fn add(&mut self, rest: &[u8], labels: &[(String, String)]) {
        // An unreadable line of this metric might be one that matches.
        let (found, value) = prometheus_parser::sample(rest).unwrap_or(("", f64::NAN));
        let fits = |(name, text): &(String, String)| {
            prometheus_parser::means(prometheus_parser::label(found, name), text)
        };
        if value.is_nan() || labels.iter().all(fits) {
            self.count = self.count.saturating_add(1);
            self.sum += value;
            self.oldest = self.oldest.into_iter().chain(prometheus_parser::time(rest)).min();
        }
    }
}

// === impl MetricMeaning ===

impl MetricMeaning {
    /// The free share by the sum and the mean of the lines.
    fn free_share(self, sum: f64, mean: f64, capacity: f64) -> f64 {
        match self {
            Self::Saturation => 1.0 - mean,
            Self::Budget => mean,
            Self::Count if capacity > 0.0 => 1.0 - sum / capacity,
            Self::Count => 0.0,
        }
    }
}

impl Spelled for MetricMeaning {
    const SPELLINGS: Keywords<Self> =
        &[("saturation", Self::Saturation), ("budget", Self::Budget), ("count", Self::Count)];
}
