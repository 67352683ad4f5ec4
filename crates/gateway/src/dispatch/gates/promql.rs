//! What is asked of Prometheus, and what its answers mean. Nothing here does IO.
//!
//! A pool's numbers go by several names: those of today and those of before. All are asked for in
//! one expression, so that they are of one moment, and the first that has a sample counts. With
//! each number comes the time of its oldest sample, by Prometheus's own clock: a value that the
//! server went on repeating after its target was lost is as old as it is. A target that is known to
//! be down has no sample at all.
//!
//! Of several pickers the fullest decides, and what they hold is added up. Of several samples that
//! an expression of the operator's own gives, the least decides.

use serde::Deserialize;

use super::reading::sound;

/// The label that tells the parts of one answer apart.
const PART: &str = "tidegate";

/// A number and what it means.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PromMetric {
    /// The series that it is made of.
    pub(super) series: String,
    /// The expression, which gives one sample without labels.
    value: String,
    reads: Quantity,
}

/// What a number says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    /// How full the pool is.
    Saturation,
    /// How many requests there are at all servers.
    Total,
    /// How many requests there are at each server.
    Mean,
    /// How many servers are ready.
    Ready,
}

/// One number out of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) value: f64,
    /// How old it was when it was asked for, in seconds.
    pub(super) age: f64,
    /// When it was taken, in seconds, by the clock of Prometheus.
    pub(super) taken: f64,
}

/// The number that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelectedSample<'a> {
    pub(super) number: &'a PromMetric,
    pub(super) sample: Sample,
}

/// The beginning of an answer's body.
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

/// A time in seconds and a number in words.
type Point = (f64, String);

// === impl PromMetric ===

impl PromMetric {
    /// The free share by its value, where each of so many servers takes so many requests.
    pub(super) fn free(&self, value: f64, each: Option<f64>, servers: Option<f64>) -> f64 {
        let (each, servers) = (each.unwrap_or(0.0), servers.unwrap_or(0.0));
        let part = |room: f64| if room > 0.0 { 1.0 - value / room } else { 0.0 };
        match self.reads {
            Quantity::Saturation => 1.0 - value,
            Quantity::Mean => part(each),
            Quantity::Total => part(each * servers),
            Quantity::Ready => 0.0,
        }
    }

    /// The names of a pool's saturation.
    pub(super) fn saturations(pool: &str) -> Vec<Self> {
        let names = [
            "llm_d_epp_flow_control_pool_saturation",
            "inference_extension_flow_control_pool_saturation",
        ];
        let series = names.map(|name| selector(name, "inference_pool", pool));
        series.into_iter().map(|series| Self::new(series, Quantity::Saturation)).collect()
    }

    /// What tells how full an endpoint picker is, best first: its own queue, the queues of its
    /// servers, what runs at its servers.
    pub(super) fn loads(pool: &str) -> Vec<Self> {
        let loads = [
            ("llm_d_epp_flow_control_queue_size", "inference_pool", Quantity::Total),
            ("inference_extension_flow_control_queue_size", "inference_pool", Quantity::Total),
            ("llm_d_epp_per_endpoint_queue_size", "name", Quantity::Mean),
            ("inference_pool_per_pod_queue_size", "name", Quantity::Mean),
            ("vllm:num_requests_running", "inference_pool", Quantity::Total),
        ];
        let number = |(name, label, reads)| Self::new(selector(name, label, pool), reads);
        loads.into_iter().map(number).collect()
    }

    /// What tells how many servers of a pool are ready.
    pub(super) fn readies(pool: Option<&str>, metric: Option<&str>) -> Vec<Self> {
        let series: Vec<String> = match (metric, pool) {
            (Some(metric), _) => vec![metric.to_owned()],
            (None, Some(pool)) => {
                super::scrape::READY.map(|name| selector(name, "name", pool)).into()
            }
            (None, None) => super::scrape::READY.map(str::to_owned).into(),
        };
        series.into_iter().map(|series| Self::new(series, Quantity::Ready)).collect()
    }

