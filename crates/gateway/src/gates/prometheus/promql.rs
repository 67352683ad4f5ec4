//! The queries to Prometheus, and the meaning of their results. This module does no IO.
//!
//! The metrics of a pool have several names, current and old ones. One expression queries all of
//! them, so that the values are of one moment, and of each measure the first metric with a sample
//! counts. Each value comes with the time of its oldest sample, by the clock of Prometheus: after
//! the loss of a target, Prometheus repeats its last value, and the time shows the age. A target
//! that is known to be down has no sample.
//!
//! If several pickers have samples, the fullest one counts, and their queues are added. If an
//! expression of the operator gives several samples, the least one counts, and it is as old as the
//! oldest sample of the series in it.

use serde::Deserialize;

use super::selectors::selectors;
use crate::gates::error::{PrometheusError, ReadError};
use crate::gates::kinds::scrape::READY;
use crate::gates::reading::finite;

/// The label that distinguishes the parts of one result.
const PART: &str = "tidegate";

/// A metric and the meaning of its value.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::gates) struct PromMetric {
    /// The series that are aggregated.
    pub(in crate::gates) series: String,
    /// The expression, which gives one sample without labels.
    value: String,
    quantity: Quantity,
}

/// The quantity that a metric measures.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    /// The load of the pool.
    Saturation,
    /// The load of each server, from 0 to 1.
    Share,
    /// The number of requests at all servers.
    Total,
    /// The mean number of requests at a server.
    Mean,
    /// The number of ready servers.
    Ready,
    /// Any number: only the time of its samples counts.
    Dated,
}

/// One value of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::gates) struct Sample {
    pub(in crate::gates) value: f64,
    /// Its age at the time of the query, in seconds.
    pub(in crate::gates) age: f64,
    /// Its time in seconds, by the clock of Prometheus.
    pub(in crate::gates) taken: f64,
}

/// The metric that counts, with its sample.
#[derive(Clone, Copy, Debug)]
pub(in crate::gates) struct SelectedSample<'a> {
    pub(in crate::gates) metric: &'a PromMetric,
    pub(in crate::gates) sample: Sample,
}

/// The body of a response.
#[derive(Debug, Deserialize)]
struct QueryResponse {
    status: String,
    error: Option<String>,
    data: Option<QueryResult>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum QueryResult {
    Vector(Vec<VectorSample>),
    Scalar(Point),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct VectorSample {
    #[serde(default)]
    metric: std::collections::BTreeMap<String, String>,
    value: Point,
}

/// A time in seconds, and a number as text.
type Point = (f64, String);

// === impl PromMetric ===

impl PromMetric {
    /// The free share by a value, for a number of servers that take `each` requests.
    pub(in crate::gates) fn free(
        &self,
        value: f64,
        each: Option<f64>,
        servers: Option<f64>,
    ) -> f64 {
        let (each, servers) = (each.unwrap_or(0.0), servers.unwrap_or(0.0));
        let part = |room: f64| if room > 0.0 { 1.0 - value / room } else { 0.0 };
        match self.quantity {
            Quantity::Saturation | Quantity::Share => 1.0 - value,
            Quantity::Mean => part(each),
            Quantity::Total => part(each * servers),
            Quantity::Ready | Quantity::Dated => 0.0,
        }
    }

    /// The metrics of a pool's saturation.
    pub(in crate::gates) fn saturations(pool: &str) -> Vec<Self> {
        let names = [
            "llm_d_epp_flow_control_pool_saturation",
            "inference_extension_flow_control_pool_saturation",
        ];
        let series = names.map(|name| selector(name, "inference_pool", pool));
        series.into_iter().map(|series| Self::new(series, Quantity::Saturation)).collect()
    }

    /// The measures of a pool's load: the picker's own queue, the queues of its servers, their
    /// running requests and KV caches, and the saturation. Each has several names, best first.
    pub(in crate::gates) fn loads(pool: &str) -> Vec<Vec<Self>> {
        let queue = [
            ("llm_d_epp_flow_control_queue_size", "inference_pool", Quantity::Total),
            ("inference_extension_flow_control_queue_size", "inference_pool", Quantity::Total),
        ];
        let waiting = [
            ("llm_d_epp_per_endpoint_queue_size", "name", Quantity::Mean),
            ("inference_pool_per_pod_queue_size", "name", Quantity::Mean),
        ];
        let running = [
            ("vllm:num_requests_running", "inference_pool", Quantity::Total),
            ("llm_d_epp_average_running_requests", "name", Quantity::Mean),
            ("inference_pool_average_running_requests", "name", Quantity::Mean),
        ];
        let cache = [
            ("vllm:kv_cache_usage_perc", "inference_pool", Quantity::Share),
            ("llm_d_epp_average_kv_cache_utilization", "name", Quantity::Share),
            ("inference_pool_average_kv_cache_utilization", "name", Quantity::Share),
        ];
        let metric = |&(name, label, quantity): &(&str, &str, Quantity)| {
            Self::new(selector(name, label, pool), quantity)
        };
        let measures: [&[_]; 4] = [&queue, &waiting, &running, &cache];
        let measures = measures.into_iter().map(|names| names.iter().map(metric).collect());
        measures.chain([Self::saturations(pool)]).collect()
    }

    /// The metrics of the number of ready servers of a pool.
    pub(in crate::gates) fn readies(pool: Option<&str>, metric: Option<&str>) -> Vec<Self> {
        let series: Vec<String> = match (metric, pool) {
            (Some(metric), _) => vec![metric.to_owned()],
            (None, Some(pool)) => READY.map(|name| selector(name, "name", pool)).into(),
            (None, None) => READY.map(str::to_owned).into(),
        };
        series.into_iter().map(|series| Self::new(series, Quantity::Ready)).collect()
    }

    /// The series in an expression of the operator.
    pub(in crate::gates) fn dated(expression: &str) -> Vec<Self> {
        let series = selectors(expression).into_iter();
        series.map(|series| Self::new(series, Quantity::Dated)).collect()
    }

    fn new(series: String, quantity: Quantity) -> Self {
        let value = match quantity {
            // Aggregations other than sums ignore NaN; the sum makes the result NaN too.
            Quantity::Saturation => format!("max({series}) + 0 * sum({series})"),
            Quantity::Total => format!("sum({series})"),
            Quantity::Mean | Quantity::Share => format!("avg({series})"),
            // Parallel pickers count the same servers, so the largest count is used.
            Quantity::Ready => {
                format!("max(sum by (job, instance) ({series})) + 0 * sum({series})")
            }
            Quantity::Dated => format!("count({series})"),
        };
        Self { series, value, quantity }
    }
}

/// One expression for the values of several metrics and the times of their samples.
pub(in crate::gates) fn expression(metrics: &[PromMetric]) -> String {
    let part = |(at, metric): (usize, &PromMetric)| {
        let PromMetric { value, series, .. } = metric;
        let value = format!("label_replace({value}, \"{PART}\", \"value {at}\", \"\", \"\")");
        let time = format!("min(timestamp({series}))");
        format!("{value} or label_replace({time}, \"{PART}\", \"time {at}\", \"\", \"\")")
    };
    metrics.iter().enumerate().map(part).collect::<Vec<_>>().join(" or ")
}

/// The request path of an expression, evaluated now or at a time in seconds.
pub(in crate::gates) fn path(expression: &str, at: Option<f64>) -> String {
    let mut path = String::from("/api/v1/query?query=");
    for byte in expression.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte));
            }
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    if let Some(at) = at {
        path.push_str(&format!("&time={at:.3}"));
    }
    path
}

