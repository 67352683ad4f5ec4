//! The numbers that a scenario can expect something of.

use flow::{AutoBound, BANDS, Band, Span, Time};

use super::{ScenarioError, duration};
use crate::measure::{EngineMoment, History, Outcome, Record, Slo, Stat, Window};

/// A number that a run gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The measured quantity.
    pub measure: Measure,
    /// Over which requests.
    pub scope: Scope,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Prompt and output tokens per second.
    Throughput,
    /// Requests answered per second.
    Requests,
    /// Requests per second answered within the objective.
    Goodput,
    /// The part of the requests answered in full that were answered within the objective.
    GoodputShare,
    /// Requests per second answered in full whose first token came within this time.
    Within(Span),
    /// The part of the requests that was answered in full.
    Served,
    /// The part that the gateway refused or let expire.
    Refused,
    /// The part whose clients gave up.
    GaveUp,
    /// The part that failed for good because its engine did.
    Failed,
    /// The part that had not ended when the run was cut off.
    Open,
    /// The part whose first token came.
    Started,
    /// Requests at the engines, as a mean over the samples.
    InFlight,
    /// The most requests at the engines in any sample.
    InFlightMax,
    /// The part of the time in which this bound of `auto` kept an engine closed.
    Bound(AutoBound),
    /// Jain's index over the tenants that wanted more.
    Jain,
    /// The largest service gap as a part of the bound that is proven.
    Gap,
    /// Jobs that engines threw back for want of memory.
    Preemptions,
    /// The part of all prompt tokens that engines found in their caches.
    Cached,
    /// Hours of engines, those that start or stop included.
    EngineHours,
    /// Engines as a mean over the time that counts.
    Engines,
    /// Seconds from arrival to the first token.
    Ttft(Point),
    /// Seconds from arrival to the last token.
    Latency(Point),
    /// Seconds at the gateway.
    Wait(Point),
    /// Seconds from token to token.
    Tpot(Point),
}

/// A point of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Half are below.
    P50,
    /// Nearly all are below.
    P99,
    /// The mean.
    Mean,
    /// The largest.
    Max,
}

/// Which requests count; all of them where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Those of this band.
    pub band: Option<Band>,
    /// Those of this tenant.
    pub tenant: Option<String>,
    /// Those of all but these tenants.
    pub except: Vec<String>,
    /// Those that arrived from here on.
    pub from: Option<Time>,
    /// Those that arrived before this.
    pub until: Option<Time>,
}

const PLAIN: [(&str, Measure); 22] = [
    ("throughput", Measure::Throughput),
    ("requests", Measure::Requests),
    ("goodput", Measure::Goodput),
    ("goodput-share", Measure::GoodputShare),
    ("served", Measure::Served),
    ("refused", Measure::Refused),
    ("gave-up", Measure::GaveUp),
    ("failed", Measure::Failed),
    ("open", Measure::Open),
    ("started", Measure::Started),
    ("in-flight", Measure::InFlight),
    ("in-flight-max", Measure::InFlightMax),
    ("bound.unstarted", Measure::Bound(AutoBound::Unstarted)),
    ("bound.tokens", Measure::Bound(AutoBound::Tokens)),
    ("bound.slots", Measure::Bound(AutoBound::Slots)),
    ("bound.pace", Measure::Bound(AutoBound::Pace)),
    ("jain", Measure::Jain),
    ("gap", Measure::Gap),
    ("preemptions", Measure::Preemptions),
    ("cached", Measure::Cached),
    ("engine-hours", Measure::EngineHours),
    ("engines", Measure::Engines),
];
/// A figure of a distribution, once the point is known.
type AtPoint = fn(Point) -> Measure;

const SPREAD: [(&str, AtPoint); 4] = [
    ("ttft", Measure::Ttft),
    ("latency", Measure::Latency),
    ("wait", Measure::Wait),
    ("tpot", Measure::Tpot),
];
const POINTS: [(&str, Point); 4] =
    [("p50", Point::P50), ("p99", Point::P99), ("mean", Point::Mean), ("max", Point::Max)];
const WITHIN: &str = "within.";
pub(crate) const BAND_NAMES: [&str; BANDS] = ["best-effort", "normal", "high", "critical"];

// === impl Measure ===

