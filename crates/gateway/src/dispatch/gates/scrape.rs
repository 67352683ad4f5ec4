//! A gate that reads one number off a page of metrics.
//!
//! Several lines may fit, as where several servers or ranks write one each. Counts are then added
//! up and shares averaged: each is a part of the whole that the budget is for. One line that is not
//! a number spoils the reading, and so does none.

use super::fetch::MetricsServer;
use super::reading::{Reading, size, sound};
use crate::config::resolved::dispatch::{Says, System};
use crate::prometheus_text;
use crate::upstream::client::BaseUrl;

/// Pages beyond this are not read.
const PAGE_MAX: usize = 4 << 20;
/// What says how many servers are ready, in the words of today and of before.
pub(super) const READY: [&str; 2] = ["llm_d_epp_ready_endpoints", "inference_pool_ready_pods"];

/// Where the number is.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) server: MetricsServer,
    pub(super) path: String,
    pub(super) wanted: MetricSelector,
    pub(super) system: System,
}

/// Which number it is, and what it says.
#[derive(Clone, Debug)]
pub(super) struct MetricSelector {
    pub(super) metric: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) says: Says,
}

// === impl Scrape ===

impl Scrape {
    pub(super) fn source(&self) -> String {
        format!("{} on http://{}{}", self.wanted.shown(), self.server.base.place, self.path)
    }

    pub(super) async fn read(&self) -> Result<Reading, String> {
        let began = self.server.clock.now();
        let page = self.server.get(&self.path, PAGE_MAX).await?;
        let at = self.server.clock.now();
        let (free, system) = read(&page, &self.wanted, &self.system)?;
        // The page is of some moment while it was on its way.
        Ok(Reading { free, system, at, lag: at.since(began), by: String::new() })
    }
}

/// How free the system is by a page, and how large it is.
pub(super) fn read(
    page: &[u8],
    wanted: &MetricSelector,
    system: &System,
) -> Result<(f64, f64), String> {
    let MetricSelector { metric, labels, says } = wanted;
    let found = MatchedSamples::on(page, metric, labels);
    if found.lines == 0 {
        return Err(format!("the page has no line {}", wanted.shown()));
    }
    let sum = sound(found.sum, metric)?;
    let ready = match system {
        System::PerServer { ready, .. } => Some(servers(page, ready.as_deref())?),
        System::Fixed(_) | System::Known => None,
    };
    let system = size(system, ready, None)?;
    let mean = sum / f64::from(found.lines);
    let free = match says {
        Says::Saturation => 1.0 - mean,
        Says::Budget => mean,
        Says::Count if system > 0.0 => 1.0 - sum / system,
        Says::Count => 0.0,
    };
    Ok((free, system))
}

/// How many servers are ready.
fn servers(page: &[u8], metric: Option<&str>) -> Result<f64, String> {
    let names: Vec<&str> = metric.map_or(READY.to_vec(), |name| vec![name]);
    for name in &names {
        let found = MatchedSamples::on(page, name, &[]);
        if found.lines > 0 {
            return sound(found.sum, name);
        }
    }
    Err(format!("the page does not say how many servers are ready ({})", names.join(", ")))
}

/// The lines that fit.
#[derive(Clone, Copy, Debug, Default)]
struct MatchedSamples {
    lines: u32,
    sum: f64,
}

// === impl MatchedSamples ===

impl MatchedSamples {
    fn on(page: &[u8], metric: &str, wanted: &[(String, String)]) -> Self {
        let mut found = Self::default();
        for line in prometheus_text::lines(page) {
            let Some((name, rest)) = prometheus_text::name(line) else { continue };
            if name != metric.as_bytes() {
                continue;
            }
            // A line of this name that cannot be read might be one that counts.
            let (labels, value) = prometheus_text::sample(rest).unwrap_or(("", f64::NAN));
            let fits = |(name, text): &(String, String)| {
                prometheus_text::means(prometheus_text::label(labels, name), text)
            };
            if value.is_nan() || wanted.iter().all(fits) {
                found.lines = found.lines.saturating_add(1);
                found.sum += value;
            }
        }
        found
    }
}

// === impl MetricSelector ===

impl MetricSelector {
    fn shown(&self) -> String {
        if self.labels.is_empty() {
            return self.metric.clone();
        }
        let labels = self.labels.iter().map(|(name, text)| format!("{name}={text:?}"));
        format!("{}{{{}}}", self.metric, labels.collect::<Vec<_>>().join(","))
    }
}

/// A page's address taken apart: its server, and its path with whatever is asked of it.
pub(super) fn split(url: &str) -> Result<(BaseUrl, String), String> {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?']).map_or(url.len(), |at| after_scheme + at);
    let (server, path) = url.split_at(end);
    let path = match path {
        "" | "/" => "/metrics".to_owned(),
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    };
    let uri: Result<http::Uri, _> = path.parse();
    uri.map_err(|_| format!("{url:?} is not a page's address: its path is strange"))?;
    Ok((BaseUrl::parse(server)?, path))
}
