//! The values of `/metrics`.

use std::collections::BTreeMap;

/// One scrape of all metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    kinds: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: String,
    value: f64,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn read(text: &str) -> Self {
        let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let kinds = kinds.filter_map(|line| line.split_once(' '));
        let kinds = kinds.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
        let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        Self { kinds, samples: samples.map(Sample::read).collect() }
    }

    /// The sum over all series of this name; zero if there is none.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.sum_where(name, "")
    }

    /// The sum over the series whose labels contain this text.
    pub(crate) fn sum_where(&self, name: &str, labels: &str) -> f64 {
        let fits = |sample: &&Sample| sample.name == name && sample.labels.contains(labels);
        self.samples.iter().filter(fits).map(|sample| sample.value).sum()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.has_where(name, "")
    }

    /// Whether there is a series of this name whose labels contain this text.
    pub(crate) fn has_where(&self, name: &str, labels: &str) -> bool {
        self.samples.iter().any(|sample| sample.name == name && sample.labels.contains(labels))
    }

    /// Every gauge, with its labels.
    pub(crate) fn gauges(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        let is_gauge =
            |sample: &&Sample| self.kinds.get(&sample.name).is_some_and(|kind| kind == "gauge");
        let gauges = self.samples.iter().filter(is_gauge);
        gauges.map(|sample| (sample.name.as_str(), sample.labels.as_str(), sample.value))
    }
}

// === impl Sample ===

impl Sample {
    fn read(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        Self { name: name.into(), labels: labels.trim_end_matches('}').into(), value }
    }
}
