//! One chart, drawn: words, grid, series, legend.

use std::fmt::Write;

use super::legend::{Legend, Side};
use super::number::px;
use super::ruler::{Ruler, Tick};
use super::thin::{Point, Run, thin};
use super::{Chart, SERIES_MAX, Series, Style, text, theme};

const MARGIN: f64 = 16.0;
const TITLE: f64 = 26.0;
const TITLE_LINE: f64 = 19.0;
const LINE: f64 = 16.0;

/// From the last line of words to the label of the vertical axis, and from there to the data.
const LABEL: f64 = 27.0;
const BELOW_LABEL: f64 = 11.0;
const BOTTOM: f64 = 45.0;

const TICK_FONT: f64 = 11.0;
const FONT: f64 = 12.0;
const TITLE_FONT: f64 = 15.5;

/// Data keeps this distance from the left and right edge, so that markers there stay whole.
const INSET: f64 = 6.0;

/// Room for one tick.
const TICK_WIDTH: f64 = 40.0;
const TICK_HEIGHT: f64 = 34.0;
const TICK_SPACE: f64 = 22.0;

/// Columns that a line is thinned to, four points in each. An area has two edges.
const LINE_COLUMNS: usize = 250;
const AREA_COLUMNS: usize = LINE_COLUMNS / 2;

/// The width of a name that is shown under the pointer.
const HINT_MOST: f64 = 600.0;

/// More markers would touch each other.
const MARKERS_MAX: usize = 60;

/// A line with more turns than this is drawn finer, or it would become a surface.
const TURNS_MAX: usize = 150;

/// Round ends make a dot of a line without length.
const DOT: &str = "h0";

/// The size of the charts of a row. Their data begins at one height, so that axes line up.
pub(super) struct Frame {
    pub(super) width: f64,
    pub(super) height: f64,
    top: f64,
    name_most: f64,
}

/// The part of a chart that shows the data.
struct Plot<'a> {
    chart: &'a Chart,
    x: Ruler,
    y: Ruler,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

// === impl Frame ===

impl Frame {
    /// Letters keep their size, so more columns make smaller charts.
    pub(super) fn new(charts: &[Chart], columns: usize) -> Self {
        let (width, data, name_most) = match columns {
            1 => (760.0, 235.0, 170.0),
            2 => (480.0, 175.0, 110.0),
            _ => (380.0, 175.0, 90.0),
        };
        let room = width - 2.0 * MARGIN;
        let words = charts.iter().map(|chart| {
            let titles = titles(chart, room).len().max(1);
            (titles - 1) as f64 * TITLE_LINE + lines(chart, room).len() as f64 * LINE
        });
        let words = TITLE + words.fold(0.0, f64::max);
        let top = words + LABEL + BELOW_LABEL;
        Self { width, height: top + data + BOTTOM, top, name_most }
    }
}

/// The title as it is broken into lines.
fn titles(chart: &Chart, room: f64) -> Vec<String> {
    text::wrap(&chart.title, TITLE_FONT, room)
}

/// The subtitle as it is broken into lines.
fn lines(chart: &Chart, room: f64) -> Vec<String> {
    text::wrap(&chart.subtitle, FONT, room)
}

/// Draws `chart` into the space of `frame`.
pub(super) fn chart(svg: &mut String, chart: &Chart, frame: &Frame) {
    words(svg, chart, frame.width - 2.0 * MARGIN);
    let legend = Legend::new(chart, frame.name_most);
    let plot = Plot::new(chart, frame, legend.width());
    plot.grid(svg);
    let runs: Vec<Vec<Run>> = plot.series().map(|series| plot.runs(series)).collect();
    plot.draw_all(svg, &runs);
    let ends: Vec<Option<Point>> =
        plot.series().zip(&runs).map(|(series, runs)| plot.end(series, runs)).collect();
    if ends.iter().all(Option::is_none) {
        let middle = ((plot.left + plot.right) / 2.0, (plot.top + plot.bottom) / 2.0);
        write_text(svg, "muted middle", middle, "no data");
    }
    let side = Side { left: plot.right, top: plot.top, bottom: plot.bottom };
    legend.draw(svg, chart, &ends, &side);
}

fn words(svg: &mut String, chart: &Chart, room: f64) {
    let mut y = TITLE - TITLE_LINE;
    for line in titles(chart, room) {
        y += TITLE_LINE;
        write_text(svg, "title", (MARGIN, y), &line);
    }
    y += TITLE_LINE - LINE;
    for line in lines(chart, room) {
        y += LINE;
        write_text(svg, "muted", (MARGIN, y), &line);
    }
}

// === impl Plot ===