impl Measure {
    pub(super) fn parse(key: String, text: &str) -> Result<Self, ScenarioError> {
        let plain = PLAIN.iter().find(|(name, _)| *name == text).map(|&(_, measure)| measure);
        let spread = || {
            let (name, point) = text.split_once('.')?;
            let (_, make) = SPREAD.iter().find(|(known, _)| *known == name)?;
            let (_, point) = POINTS.iter().find(|(known, _)| *known == point)?;
            Some(make(*point))
        };
        let within = || Some(Self::Within(duration::parse(text.strip_prefix(WITHIN)?)?));
        plain.or_else(spread).or_else(within).ok_or_else(|| {
            let plain = PLAIN.map(|(name, _)| name).join(", ");
            let spread = SPREAD.map(|(name, _)| name).join(", ");
            let hint = format!(
                "one of {plain}; one of {spread} with .p50, .p99, .mean or .max; or within.2s"
            );
            ScenarioError::new(key, format!("`{text}` is not a figure; give {hint}"))
        })
    }

    /// Whether it can be had of a part of the requests.
    pub(super) fn has_scope(self) -> bool {
        let all = [Self::Throughput, Self::Requests, Self::Jain, Self::Gap];
        let counted = [Self::Preemptions, Self::Cached, Self::EngineHours, Self::Engines];
        !all.contains(&self) && !counted.contains(&self) && !self.is_sampled()
    }

    /// Whether it comes from samples of the engines: it can be had of a part of the time, but
    /// of all requests alone.
    pub(super) fn is_sampled(self) -> bool {
        matches!(self, Self::InFlight | Self::InFlightMax | Self::Bound(_))
    }

    fn name(self) -> String {
        if let Self::Within(limit) = self {
            return format!("{WITHIN}{}s", limit.secs_f64());
        }
        if let Some((name, _)) = PLAIN.iter().find(|(_, measure)| *measure == self) {
            return (*name).to_owned();
        }
        let found = SPREAD.iter().flat_map(|(name, make)| {
            POINTS.iter().map(move |(point, at)| (format!("{name}.{point}"), make(*at)))
        });
        found.into_iter().find(|(_, measure)| *measure == self).map_or_else(String::new, |f| f.0)
    }
}

// === impl Figure ===

impl Figure {
    /// A figure of all requests.
    pub fn of_all(measure: Measure) -> Self {
        Self { measure, scope: Scope::default() }
    }

    /// A figure of one band.
    pub fn of_band(measure: Measure, band: Band) -> Self {
        Self { measure, scope: Scope { band: Some(band), ..Scope::default() } }
    }

    /// Its value in a run; nothing where no request counts for it.
    pub fn value(&self, history: &History, slo: &Slo) -> Option<f64> {
        let secs = history.window.secs();
        let rate = |count: u64| (secs > 0.0).then(|| count as f64 / secs);
        let produced = history.produced;
        match self.measure {
            Measure::Throughput => rate(produced.prompt + produced.output),
            Measure::Requests => rate(produced.requests),
            Measure::Goodput => self.rate(history, |record| slo.is_kept_by(record)),
            Measure::Within(limit) => self.rate(history, |record| record.began_within(limit)),
            Measure::GoodputShare => {
                let served = |record: &&Record| record.outcome == Outcome::Served;
                part(self.records(history).filter(served), |record| slo.is_kept_by(record))
            }
            Measure::Served => self.part(history, |outcome| outcome == Outcome::Served),
            Measure::Refused => {
                self.part(history, |outcome| matches!(outcome, Outcome::Refused(_)))
            }
            Measure::GaveUp => self.part(history, |outcome| outcome == Outcome::GaveUp),
            Measure::Failed => self.part(history, |outcome| outcome == Outcome::Failed),
            Measure::Open => self.part(history, |outcome| outcome == Outcome::Open),
            Measure::Started => part(self.records(history), |record| record.streamed > 0),
            Measure::InFlight => mean(&self.samples(history, in_flight)),
            Measure::InFlightMax => {
                self.samples(history, in_flight).into_iter().max_by(f64::total_cmp)
            }
            Measure::Bound(bound) => mean(&self.samples(history, |engines| {
                let closed = engines.iter().filter(|engine| engine.binding == Some(bound));
                closed.count() as f64 / engines.len().max(1) as f64
            })),
            Measure::Jain => history.shares.jain(history.window),
            Measure::Gap => {
                history.ledger.worst_gap(&history.tenants).map(|gap| gap.gap / gap.bound)
            }
            Measure::Preemptions => Some(history.preemptions as f64),
            Measure::Cached => {
                let (cached, asked) = history.prefix_hits;
                (asked > 0).then(|| cached as f64 / asked as f64)
            }
            Measure::EngineHours => Some(history.engine_secs / 3600.0),
            Measure::Engines => (secs > 0.0).then(|| history.engine_secs / secs),
            Measure::Ttft(point) => self.point(history, point, Record::ttft),
            Measure::Latency(point) => self.point(history, point, Record::latency),
            Measure::Wait(point) => self.point(history, point, Record::wait),
            Measure::Tpot(point) => self.point(history, point, Record::tpot),
        }
    }

