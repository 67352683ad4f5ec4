//! Curves over time from the records of a run, in equal slices of it.

use flow::Span;

use crate::measure::{History, Record, Slo, Stat};
use crate::scenario::Scope;

/// Slices of a run: enough to see a minute of trouble in an hour, few enough that each has a
/// median.
const SLICES_MAX: usize = 90;
const SLICES_MIN: usize = 10;
/// So many requests in a slice, on average, make a line rather than dots.
const RECORDS_PER_SLICE: usize = 5;

/// The curves that compare policies.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    /// Seconds to the first token, the median by slice, for each group of requests that the
    /// scenario looks at.
    pub(super) ttft: Vec<Vec<(f64, f64)>>,
    /// Good answers per second, by slice.
    pub(super) goodput: Vec<(f64, f64)>,
}

/// The records of a run by the slice in which they arrived.
pub(super) struct Slices<'a> {
    width: f64,
    slices: Vec<Vec<&'a Record>>,
}

// === impl Curves ===

impl Curves {
    pub(super) fn new(history: &History, slo: &Slo, groups: &[Scope]) -> Self {
        let slices = Slices::new(history, |_| true);
        let good = |records: &[&Record]| {
            records.iter().filter(|record| slo.is_kept_by(record)).count() as f64
        };
        let group = |scope: &Scope| {
            Slices::new(history, |record| scope.holds(history, record)).points(|stat| stat.p50)
        };
        Self { ttft: groups.iter().map(group).collect(), goodput: slices.rates(good) }
    }
}

// === impl Slices ===

impl<'a> Slices<'a> {
    /// The records that count, from the start of the run to the end of its arrivals.
    pub(super) fn new(history: &'a History, counts: impl Fn(&Record) -> bool) -> Self {
        let records: Vec<&Record> =
            history.records.iter().filter(|record| counts(record)).collect();
        let count = (records.len() / RECORDS_PER_SLICE).clamp(SLICES_MIN, SLICES_MAX);
        let length = history.window.to.nanos().max(1);
        let mut slices = vec![Vec::new(); count];
        for record in records {
            let at = u128::from(record.arrival.nanos()) * count as u128 / u128::from(length);
            if let Some(slice) = slices.get_mut(at as usize) {
                slice.push(record);
            }
        }
        Self { width: length as f64 * 1e-9 / count as f64, slices }
    }

    /// A point of the distribution of times to the first token, where there are any.
    pub(super) fn points(&self, point: fn(&Stat) -> Span) -> Vec<(f64, f64)> {
        let of = |records: &[&Record]| {
            let stat = Stat::of(records.iter().filter_map(|record| record.ttft()).collect());
            stat.map_or(f64::NAN, |stat| point(&stat).secs_f64())
        };
        self.at_middles(of)
    }

    /// A count in each slice, per second.
    fn rates(&self, count: impl Fn(&[&Record]) -> f64) -> Vec<(f64, f64)> {
        self.at_middles(|records| count(records) / self.width)
    }

    fn at_middles(&self, of: impl Fn(&[&Record]) -> f64) -> Vec<(f64, f64)> {
        let middle = |at: usize| (at as f64 + 0.5) * self.width;
        self.slices.iter().enumerate().map(|(at, records)| (middle(at), of(records))).collect()
    }
}