/// The samples in the result of [`expression`], in its order; `None` for a metric without one.
pub(in crate::gates) fn samples(
    body: &[u8],
    count: usize,
) -> Result<Vec<Option<Sample>>, ReadError> {
    let QueryResult::Vector(series) = data(body)? else {
        return Err(PrometheusError::ResultType.into());
    };
    let find = |part: String| {
        let mut fitting = series.iter().filter(|series| series.metric.get(PART) == Some(&part));
        fitting.next().map(|series| &series.value)
    };
    let sample = |at: usize| {
        let Some((queried, value)) = find(format!("value {at}")) else { return Ok(None) };
        let Some((_, taken)) = find(format!("time {at}")) else { return Ok(None) };
        let (value, taken) = (parse(value)?, parse(taken)?);
        Ok(Some(Sample { value, taken, age: (queried - taken).max(0.0) }))
    };
    (0..count).map(sample).collect()
}

/// The first usable metric that has a sample. A total is usable only if the number of ready servers
/// is known.
pub(in crate::gates) fn first<'a>(
    metrics: &'a [PromMetric],
    samples: &[Option<Sample>],
    ready: bool,
) -> Option<SelectedSample<'a>> {
    let usable = |metric: &PromMetric| ready || metric.quantity != Quantity::Total;
    let found = metrics.iter().zip(samples).filter(|(metric, _)| usable(metric));
    found.filter_map(|(metric, sample)| Some(SelectedSample { metric, sample: (*sample)? })).next()
}

/// The metrics that count for measures of which some have a sample, given the samples of all their
/// metrics in order.
pub(in crate::gates) fn known<'a>(
    measures: &'a [Vec<PromMetric>],
    mut samples: &[Option<Sample>],
    ready: bool,
) -> Vec<SelectedSample<'a>> {
    let mut known = Vec::with_capacity(measures.len());
    for metrics in measures {
        let (own, others) = samples.split_at(metrics.len().min(samples.len()));
        known.extend(first(metrics, own, ready));
        samples = others;
    }
    known
}

/// The error for metrics of which none has a sample.
pub(in crate::gates) fn no_sample(metrics: &[PromMetric]) -> ReadError {
    let series = metrics.iter().map(|metric| metric.series.clone()).collect();
    PrometheusError::NoSample(series).into()
}

/// The least sample of an operator's expression.
pub(in crate::gates) fn least(body: &[u8]) -> Result<f64, ReadError> {
    let points: Vec<Point> = match data(body)? {
        QueryResult::Scalar(point) => vec![point],
        QueryResult::Vector(series) => series.into_iter().map(|series| series.value).collect(),
        QueryResult::Matrix(_) => return Err(PrometheusError::Range.into()),
        QueryResult::String(_) => return Err(PrometheusError::Text.into()),
    };
    let mut least = None;
    for (_, value) in &points {
        let value = finite(parse(value)?, "the expression")?;
        least = Some(least.map_or(value, |least: f64| least.min(value)));
    }
    least.ok_or_else(|| PrometheusError::Empty.into())
}

fn data(body: &[u8]) -> Result<QueryResult, PrometheusError> {
    let response: QueryResponse = serde_json::from_slice(body).map_err(PrometheusError::Json)?;
    match (response.status.as_str(), response.data) {
        ("success", Some(data)) => Ok(data),
        _ => Err(PrometheusError::Refused(response.error.unwrap_or(response.status))),
    }
}

fn parse(value: &str) -> Result<f64, ReadError> {
    // Rust parses +Inf and NaN as Prometheus writes them.
    value.parse().map_err(|_| ReadError::NotANumber(value.to_owned()))
}

/// The series of a metric with a label, whose value is escaped.
fn selector(name: &str, label: &str, value: &str) -> String {
    let mut quoted = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '\\' | '"' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    format!("{name}{{{label}=\"{quoted}\"}}")
}