    fn new(series: String, reads: Quantity) -> Self {
        let value = match reads {
            // Aggregations pass over what is not a number, except sums.
            Quantity::Saturation => format!("max({series}) + 0 * sum({series})"),
            Quantity::Total => format!("sum({series})"),
            Quantity::Mean => format!("avg({series})"),
            // Pickers that stand beside each other all tell of the same servers.
            Quantity::Ready => {
                format!("max(sum by (job, instance) ({series})) + 0 * sum({series})")
            }
        };
        Self { series, value, reads }
    }
}

/// One expression for several numbers and the times of their samples.
pub(super) fn question(numbers: &[PromMetric]) -> String {
    let part = |(at, number): (usize, &PromMetric)| {
        let PromMetric { value, series, .. } = number;
        let value = format!("label_replace({value}, \"{PART}\", \"value {at}\", \"\", \"\")");
        let time = format!("min(timestamp({series}))");
        format!("{value} or label_replace({time}, \"{PART}\", \"time {at}\", \"\", \"\")")
    };
    numbers.iter().enumerate().map(part).collect::<Vec<_>>().join(" or ")
}

/// The path that asks for an expression.
pub(super) fn path(expression: &str) -> String {
    let mut path = String::from("/api/v1/query?query=");
    for byte in expression.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte));
            }
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    path
}

/// The numbers in the answer to [`question`], in its order; nothing for those without a sample.
pub(super) fn numbers(body: &[u8], count: usize) -> Result<Vec<Option<Sample>>, String> {
    let QueryResult::Vector(series) = data(body)? else {
        return Err("Prometheus answered with something else than it was asked for".into());
    };
    let find = |part: String| {
        let mut fitting = series.iter().filter(|series| series.metric.get(PART) == Some(&part));
        fitting.next().map(|series| &series.value)
    };
    let number = |at: usize| {
        let Some((asked, value)) = find(format!("value {at}")) else { return Ok(None) };
        let Some((_, taken)) = find(format!("time {at}")) else { return Ok(None) };
        let (value, taken) = (parse(value)?, parse(taken)?);
        Ok(Some(Sample { value, taken, age: (asked - taken).max(0.0) }))
    };
    (0..count).map(number).collect()
}

/// The first number that has a sample, of those that can be used: some need to know how many
/// servers are ready.
pub(super) fn first<'a>(
    numbers: &'a [PromMetric],
    samples: &[Option<Sample>],
    ready: bool,
) -> Option<SelectedSample<'a>> {
    let usable = |number: &PromMetric| ready || number.reads != Quantity::Total;
    let found = numbers.iter().zip(samples).filter(|(number, _)| usable(number));
    found.filter_map(|(number, sample)| Some(SelectedSample { number, sample: (*sample)? })).next()
}

/// What to say where nothing answers.
pub(super) fn missing(numbers: &[PromMetric]) -> String {
    let shown: Vec<&str> = numbers.iter().map(|number| number.series.as_str()).collect();
    format!("nothing is known of any of {}", shown.join(", "))
}

/// The least of what an expression of the operator's own gives.
pub(super) fn least(body: &[u8]) -> Result<f64, String> {
    let points: Vec<Point> = match data(body)? {
        QueryResult::Scalar(point) => vec![point],
        QueryResult::Vector(series) => series.into_iter().map(|series| series.value).collect(),
        QueryResult::Matrix(_) => return Err("the expression gives a range, not a moment".into()),
        QueryResult::String(_) => return Err("the expression gives a text, not a number".into()),
    };
    let mut least = None;
    for (_, value) in &points {
        let value = sound(parse(value)?, "the expression")?;
        least = Some(least.map_or(value, |least: f64| least.min(value)));
    }
    least.ok_or_else(|| "the expression gives no sample".into())
}

fn data(body: &[u8]) -> Result<QueryResult, String> {
    let answer: QueryResponse = serde_json::from_slice(body)
        .map_err(|error| format!("what it answered is not Prometheus's: {error}"))?;
    match (answer.status.as_str(), answer.data) {
        ("success", Some(data)) => Ok(data),
        _ => Err(format!("Prometheus refused: {}", answer.error.unwrap_or(answer.status))),
    }
}

fn parse(value: &str) -> Result<f64, String> {
    // Prometheus writes +Inf, which is a number here too.
    value.parse().map_err(|_| format!("{value:?} is not a number"))
}

/// The series of a name with a label. The label's value is whatever the operator calls his pool.
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
