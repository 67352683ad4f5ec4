//! Charts as SVG text: what a simulation shows of waits, stock, shares and comparisons.
//!
//! A chart is a value and its picture a pure function of it, so that a report can be compared byte
//! by byte. No point of the input can break the picture: what an axis cannot show is left out.

mod draw;
mod legend;
mod number;
mod ruler;
mod text;
mod theme;
mod thin;
mod ticks;

#[cfg(test)]
mod tests;

use std::fmt::Write;

use draw::Frame;

/// Series beyond this number are counted in the legend and not drawn: no eye follows more.
pub const SERIES_MAX: usize = 12;

/// More charts side by side would be too small to read.
const COLUMNS_MAX: usize = 4;

/// Letters, roughly, of the titles that are read aloud for a whole page.
const TITLES_MOST: f64 = 400.0;

/// One picture: series over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What the chart shows, best as a full thought.
    pub title: String,
    /// How to read it: the scenario, the meaning of dashes. May be empty.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series. Areas lie below lines, otherwise later series lie above earlier ones.
    pub series: Vec<Series>,
}

/// A direction of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The measured quantity. The unit is shown at the ticks, not here.
    pub label: String,
    /// How values are spread over the length.
    pub scale: Scale,
    /// What the numbers mean.
    pub unit: Unit,
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences, equal lengths.
    Linear,
    /// Equal ratios, equal lengths. Zero and less cannot be shown.
    Log,
}

/// What the numbers of an axis mean, and so how its ticks are chosen and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count or ratio: `1500`, `20k`, `0.5`.
    Plain,
    /// Seconds, written as people say them: `200ms`, `30s`, `1m30s`, `2h`.
    Seconds,
    /// A part of one, written in percent.
    Share,
}

/// One line, band or row of markers.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend. A series without a name has no row there: give the name to one of
    /// several series of one hue and say in the subtitle what the others are.
    pub name: String,
    /// Where it goes, by x. A value that the y axis cannot show leaves a gap.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
    /// Index into the palette: series that belong together share it.
    pub hue: usize,
}

/// How a series is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Style {
    /// Straight from point to point.
    Line,
    /// A value that holds until the next point.
    Step,
    /// A reference beside a line, such as a fair share.
    Dashed,
    /// A line whose few points are measurements of their own.
    Markers,
    /// The surface between the points and a lower edge, or zero when `low` is empty.
    Area {
        /// The lower edge, by x.
        low: Vec<(f64, f64)>,
    },
}

// === impl Chart ===

impl Chart {
    /// The chart as one SVG document, made for a width of 760 pixels.
    pub fn svg(&self) -> String {
        page(std::slice::from_ref(self), 1)
    }

    fn can_show(&self, (x, y): (f64, f64)) -> bool {
        ruler::usable(self.x.scale, x).is_some() && ruler::usable(self.y.scale, y).is_some()
    }

    /// Whether there is something to see of a series.
    fn shows(&self, series: &Series) -> bool {
        series.points.iter().any(|point| self.can_show(*point))
    }
}

/// Several charts in one SVG document, row by row.
pub fn page(charts: &[Chart], columns: usize) -> String {
    let columns = columns.clamp(1, COLUMNS_MAX).min(charts.len().max(1));
    let rows: Vec<(&[Chart], Frame)> =
        charts.chunks(columns).map(|row| (row, Frame::new(row, columns))).collect();
    let width = rows.iter().map(|(row, frame)| frame.width * row.len() as f64).fold(0.0, f64::max);
    let height: f64 = rows.iter().map(|(_, frame)| frame.height).sum();
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let mut svg = String::new();
    _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tide\" width=\"{width}\" \
         height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n\
         <style>{}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n",
        text::escape(&text::fit(&titles.join("; "), 1.0, TITLES_MOST)),
        theme::CSS,
    );
    let mut top = 0.0;
    for (row, frame) in &rows {
        for (index, chart) in row.iter().enumerate() {
            let left = index as f64 * frame.width;
            _ = writeln!(svg, "<g transform=\"translate({left} {top})\">");
            draw::chart(&mut svg, chart, frame);
            svg.push_str("</g>\n");
        }
        top += frame.height;
    }
    svg.push_str("</svg>\n");
    svg
}

// === impl Axis ===

impl Axis {
    /// An axis with equal steps.
    pub fn linear(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), scale: Scale::Linear, unit }
    }

    /// An axis with equal ratios.
    pub fn log(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), scale: Scale::Log, unit }
    }
}

// === impl Series ===

impl Series {
    /// A series in the colour `hue`.
    pub fn new(name: impl Into<String>, style: Style, hue: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, style, hue }
    }

    /// All points that the series draws, the lower edge of an area too.
    fn all_points(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        let low: &[(f64, f64)] = match &self.style {
            Style::Area { low } => low,
            _ => &[],
        };
        self.points.iter().chain(low).copied()
    }
}
