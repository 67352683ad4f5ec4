//! What a gate sees and makes of it, for people and programs.

use serde::Serialize;

use crate::observe::dispatch::GateGauge;

/// One gate at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GateStatus {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Where it looks.
    pub(crate) source: String,
    /// What said it this time, where that is not always the same.
    pub(crate) by: Option<String>,
    /// How it is, in words.
    pub(crate) state: String,
    pub(crate) open: bool,
    /// The free share, D, and the one up to which it is closed, B.
    pub(crate) value: Option<f64>,
    pub(crate) threshold: f64,
    /// The same as how full it is.
    pub(crate) saturation: Option<f64>,
    pub(crate) closes_at_saturation: f64,
    /// What the whole system can have at once, and with how much the gate closes.
    pub(crate) system: Option<f64>,
    pub(crate) closes_at: Option<f64>,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// What the reading allowed this dispatcher; below 0, as much must end first.
    pub(crate) n: Option<i64>,
    /// What is under way and was not in the reading.
    pub(crate) taken: Option<i64>,
    /// Requests of ours under way, and how large they are together.
    pub(crate) in_flight: u64,
    pub(crate) held: u64,
    pub(crate) left: u64,
    pub(crate) age_seconds: Option<f64>,
}

/// The heads of the table's columns.
const HEADS: [&str; 11] =
    ["GATE", "KIND", "D", "B", "FULL", "CLOSES AT", "SYSTEM", "N", "IN FLIGHT", "LEFT", "AGE"];

/// One line: the first two columns are words, the others numbers.
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
    /// All gates as a text: one line of numbers for each, then how it is and where it looks.
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
            text.push_str(&format!("    {}\n    looks at {}\n", gate.state, gate.source));
            if let Some(by) = &gate.by {
                text.push_str(&format!("    by {by}\n"));
            }
        }
        text
    }

    /// The same for the metrics.
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
