//! The figures of a run, over the requests that arrived within its window.

use flow::{BANDS, Span};

use super::{Gap, History, Outcome, Record, Stat};
use crate::policy::RefusalReason;

/// What an answer must keep to be a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// The longest time to the first token.
    pub ttft: Span,
    /// The longest mean time from token to token after it.
    pub tpot: Span,
}

/// How many requests ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub offered: u64,
    /// Answered in full.
    pub served: u64,
    /// Refused because there was no room to wait.
    pub full: u64,
    /// Refused because waiting had no prospect.
    pub hopeless: u64,
    /// Waited as long as they may.
    pub expired: u64,
    /// Gave way to a higher band while they waited.
    pub preempted: u64,
    /// Refused because no engine was there.
    pub no_engine: u64,
    /// The client went away.
    pub gave_up: u64,
    /// The engine failed.
    pub failed: u64,
    /// Still there when the run was cut off.
    pub open: u64,
}

/// The figures of one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSummary {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: f64,
    /// How its requests ended.
    pub counts: Counts,
    /// The time from arrival to the first token.
    pub ttft: Option<Stat>,
    /// Its service in tokens over the whole run, output counted twice.
    pub got: f64,
    /// What would have been fair.
    pub fair: f64,
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The length of the window in seconds.
    pub secs: f64,
    /// How requests ended.
    pub counts: Counts,
    /// Prompt tokens read per second.
    pub prompt_rate: f64,
    /// Output tokens per second.
    pub output_rate: f64,
    /// Requests answered per second.
    pub request_rate: f64,
    /// Requests per second that arrived in the window and were answered within the objective.
    pub goodput: f64,
    /// The time from arrival to the first token.
    pub ttft: Option<Stat>,
    /// The same by band, from best-effort to critical.
    pub ttft_by_band: [Option<Stat>; BANDS],
    /// The time at the gateway before the last attempt, by band.
    pub wait_by_band: [Option<Stat>; BANDS],
    /// The mean time from token to token in each answer.
    pub tpot: Option<Stat>,
    /// Each tenant by its number.
    pub tenants: Vec<TenantSummary>,
    /// Jobs that engines threw back for want of memory, over the whole run.
    pub preemptions: u64,
    /// Jain's index of service over entitlement among those who wanted more.
    pub jain: Option<f64>,
    /// The service gap that came nearest to what the proof allows, over the whole run.
    pub gap: Option<Gap>,
}

// === impl Slo ===

impl Default for Slo {
    fn default() -> Self {
        Self { ttft: Span::from_secs(2), tpot: Span::from_millis(100) }
    }
}

impl Slo {
    /// Whether a request was answered in full and in time.
    pub fn is_kept_by(&self, record: &Record) -> bool {
        let slow = record.tpot().is_some_and(|tpot| tpot > self.tpot);
        let late = record.ttft().is_none_or(|ttft| ttft > self.ttft);
        record.outcome == Outcome::Served && !slow && !late
    }
}

// === impl Record ===

impl Record {
    /// From arrival to the first token, if that came.
    pub fn ttft(&self) -> Option<Span> {
        (self.streamed > 0).then(|| self.first.since(self.arrival))
    }

    /// The mean time from token to token after the first, where all of two or more came.
    pub fn tpot(&self) -> Option<Span> {
        let steps = u64::from(self.streamed.checked_sub(1)?);
        let served = self.outcome == Outcome::Served;
        let nanos = self.end.since(self.first).nanos().checked_div(steps)?;
        served.then(|| Span::from_nanos(nanos))
    }

    /// From arrival to the last token, where all came.
    pub fn latency(&self) -> Option<Span> {
        (self.outcome == Outcome::Served).then(|| self.end.since(self.arrival))
    }

    /// From arrival until it was last sent to an engine, if it was.
    pub fn wait(&self) -> Option<Span> {
        self.engine.map(|_| self.sent.since(self.arrival))
    }
}

// === impl Counts ===

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        self.offered += 1;
        *match outcome {
            Outcome::Open => &mut self.open,
            Outcome::Served => &mut self.served,
            Outcome::GaveUp => &mut self.gave_up,
            Outcome::Failed => &mut self.failed,
            Outcome::Refused(RefusalReason::Full) => &mut self.full,
            Outcome::Refused(RefusalReason::Hopeless) => &mut self.hopeless,
            Outcome::Refused(RefusalReason::Expired) => &mut self.expired,
            Outcome::Refused(RefusalReason::Preempted) => &mut self.preempted,
            Outcome::Refused(RefusalReason::NoEngine) => &mut self.no_engine,
        } += 1;
    }

    fn of<'a>(records: impl Iterator<Item = &'a Record>) -> Self {
        let mut counts = Self::default();
        records.for_each(|record| counts.add(record.outcome));
        counts
    }
}

// === impl History ===

impl History {
    /// The figures of this run.
    pub fn summary(&self, slo: &Slo) -> Summary {
        let counted = |record: &&Record| self.window.holds(record.arrival);
        let records: Vec<&Record> = self.records.iter().filter(counted).collect();
        let secs = self.window.secs();
        let rate = |count: u64| if secs > 0.0 { count as f64 / secs } else { 0.0 };
        let good = records.iter().filter(|record| slo.is_kept_by(record)).count();
        Summary {
            secs,
            counts: Counts::of(records.iter().copied()),
            prompt_rate: rate(self.produced.prompt),
            output_rate: rate(self.produced.output),
            request_rate: rate(self.produced.requests),
            goodput: rate(good as u64),
            ttft: stat(&records, Record::ttft),
            ttft_by_band: by_band(&records, Record::ttft),
            wait_by_band: by_band(&records, Record::wait),
            tpot: stat(&records, Record::tpot),
            tenants: self.tenant_summaries(&records),
            preemptions: self.preemptions,
            jain: self.shares.jain(self.window),
            gap: self.ledger.worst_gap(&self.tenants),
        }
    }

    fn tenant_summaries(&self, records: &[&Record]) -> Vec<TenantSummary> {
        let mut owned: Vec<Vec<&Record>> = vec![Vec::new(); self.tenants.len()];
        for record in records {
            owned[record.tenant as usize].push(record);
        }
        let summary = |(at, owned): (usize, Vec<&Record>)| {
            let share = self.shares.of(at);
            TenantSummary {
                name: self.tenants[at].name.clone(),
                weight: self.tenants[at].weight,
                counts: Counts::of(owned.iter().copied()),
                ttft: stat(&owned, Record::ttft),
                got: share.got,
                fair: share.fair,
            }
        };
        owned.into_iter().enumerate().map(summary).collect()
    }
}

fn stat(records: &[&Record], measure: fn(&Record) -> Option<Span>) -> Option<Stat> {
    Stat::of(records.iter().filter_map(|record| measure(record)).collect())
}

fn by_band(records: &[&Record], measure: fn(&Record) -> Option<Span>) -> [Option<Stat>; BANDS] {
    std::array::from_fn(|band| {
        let inside = records.iter().filter(|record| record.band as usize == band);
        Stat::of(inside.filter_map(|record| measure(record)).collect())
    })
}
