//! The settings that gates of all kinds have.

use std::time::Duration;

use super::error::SetupError;
use super::kinds::{ConstantGate, GateKind, VARIANTS, declaration};
use crate::schema::ValueType::{self, Keyword, Number, Text};
use crate::schema::{
    Keyword as Spelled, Keywords, Location, NOT_EMPTY, Node, Origin, Range, Report, Section,
    SectionSchema, Table, Value, key, spelling, words,
};

/// The shortest default of `stale_after`.
const STALE_AFTER_MIN: Duration = Duration::from_secs(5);
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) const POSITIVE: ValueType = Number(Range::above(0.0, 1e12));

/// The schema of an entry in `dispatch.gates`.
pub(crate) const GATES: SectionSchema = SectionSchema::new(
    "dispatch.gates",
    &[
        key("name", Text(&NOT_EMPTY), "The name by which queues refer to the gate.").required(),
        key("kind", ValueType::Variant, "The source of the gate's readings (see below).")
            .required(),
        key(
            "baseline",
            Number(Range::closed(0.0, 1.0)),
            "The free share that is left to other work. At 1 the gate is closed.",
        )
        .default("0.2"),
        key(
            "capacity",
            POSITIVE,
            "What the whole system can have at once. The kinds gateway, prometheus-budget and aimd \
             find it themselves.",
        ),
        key("capacity_per_server", POSITIVE, "The same for each server that is ready."),
        key("ready_metric", Text(&NOT_EMPTY), "The metric that counts the ready servers.")
            .unset("`inference_pool_ready_pods`, `llm_d_epp_ready_endpoints`"),
        key(
            "unit",
            Keyword(words::<Unit>),
            "What is counted. Tokens are those of the prompt and of the expected output.",
        )
        .default("requests"),
        key(
            "interval",
            ValueType::Duration { min: INTERVAL_MIN, max: HOUR },
            "The time between two readings.",
        )
        .default("1s"),
        key(
            "stale_after",
            ValueType::Duration { min: INTERVAL_MIN, max: DAY },
            "The age at which a reading no longer counts. Without a reading nothing is sent.",
        )
        .unset(
            "three intervals, at least 5s; with Prometheus also three of its scrapes, which are \
             learnt",
        ),
        key(
            "hold",
            ValueType::Duration { min: Duration::ZERO, max: HOUR },
            "How long at least nothing is sent after an overload.",
        )
        .default("1s"),
    ],
)
.variants(VARIANTS)
.doc(
    "A gate reads how free a system is, and allows `capacity × (free − baseline)` messages. Queues \
     may name the gates `gateway` and `aimd` without an entry here. Each kind has keys of its own.",
);

/// One gate.
#[derive(Clone, Debug, PartialEq)]
pub struct GateSettings {
    /// The name by which queues refer to it.
    pub name: String,
    /// The source of its readings.
    pub kind: GateKind,
    /// The free share that is left to other work.
    pub baseline: f64,
    /// The amount of work that the system can hold.
    pub capacity: Capacity,
    /// The unit of the budget.
    pub unit: Unit,
    /// The time between two readings.
    pub interval: Duration,
    /// The age at which a reading no longer counts, if it is configured.
    pub stale_after: Option<Duration>,
    /// The least time without a new request after an overload.
    pub hold: Duration,
    /// Whether the gateway made it for queues that name none: no file has it.
    pub implied: bool,
}

/// The amount of work that a system can hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// The source of the readings knows it.
    FromSource,
    /// A fixed amount.
    Fixed(f64),
    /// An amount for each server that is ready.
    PerServer {
        /// The capacity of one server.
        each: f64,
        /// The metric that counts the ready servers; the usual ones if `None`.
        ready: Option<String>,
    },
}

/// The unit of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Requests.
    #[default]
    Requests,
    /// Tokens of the prompt and of the output, estimated.
    Tokens,
    /// Bytes of the request body.
    Bytes,
}

