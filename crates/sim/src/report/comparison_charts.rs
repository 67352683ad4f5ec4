//! The policies side by side: over loads where there are several, over time where there is one.

use crate::plot::{Axis, Chart, Series, Style, Unit};
use crate::scenario::{BAND_NAMES, Measure, Point, Scenario, Scope};

use super::{Curves, Digest, Picture, ReportRow, columns};

const LOADS: &str = "loads";
const POLICIES: &str = "policies";
/// The names that no policy's own picture may take.
pub(super) const NAMES: [&str; 2] = [LOADS, POLICIES];

/// The pages that compare; none where one policy is alone.
pub(super) fn pictures(
    scenario: &Scenario,
    rows: &[ReportRow],
    digests: &[Digest],
) -> Vec<Picture> {
    let mut pictures = Vec::new();
    let charts = over_loads(scenario, rows);
    if scenario.loads.len() > 1 {
        pictures.push(Picture { name: LOADS.to_owned(), charts, columns: 2 });
    }
    let charts = over_time(scenario, digests);
    if charts.iter().any(|chart| chart.series.len() > 1) {
        pictures.push(Picture { name: POLICIES.to_owned(), charts, columns: 2 });
    }
    pictures
}

/// The requests whose first tokens are drawn: those of the highest of several bands, and those that
/// the scenario's own columns look at; all where that is nothing.
pub(super) fn groups(scenario: &Scenario) -> Vec<Scope> {
    let mut sent = flow::Band::DESCENDING.into_iter().filter(|&band| scenario.sends(band));
    let top = sent.next().filter(|_| sent.next().is_some());
    let mut groups: Vec<Scope> =
        top.map(|band| Scope { band: Some(band), ..Scope::default() }).into_iter().collect();
    for column in &scenario.columns {
        let Scope { band, tenant, except, .. } = column.figure.scope.clone();
        let scope = Scope { band, tenant, except, ..Scope::default() };
        let ttft = matches!(column.figure.measure, Measure::Ttft(_));
        if ttft && scope != Scope::default() && !groups.contains(&scope) {
            groups.push(scope);
        }
    }
    if groups.is_empty() { vec![Scope::default()] } else { groups }
}

fn over_loads(scenario: &Scenario, rows: &[ReportRow]) -> Vec<Chart> {
    let top = flow::Band::DESCENDING.into_iter().find(|&band| scenario.sends(band));
    let band = top.map_or("all", |band| BAND_NAMES[band as usize]);
    let ttft = Measure::Ttft(Point::P99);
    let tokens = Axis::linear("prompt and output tokens per second", Unit::Plain);
    let shown = [
        (
            "good answers",
            Measure::Goodput,
            Axis::linear("within the objective, per second", Unit::Plain),
        ),
        ("first tokens", ttft, Axis::log("time to the first token, p99", Unit::Seconds)),
        ("answers", Measure::Served, Axis::linear("answered in full", Unit::Share)),
        ("work", Measure::Throughput, tokens),
    ];
    let chart = |(title, measure, y): (&str, Measure, Axis)| {
        let title = if measure == ttft { format!("{title}: {band}") } else { title.to_owned() };
        let headings = columns::headings(scenario);
        let place = headings.iter().enumerate().find_map(|(heading, found)| {
            let figure = found.figures.iter().position(|figure| figure.measure == measure)?;
            Some((heading, figure))
        });
        let series = |(hue, policy): (usize, &crate::scenario::PolicyConfig)| {
            let own = rows.iter().filter(|row| row.policy == policy.name);
            let value = |row: &ReportRow| {
                place.and_then(|(heading, figure)| row.values[heading][figure]).unwrap_or(f64::NAN)
            };
            let points = own.map(|row| (row.load, value(row))).collect();
            Series::new(&policy.name, Style::Markers, hue, points)
        };
        let series = scenario.policies.iter().enumerate().map(series);
        Chart {
            title: format!("{title} by load"),
            subtitle: String::new(),
            x: Axis::linear("load", Unit::Plain),
            y,
            series: series.filter(|series| !series.points.is_empty()).collect(),
        }
    };
    shown.into_iter().map(chart).collect()
}

fn over_time(scenario: &Scenario, digests: &[Digest]) -> Vec<Chart> {
    let pictured: Vec<(usize, &Curves)> = digests
        .iter()
        .filter_map(|digest| Some((digest.cell.policy, &digest.pictured.as_ref()?.curves)))
        .collect();
    let load = digests.iter().map(|digest| digest.cell.load).fold(0.0, f64::max);
    let subtitle = if scenario.loads.len() > 1 { format!("at load {load}") } else { String::new() };
    let chart = |title: String, y: Axis, of: &dyn Fn(&Curves) -> Vec<(f64, f64)>| {
        let series = |&(policy, curves): &(usize, &Curves)| {
            let name = &scenario.policies[policy].name;
            Series::new(name, Style::Line, policy, of(curves))
        };
        Chart {
            title,
            subtitle: subtitle.clone(),
            x: Axis::linear("time of arrival", Unit::Seconds),
            y,
            series: pictured.iter().map(series).collect(),
        }
    };
    let rate = Axis::linear("answers within the objective, per second", Unit::Plain);
    let goodput = |curves: &Curves| curves.goodput.clone();
    let mut charts = vec![chart("good answers over time".to_owned(), rate, &goodput)];
    for (at, group) in groups(scenario).iter().enumerate() {
        let ttft = Axis::log("time to the first token, p50", Unit::Seconds);
        let points = |curves: &Curves| curves.ttft[at].clone();
        charts.push(chart(format!("first tokens{group}"), ttft, &points));
    }
    charts
}