    /// The length of the time in which requests count.
    fn secs(&self, history: &History) -> f64 {
        let Window { from, to } = history.window;
        let from = self.scope.from.map_or(from, |start| start.max(from));
        let to = self.scope.until.map_or(to, |end| end.min(to));
        Window { from, to: to.max(from) }.secs()
    }

    /// A value in each of the samples that count.
    fn samples(&self, history: &History, value: impl Fn(&[EngineMoment]) -> f64) -> Vec<f64> {
        let counts = |at: Time| history.window.holds(at) && self.scope.is_within(at);
        let samples = history.series.moments.iter().filter(|moment| counts(moment.at));
        samples.map(|moment| value(&moment.engines)).collect()
    }

    /// How many of the requests are like this, for each second in which requests count.
    fn rate(&self, history: &History, like: impl Fn(&Record) -> bool) -> Option<f64> {
        let count = self.records(history).filter(|record| like(record)).count();
        let secs = self.secs(history);
        (secs > 0.0).then(|| count as f64 / secs)
    }

    /// The part of the requests that ended like this.
    fn part(&self, history: &History, like: fn(Outcome) -> bool) -> Option<f64> {
        part(self.records(history), |record| like(record.outcome))
    }

    fn point(
        &self,
        history: &History,
        point: Point,
        of: fn(&Record) -> Option<Span>,
    ) -> Option<f64> {
        let stat = Stat::of(self.records(history).filter_map(of).collect())?;
        let span = match point {
            Point::P50 => stat.p50,
            Point::P99 => stat.p99,
            Point::Mean => stat.mean,
            Point::Max => stat.max,
        };
        Some(span.secs_f64())
    }

    fn records<'a>(&'a self, history: &'a History) -> impl Iterator<Item = &'a Record> {
        let counts = move |record: &&Record| {
            history.window.holds(record.arrival) && self.scope.holds(history, record)
        };
        history.records.iter().filter(counts)
    }
}

/// The requests at all engines together.
fn in_flight(engines: &[EngineMoment]) -> f64 {
    engines.iter().map(|engine| f64::from(engine.in_flight)).sum()
}

/// The mean of values; nothing where there is none.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The part of these requests that is like this; nothing where there are none.
fn part<'a>(
    records: impl Iterator<Item = &'a Record>,
    like: impl Fn(&Record) -> bool,
) -> Option<f64> {
    let mut counts = [0u64; 2];
    records.for_each(|record| counts[usize::from(like(record))] += 1);
    let all = counts[0] + counts[1];
    (all > 0).then(|| counts[1] as f64 / all as f64)
}

// === impl Scope ===

impl Scope {
    /// Whether a request counts.
    pub(crate) fn holds(&self, history: &History, record: &Record) -> bool {
        let name = &history.tenants[record.tenant as usize].name;
        let Self { band, tenant, except, .. } = self;
        self.is_within(record.arrival)
            && band.is_none_or(|band| record.band == band)
            && tenant.as_ref().is_none_or(|tenant| name == tenant)
            && !except.contains(name)
    }

    /// Whether a moment lies between `from` and `until`.
    fn is_within(&self, at: Time) -> bool {
        self.from.is_none_or(|from| at >= from) && self.until.is_none_or(|until| at < until)
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { band, tenant, except, from, until } = self;
        if let Some(band) = band {
            write!(f, " of {}", BAND_NAMES[*band as usize])?;
        }
        if let Some(tenant) = tenant {
            write!(f, " of {tenant}")?;
        }
        if !except.is_empty() {
            write!(f, " of all but {}", except.join(", "))?;
        }
        if let Some(from) = from {
            write!(f, " from {}s", from.since(Time::ZERO).secs_f64())?;
        }
        if let Some(until) = until {
            write!(f, " until {}s", until.since(Time::ZERO).secs_f64())?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.measure.name(), self.scope)
    }
}