impl<'a> Plot<'a> {
    fn new(chart: &'a Chart, frame: &Frame, legend: f64) -> Self {
        let (top, bottom) = (frame.top, frame.height - BOTTOM);
        let most = |room: f64, each: f64| ((room / each) as usize).max(1);
        let drawn = chart.series.iter().take(SERIES_MAX);
        let feet = drawn.clone().filter(|series| series.stands()).map(|_| 0.0);
        let points = drawn.flat_map(Series::all_points).filter(|point| chart.can_show(*point));
        let heights = points.clone().map(|(_, y)| y).chain(feet);
        let y = Ruler::up(&chart.y, heights, most(bottom - top, TICK_HEIGHT));
        let labels = y.ticks().into_iter().map(|tick| text::width(&tick.label, TICK_FONT));
        let left = MARGIN + labels.fold(0.0, f64::max) + 6.0;
        let right = frame.width - MARGIN - legend;
        let x = Ruler::across(&chart.x, points.map(|(x, _)| x), most(right - left, TICK_WIDTH));
        let mut plot = Self { chart, x, y, left, right, top, bottom };
        while plot.is_crowded() && plot.x.thin_out() {}
        plot
    }

    /// Whether labels of the horizontal axis touch each other.
    fn is_crowded(&self) -> bool {
        let half = |tick: &Tick| (text::width(&tick.label, TICK_FONT) + TICK_SPACE) / 2.0;
        let touch = |one: &Tick, next: &Tick| {
            self.across(next.at) - self.across(one.at) < half(one) + half(next)
        };
        self.x.ticks().windows(2).any(|pair| touch(&pair[0], &pair[1]))
    }

    /// The series that are drawn.
    fn series(&self) -> impl Iterator<Item = &'a Series> + use<'a> {
        self.chart.series.iter().take(SERIES_MAX)
    }

    fn across(&self, place: f64) -> f64 {
        self.left + INSET + place * (self.right - self.left - 2.0 * INSET)
    }

    fn up(&self, place: f64) -> f64 {
        self.bottom - place * (self.bottom - self.top)
    }

    fn grid(&self, svg: &mut String) {
        let (left, right, bottom) = (px(self.left), px(self.right), px(self.bottom));
        let mut lines = String::new();
        for Tick { at, label } in self.y.ticks() {
            let y = px(self.up(at));
            _ = write!(lines, "M{left} {y}H{right}");
            write_text(svg, "tick end", (self.left - 6.0, y + 4.0), &label);
        }
        _ = writeln!(svg, "<path class=\"grid\" d=\"{lines}\"/>");
        let mut feet = format!("M{left} {bottom}H{right}");
        for Tick { at, label } in self.x.ticks() {
            let x = px(self.across(at));
            _ = write!(feet, "M{x} {bottom}v4");
            write_text(svg, "tick middle", (x, self.bottom + 17.0), &label);
        }
        _ = writeln!(svg, "<path class=\"foot\" d=\"{feet}\"/>");
        self.draw_labels(svg);
    }

    fn draw_labels(&self, svg: &mut String) {
        let room = self.right - self.left;
        let label = |axis: &str| text::fit(axis, FONT, room);
        write_text(svg, "axis", (MARGIN, self.top - BELOW_LABEL), &label(&self.chart.y.label));
        let middle = ((self.left + self.right) / 2.0, self.bottom + 35.0);
        write_text(svg, "axis middle", middle, &label(&self.chart.x.label));
    }

    /// The points of a series in pixels, thinned.
    fn runs(&self, series: &Series) -> Vec<Run> {
        let columns = match series.style {
            Style::Area { .. } => AREA_COLUMNS,
            _ => LINE_COLUMNS,
        };
        thin(self.pixels(&series.points), columns)
    }

    fn pixels(&self, points: &[(f64, f64)]) -> Vec<(f64, Option<f64>)> {
        let place = |&(x, y): &(f64, f64)| {
            let x = self.across(self.x.place(x)?);
            Some((x, self.y.place(y).map(|y| self.up(y))))
        };
        points.iter().filter_map(place).collect()
    }

    /// Draws all series, areas below lines.
    fn draw_all(&self, svg: &mut String, runs: &[Vec<Run>]) {
        let drawn = || self.series().zip(runs);
        let is_area = |series: &Series| matches!(series.style, Style::Area { .. });
        for (series, runs) in drawn().filter(|(series, _)| is_area(series)) {
            self.draw(svg, series, runs);
        }
        for (series, runs) in drawn().filter(|(series, _)| !is_area(series)) {
            self.draw(svg, series, runs);
        }
    }

