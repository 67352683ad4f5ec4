//! The legend: names at the right of the picture, each as near to the end of its line as the
//! others allow, so that the eye goes straight from line to name and no name lies on data.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::number::px;
use super::thin::Point;
use super::{Chart, SERIES_MAX, Series, Style, text, theme};

/// Room between the names, from line to line.
const ROW: f64 = 14.0;

const FONT: f64 = 12.0;

/// Where the sample and the name begin, from the edge of the data.
const SAMPLE: f64 = 16.0;
const SAMPLE_WIDTH: f64 = 20.0;
const NAME: f64 = SAMPLE + SAMPLE_WIDTH + 6.0;

/// A longer way from a line to its name leads astray.
const LEAD_MAX: f64 = 4.0 * ROW;

/// The names, cut to their room.
pub(super) struct Legend {
    names: Vec<String>,
    more: Option<String>,
}

/// The side of the data at which the names stand.
pub(super) struct Side {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

struct Row<'a> {
    name: &'a str,
    series: Option<&'a Series>,
    end: Option<Point>,
    wanted: f64,
}

// === impl Legend ===

impl Legend {
    /// The names of a chart, none wider than `most` pixels.
    pub(super) fn new(chart: &Chart, most: f64) -> Self {
        let series = || chart.series.iter().take(SERIES_MAX);
        let tail = |series: &Series| match chart.shows(series) || series.name.is_empty() {
            true => "",
            false => ": no data",
        };
        let cut = |fit: fn(&str, f64, f64) -> String| -> Vec<String> {
            series().map(|series| fit(&series.name, FONT, most) + tail(series)).collect()
        };
        // Names made from parts often differ at the end only.
        let ends = cut(text::fit);
        let names = if are_distinct(&ends) { ends } else { cut(text::fit_middle) };
        let rest = chart.series.len().saturating_sub(SERIES_MAX);
        Self { names, more: (rest > 0).then(|| format!("and {rest} more")) }
    }

    /// The pixels that the legend needs at the right of the data.
    pub(super) fn width(&self) -> f64 {
        let names = self.names.iter().chain(&self.more).filter(|name| !name.is_empty());
        let widest = names.map(|name| text::width(name, FONT)).reduce(f64::max);
        widest.map_or(0.0, |widest| NAME + widest)
    }

    /// Draws the names of `chart` at `side`, where `ends` are the ends of its series.
    pub(super) fn draw(
        &self,
        svg: &mut String,
        chart: &Chart,
        ends: &[Option<Point>],
        side: &Side,
    ) {
        let rows = self.rows(chart, ends, side);
        let wanted: Vec<f64> = rows.iter().map(|row| row.wanted).collect();
        for (row, y) in rows.iter().zip(spread(&wanted, ROW, side.top, side.bottom)) {
            row.draw(svg, side.left, y);
        }
    }

    /// The names from top to bottom, each with the height that it wants.
    fn rows<'a>(&'a self, chart: &'a Chart, ends: &[Option<Point>], side: &Side) -> Vec<Row<'a>> {
        let drawn = chart.series.iter().zip(ends).zip(&self.names);
        let mut rows: Vec<Row<'_>> = drawn
            .filter(|(_, name)| !name.is_empty())
            .map(|((series, end), name)| {
                let wanted = end.map_or(side.bottom, |(_, y)| y);
                Row { name, series: Some(series), end: *end, wanted }
            })
            .collect();
        rows.sort_by(|one, other| one.wanted.total_cmp(&other.wanted));
        let wanted = rows.last().map_or(side.top, |row| row.wanted + ROW);
        let more = self.more.as_deref();
        rows.extend(more.map(|name| Row { name, series: None, end: None, wanted }));
        rows
    }
}

// === impl Row ===

impl Row<'_> {
    fn draw(&self, svg: &mut String, left: f64, y: f64) {
        if let Some(series) = self.series {
            _ = write!(svg, "<g class=\"{}\">", theme::hue(series.hue));
            // A line is led on to its name where it reaches the edge not far from it.
            let near = |&(x, end): &Point| x > left - SAMPLE && (end - y).abs() <= LEAD_MAX;
            if let Some((x, end)) = self.end.filter(near) {
                let (x, from, to) = (px(x), px(end), px(y));
                let (bend, name) = (px(left), px(left + SAMPLE - 2.0));
                _ = write!(svg, "<path class=\"lead\" d=\"M{x} {from}H{bend}L{name} {to}\"/>");
            }
            sample(svg, series, left + SAMPLE, y);
            svg.push_str("</g>");
        }
        let class = if self.end.is_some() { "" } else { " class=\"muted\"" };
        let (x, y) = (px(left + NAME), px(y + 4.0));
        _ = writeln!(svg, "<text{class} x=\"{x}\" y=\"{y}\">{}</text>", text::escape(self.name));
    }
}

fn are_distinct(names: &[String]) -> bool {
    let named: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    named.iter().collect::<BTreeSet<_>>().len() == named.len()
}

/// A short piece of the series as it is drawn.
fn sample(svg: &mut String, series: &Series, left: f64, y: f64) {
    let (x, y) = (px(left), px(y));
    let line = |class: &str| format!("<path class=\"{class}\" d=\"M{x} {y}h{SAMPLE_WIDTH}\"/>");
    svg.push_str(&match series.style {
        Style::Line | Style::Step => line("line"),
        Style::Dashed => line("line dash"),
        Style::Markers => {
            let (middle, shape) = (px(left + SAMPLE_WIDTH / 2.0), theme::marker(series.hue));
            line("line") + &format!("<path class=\"mark\" d=\"M{middle} {y}{shape}\"/>")
        }
        Style::Area { .. } => {
            let top = px(y - 4.5);
            format!("<path class=\"area\" d=\"M{x} {top}h{SAMPLE_WIDTH}v9h-{SAMPLE_WIDTH}z\"/>")
        }
    });
}

/// Heights in the order of `wanted`, which rises, `gap` apart and together as near to it as they
/// can be between `top` and `bottom`.
pub(super) fn spread(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    // Less its own place in the row, a height only has to rise; neighbours that would fall share
    // their mean.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (index, height) in wanted.iter().enumerate() {
        let mut group = (height - index as f64 * gap, 1);
        while let Some((mean, count)) = groups.pop_if(|(mean, _)| *mean > group.0) {
            let both = group.1 + count;
            group = ((group.0 * group.1 as f64 + mean * count as f64) / both as f64, both);
        }
        groups.push(group);
    }
    let room = (bottom - wanted.len().saturating_sub(1) as f64 * gap).max(top);
    let shared = groups.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    shared.enumerate().map(|(index, mean)| mean.clamp(top, room) + index as f64 * gap).collect()
}
