//! What every table shows.

use flow::Band;

use crate::measure::{History, Slo};
use crate::scenario::{BAND_NAMES, Figure, Measure, Point, Scenario};

use super::number;

/// A column: one figure, or several that stand side by side in a cell.
#[derive(Clone, Debug)]
pub(super) struct Heading {
    pub(super) text: String,
    pub(super) figures: Vec<Figure>,
    /// How a value is written.
    pub(super) write: fn(f64) -> String,
    /// Whether a column of zeros says nothing.
    pub(super) zero_is_nothing: bool,
}

/// The columns of a scenario's table, those that it asks for itself last.
pub(super) fn headings(scenario: &Scenario) -> Vec<Heading> {
    let all = |text: &str, measure: Measure| Heading::new(text, [Figure::of_all(measure)]);
    let mut headings = vec![
        all("tokens/s", Measure::Throughput),
        all("requests/s", Measure::Requests),
        all("goodput", Measure::Goodput),
        all("served", Measure::Served),
    ];
    let sent = Band::DESCENDING.into_iter().filter(|&band| scenario.sends(band));
    headings.extend(sent.map(|band| {
        let point = |point| Figure::of_band(Measure::Ttft(point), band);
        let name = format!("TTFT {}", BAND_NAMES[band as usize]);
        Heading::new(&name, [point(Point::P50), point(Point::P99)])
    }));
    headings.extend([
        all("wait p99", Measure::Wait(Point::P99)),
        all("TPOT p50", Measure::Tpot(Point::P50)),
        all("Jain", Measure::Jain),
        all("gap/bound", Measure::Gap),
        Heading { zero_is_nothing: true, ..all("preempted", Measure::Preemptions) },
    ]);
    let own =
        |column: &crate::scenario::Column| Heading::new(&column.head, [column.figure.clone()]);
    headings.extend(scenario.columns.iter().map(own));
    headings
}

/// How a figure is written.
fn writer(measure: Measure) -> fn(f64) -> String {
    match measure {
        Measure::Throughput | Measure::Preemptions => number::whole,
        Measure::Requests | Measure::Goodput | Measure::Within(_) => number::rate,
        Measure::GoodputShare => number::percent,
        Measure::InFlight | Measure::InFlightMax => number::tenth,
        Measure::EngineHours | Measure::Engines => number::tenth,
        Measure::Served | Measure::Refused | Measure::GaveUp | Measure::Failed => number::percent,
        Measure::Open | Measure::Started | Measure::Bound(_) | Measure::Cached => number::percent,
        Measure::Jain | Measure::Gap => number::ratio,
        Measure::Ttft(_) | Measure::Latency(_) | Measure::Wait(_) => number::seconds,
        Measure::Tpot(_) => number::millis,
    }
}

// === impl Heading ===

impl Heading {
    fn new<const COUNT: usize>(text: &str, figures: [Figure; COUNT]) -> Self {
        Self {
            text: text.to_owned(),
            write: writer(figures[0].measure),
            figures: figures.into(),
            zero_is_nothing: false,
        }
    }

    pub(super) fn values(&self, history: &History, slo: &Slo) -> Vec<Option<f64>> {
        self.figures.iter().map(|figure| figure.value(history, slo)).collect()
    }
}