    fn draw(&self, svg: &mut String, series: &Series, runs: &[Run]) {
        if runs.is_empty() {
            return;
        }
        let fine = if runs.iter().map(turns).sum::<usize>() > TURNS_MAX { " fine" } else { "" };
        let (class, path) = match &series.style {
            Style::Line | Style::Markers => (format!("line{fine}"), paths(runs, straight)),
            Style::Step => (format!("line{fine}"), paths(runs, stepped)),
            Style::Dashed => ("line dash".to_owned(), paths(runs, straight)),
            Style::Area { low } => ("area".to_owned(), self.surface(runs, low)),
        };
        let (hue, name) = (theme::hue(series.hue), text::fit(&series.name, FONT, HINT_MOST));
        _ = write!(svg, "<g class=\"{hue}\"><title>{}</title>", text::escape(&name));
        _ = write!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
        if series.style == Style::Markers {
            draw_markers(svg, runs, theme::marker(series.hue));
        }
        svg.push_str("</g>\n");
    }

    /// The outline of an area: its upper edge and back along the lower.
    fn surface(&self, runs: &[Run], low: &[(f64, f64)]) -> String {
        let low: Run = thin(self.pixels(low), AREA_COLUMNS).concat();
        if !low.is_empty() {
            let back = low.into_iter().rev();
            return straight(&runs.iter().flatten().copied().chain(back).collect::<Run>()) + "z";
        }
        let bottom = self.up(self.y.place(0.0).unwrap_or(0.0).clamp(0.0, 1.0));
        let closed = |run: &Run| {
            let ends = run.last().zip(run.first()).map(|(last, first)| [last.0, first.0]);
            let foot = ends.into_iter().flatten().map(|x| (x, bottom));
            straight(&run.iter().copied().chain(foot).collect::<Run>()) + "z"
        };
        runs.iter().map(closed).collect()
    }

    /// Where the eye leaves the series, at the right.
    fn end(&self, series: &Series, runs: &[Run]) -> Option<Point> {
        let (x, y) = *runs.last()?.last()?;
        let Style::Area { low } = &series.style else { return Some((x, y)) };
        let foot = thin(self.pixels(low), AREA_COLUMNS);
        let foot = foot.last().and_then(|run| run.last()).map_or(self.bottom, |(_, y)| *y);
        Some((x, (y + foot) / 2.0))
    }
}

// === impl Series ===

impl Series {
    /// Whether the series is a surface that stands on the foot of the chart.
    fn stands(&self) -> bool {
        matches!(&self.style, Style::Area { low } if low.is_empty())
    }
}

fn write_text(svg: &mut String, class: &str, (x, y): Point, words: &str) {
    if !words.is_empty() {
        let (x, y, words) = (px(x), px(y), text::escape(words));
        _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{words}</text>");
    }
}

/// Draws a marker at each point, unless there are too many to tell apart.
fn draw_markers(svg: &mut String, runs: &[Run], shape: &str) {
    if runs.iter().map(Vec::len).sum::<usize>() <= MARKERS_MAX {
        let mark = |&(x, y): &Point| format!("M{} {}{shape}", px(x), px(y));
        let marks: String = runs.iter().flatten().map(mark).collect();
        _ = write!(svg, "<path class=\"mark\" d=\"{marks}\"/>");
    }
}

fn paths(runs: &[Run], path: fn(&Run) -> String) -> String {
    runs.iter().map(path).collect()
}

/// How often a line turns from up to down or back.
fn turns(run: &Run) -> usize {
    let rises = |from: Point, to: Point| to.1 - from.1;
    let turn = |three: &&[Point]| rises(three[0], three[1]) * rises(three[1], three[2]) < 0.0;
    run.windows(3).filter(turn).count()
}

fn straight(run: &Run) -> String {
    let mut path = String::new();
    let points = rounded(run);
    for (index, (x, y)) in points.iter().enumerate() {
        let verb = match index {
            0 => "M",
            1 => "L",
            _ => " ",
        };
        _ = write!(path, "{verb}{x} {y}");
    }
    if points.len() == 1 { path + DOT } else { path }
}

fn stepped(run: &Run) -> String {
    let mut path = String::new();
    let mut height = None;
    let points = rounded(run);
    for (x, y) in &points {
        match height.replace(y) {
            None => _ = write!(path, "M{x} {y}"),
            Some(before) if before == y => _ = write!(path, "H{x}"),
            Some(_) => _ = write!(path, "H{x}V{y}"),
        }
    }
    if points.len() == 1 { path + DOT } else { path }
}

/// Tenths of pixels, without points that fall onto the one before.
fn rounded(run: &Run) -> Run {
    let mut points: Run = run.iter().map(|&(x, y)| (px(x), px(y))).collect();
    points.dedup();
    points
}
