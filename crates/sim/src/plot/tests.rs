//! Tests of the charts: they are well formed whatever comes in, and say what they should.

mod chaos;
mod pictures;
mod thinning;
mod ticks;
mod words;
mod xml;

use super::{Axis, Chart, Series, Style, Unit};

/// A chart of seconds against a count.
fn chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Waits".into(),
        subtitle: String::new(),
        x: Axis::linear("time", Unit::Seconds),
        y: Axis::linear("requests", Unit::Plain),
        series,
    }
}

fn line(name: &str, points: &[(f64, f64)]) -> Series {
    Series::new(name, Style::Line, 0, points.to_vec())
}
