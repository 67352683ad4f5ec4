//! Reads figures from a page of metrics.

/// The gauge of waiting requests.
pub(crate) const QUEUE_DEPTH: &str = "nexus_queue_depth";

/// The sum over the series of a metric; nothing if there is none.
pub(crate) fn sum(metrics: &str, name: &str) -> Option<f64> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let series = lines.filter(|rest| rest.starts_with(['{', ' ']));
    let values = series.map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
    values.reduce(|sum, value| Some(sum? + value?))?
}