/// Reads a gate. Returns `None` if its kind or a required key is missing, which was reported.
pub(crate) fn read(section: &Section<'_>) -> Option<GateSettings> {
    let kind = declaration(section.kind()?)?;
    let capacity = read_capacity(section);
    let is_sized = section.has("capacity") || section.has("capacity_per_server");
    if !is_sized && !kind.knows_capacity {
        let what = "is missing: say how many requests the whole system can have at once";
        section.refuse("capacity", what);
    }
    if matches!(capacity, Capacity::PerServer { .. }) && !kind.counts_servers {
        let what = "cannot be used: this kind does not know how many servers are ready";
        section.refuse("capacity_per_server", what);
    }
    let interval: Duration = section.get("interval");
    let (kind, baseline) = ((kind.read)(section)?, section.get("baseline"));
    if let GateKind::Constant(ConstantGate { free }) = &kind
        && *free <= baseline
    {
        let what = format!("is {free}, not above the baseline {baseline}: the gate never opens");
        section.notice("value", what);
    }
    Some(GateSettings {
        name: section.given("name").unwrap_or_default(),
        kind,
        baseline,
        capacity,
        unit: section.get("unit"),
        interval,
        stale_after: section.given("stale_after"),
        hold: section.get("hold"),
        implied: false,
    })
}

/// A gate of this kind, with the name of the kind and all defaults.
pub(crate) fn with_defaults(kind: &str) -> Option<GateSettings> {
    let report = Report::new(None);
    let text = || Node::given(Value::Text(kind.into()), String::new(), Origin::File);
    let table = Table::from([("name".to_owned(), text()), ("kind".to_owned(), text())]);
    let gate = read(&Section::new(&GATES, table, Location::default(), &report))?;
    Some(GateSettings { implied: true, ..gate })
}

/// Checks that a capacity is a positive number.
pub(super) fn check_positive(capacity: f64) -> Result<(), SetupError> {
    match capacity.is_finite() && capacity > 0.0 {
        true => Ok(()),
        false => Err(SetupError::BadCapacity(capacity)),
    }
}

fn read_capacity(section: &Section<'_>) -> Capacity {
    let (fixed, each) = (section.given("capacity"), section.given("capacity_per_server"));
    if fixed.is_some() && each.is_some() {
        section.refuse("capacity_per_server", "is given beside capacity: leave one out");
    }
    match (fixed, each) {
        (Some(fixed), _) => Capacity::Fixed(fixed),
        (None, Some(each)) => Capacity::PerServer { each, ready: section.given("ready_metric") },
        (None, None) => Capacity::FromSource,
    }
}

// === impl GateSettings ===

impl GateSettings {
    /// Checks the settings that the budget uses as they are. Settings need not come from a file.
    pub(super) fn check(&self) -> Result<(), SetupError> {
        let kind = self.kind.as_kind().declaration();
        match self.capacity {
            Capacity::FromSource if !kind.knows_capacity => return Err(SetupError::NoCapacity),
            Capacity::FromSource => {}
            Capacity::Fixed(capacity) => check_positive(capacity)?,
            Capacity::PerServer { .. } if !kind.counts_servers => {
                return Err(SetupError::NoServerCount);
            }
            Capacity::PerServer { each, .. } => check_positive(each)?,
        }
        if self.interval.is_zero() || self.valid_for() < self.interval {
            return Err(SetupError::Interval);
        }
        Ok(())
    }

    /// The age at which a reading no longer counts, unless its source learns that.
    pub(super) fn valid_for(&self) -> Duration {
        self.stale_after.unwrap_or((self.interval * 3).max(STALE_AFTER_MIN))
    }
}

// === impl Unit ===

impl Unit {
    /// The name in a configuration.
    pub(super) fn name(self) -> &'static str {
        spelling(self)
    }
}

impl Spelled for Unit {
    const SPELLINGS: Keywords<Self> =
        &[("requests", Self::Requests), ("tokens", Self::Tokens), ("bytes", Self::Bytes)];
}
