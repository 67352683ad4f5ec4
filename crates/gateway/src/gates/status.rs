//! The status of a gate, for people and programs.

use serde::Serialize;

/// The values of a gate for the metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GateGauge {
    pub(crate) name: String,
    /// The free share; `None` if the gate cannot be read.
    pub(crate) free: Option<f64>,
    /// The rest of the budget.
    pub(crate) left: u64,
    pub(crate) in_flight: u64,
}

/// One gate at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GateStatus {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Whether the gateway made it, and no file has it.
    pub(crate) implied: bool,
    /// The source of its readings.
    pub(crate) source: String,
    /// The metric or the numbers behind the last reading, if they vary.
    pub(crate) by: Option<String>,
    /// The state as a text.
    pub(crate) state: String,
    pub(crate) open: bool,
    /// Whether it sends no more for now because its own requests use what it allows.
    pub(crate) spent: bool,
    /// Whether the reading is too old to be used, which the state says as well.
    #[serde(skip)]
    pub(crate) stale: bool,
    /// The free share *D*, and the baseline *B* up to which the gate is closed.
    pub(crate) value: Option<f64>,
    pub(crate) threshold: f64,
    /// The same as a load.
    pub(crate) saturation: Option<f64>,
    pub(crate) closes_at_saturation: f64,
    /// The capacity of the whole system, and the amount at which the gate closes.
    pub(crate) system: Option<f64>,
    pub(crate) closes_at: Option<f64>,
    /// The unit of all amounts.
    pub(crate) unit: &'static str,
    /// The budget of this dispatcher for the reading; a negative amount must end first.
    pub(crate) n: Option<i64>,
    /// The amount in flight that the reading does not contain.
    pub(crate) taken: Option<i64>,
    /// Our requests in flight, and their total amount.
    pub(crate) in_flight: u64,
    pub(crate) held: u64,
    pub(crate) left: u64,
    /// The age of the reading; `None` if there is none, or if its source does not say.
    pub(crate) age_seconds: Option<f64>,
}

/// The column heads of the table.
const HEADS: [&str; 11] =
    ["GATE", "KIND", "D", "B", "FULL", "CLOSES AT", "SYSTEM", "N", "IN FLIGHT", "LEFT", "AGE"];

/// One line of the table: the first two columns are text, the others numbers.
fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (at, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let cell = if at < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
        text.push_str(&cell);
        text.push_str("  ");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

// === impl GateStatus ===

impl GateStatus {
    /// All gates as a table: one line of numbers for each, then its state and its source.
    pub(crate) fn table(gates: &[Self]) -> String {
        let rows: Vec<[String; HEADS.len()]> = gates.iter().map(Self::row).collect();
        let mut widths = HEADS.map(str::len);
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = line(&HEADS.map(str::to_owned), &widths);
        for (gate, row) in gates.iter().zip(&rows) {
            text.push_str(&line(row, &widths));
            text.push_str(&format!("    {}\n    source: {}\n", gate.state, gate.source));
            if let Some(by) = &gate.by {
                text.push_str(&format!("    reading: {by}\n"));
            }
        }
        text
    }

    /// The values for the metrics.
    pub(super) fn gauge(&self) -> GateGauge {
        let Self { name, value, left, in_flight, .. } = self;
        GateGauge { name: name.clone(), free: *value, left: *left, in_flight: *in_flight }
    }

    fn row(&self) -> [String; HEADS.len()] {
        let share = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        let count = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.0}"));
        [
            self.name.clone(),
            self.kind.into(),
            share(self.value),
            share(Some(self.threshold)),
            share(self.saturation),
            count(self.closes_at),
            format!("{} {}", count(self.system), self.unit),
            self.n.map_or("-".into(), |n| n.to_string()),
            self.in_flight.to_string(),
            self.left.to_string(),
            self.age_seconds.map_or("-".into(), |age| format!("{age:.1} s")),
        ]
    }
}
