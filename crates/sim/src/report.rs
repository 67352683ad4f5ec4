//! What a scenario shows: a table, verdicts and pictures, from histories thrown away one by one.
//!
//! A history is large and a scenario has many, so a [`Digest`] keeps of each only what the report
//! needs. Everything here is a pure function of the digests: two runs give the same bytes.

mod case_table;
mod columns;
mod comparison_charts;
mod curve;
mod goal_table;
mod number;
mod run_charts;
mod table;

use serde_json::{Map, Value, json};

use crate::measure::History;
use crate::plot::{self, Chart};
use crate::scenario::{Cell, Sample, Scenario, Verdict};

use columns::Heading;
use curve::Curves;

pub use case_table::CaseTable;
pub use goal_table::GoalTable;
pub use table::grid;

/// The figures of one cell.
#[derive(Clone, Debug)]
pub struct Digest {
    cell: Cell,
    /// By heading, by figure.
    values: Vec<Vec<Option<f64>>>,
    sample: Sample,
    pictured: Option<Pictured>,
}

/// The charts of one policy.
#[derive(Clone, Debug)]
struct Pictured {
    views: Vec<Chart>,
    curves: Curves,
}

/// The results of a scenario.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the scenario shows.
    pub title: String,
    /// Whether each expectation was kept.
    pub verdicts: Vec<Verdict>,
    about: String,
    runs: String,
    headings: Vec<Heading>,
    rows: Vec<ReportRow>,
    pictures: Vec<Picture>,
}

/// One policy under one load.
#[derive(Clone, Debug)]
struct ReportRow {
    policy: String,
    load: f64,
    /// Means over the seeds, by heading, by figure.
    values: Vec<Vec<Option<f64>>>,
}

/// A page of charts.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its name, fit for a file.
    pub name: String,
    charts: Vec<Chart>,
    columns: usize,
}

/// A page for each policy.
fn policy_pictures(scenario: &Scenario, digests: &[Digest]) -> Vec<Picture> {
    let pictured =
        digests.iter().filter_map(|digest| Some((digest.cell.policy, digest.pictured.as_ref()?)));
    let picture = |(policy, pictured): (usize, &Pictured)| Picture {
        name: slug(scenario, policy),
        charts: pictured.views.clone(),
        columns: 2,
    };
    pictured.map(picture).collect()
}

// === impl Digest ===

impl Digest {
    /// Keeps what the report needs of a history.
    pub fn new(scenario: &Scenario, cell: Cell, history: &History) -> Self {
        let headings = columns::headings(scenario);
        let value = |heading: &Heading| heading.values(history, &scenario.slo);
        let pictured = scenario.pictured() == Some((cell.load, cell.seed));
        Self {
            cell,
            values: headings.iter().map(value).collect(),
            sample: scenario.sample(cell, history),
            pictured: pictured.then(|| Pictured {
                views: run_charts::all(history, &scenario.policies[cell.policy].name),
                curves: Curves::new(history, &scenario.slo, &comparison_charts::groups(scenario)),
            }),
        }
    }
}

// === impl Scenario ===

impl Scenario {
    /// The load and the seed that pictures show: the highest and the first.
    fn pictured(&self) -> Option<(f64, u64)> {
        let load = self.loads.iter().copied().max_by(f64::total_cmp);
        load.zip(self.seeds.first().copied())
    }
}

// === impl Report ===

impl Report {
    /// The report on the cells that have been run, which need not be all.
    pub fn new(scenario: &Scenario, digests: &[Digest]) -> Self {
        let samples: Vec<Sample> = digests.iter().map(|digest| digest.sample.clone()).collect();
        let rows = rows(scenario, digests);
        let mut pictures = policy_pictures(scenario, digests);
        pictures.extend(comparison_charts::pictures(scenario, &rows, digests));
        Self {
            title: scenario.title.clone(),
            about: scenario.about.split_whitespace().collect::<Vec<_>>().join(" "),
            runs: runs(scenario, digests),
            verdicts: scenario.verdicts(&samples),
            headings: columns::headings(scenario),
            rows,
            pictures,
        }
    }

    /// Whether nothing that was expected failed to come.
    pub fn is_kept(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.kept)
    }

    /// The pages of charts: one for each policy, then what compares them.
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// All figures, for programs.
    pub fn json(&self) -> Value {
        let row = |row: &ReportRow| {
            let figures: Map<String, Value> = self.named(row).collect();
            json!({"policy": row.policy, "load": row.load, "figures": figures})
        };
        let verdict = |verdict: &Verdict| {
            let Verdict { expected, load, value, kept, .. } = verdict;
            let reached = verdict.goal.map(|_| !verdict.misses_goal());
            json!({
                "expected": expected, "load": load, "value": value, "kept": kept,
                "goal_reached": reached,
            })
        };
        json!({
            "title": self.title,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "verdicts": self.verdicts.iter().map(verdict).collect::<Vec<_>>(),
        })
    }

    fn named(&self, row: &ReportRow) -> impl Iterator<Item = (String, Value)> {
        let pairs = self.headings.iter().zip(&row.values).flat_map(|(heading, values)| {
            heading.figures.iter().map(ToString::to_string).zip(values)
        });
        pairs.map(|(name, value)| (name, json!(value)))
    }
}

/// The rows in the order of the policies and loads, for all that has been run.
fn rows(scenario: &Scenario, digests: &[Digest]) -> Vec<ReportRow> {
    let mut rows = Vec::new();
    for (at, policy) in scenario.policies.iter().enumerate() {
        for &load in &scenario.loads {
            let same = |digest: &&Digest| digest.cell.policy == at && digest.cell.load == load;
            let cells: Vec<&Digest> = digests.iter().filter(same).collect();
            if !cells.is_empty() {
                let policy = policy.name.clone();
                rows.push(ReportRow { policy, load, values: means(&cells) });
            }
        }
    }
    rows
}

fn means(cells: &[&Digest]) -> Vec<Vec<Option<f64>>> {
    let mut means = cells[0].values.clone();
    for (heading, row) in means.iter_mut().enumerate() {
        for (figure, mean) in row.iter_mut().enumerate() {
            let values = cells.iter().filter_map(|cell| cell.values[heading][figure]);
            let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
            *mean = (count > 0.0).then(|| sum / count);
        }
    }
    means
}

/// How much was run, in words.
fn runs(scenario: &Scenario, digests: &[Digest]) -> String {
    let seconds = scenario.duration.secs_f64();
    let mut seeds: Vec<u64> = digests.iter().map(|digest| digest.cell.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let means =
        if seeds.len() > 1 { format!(", means over {} seeds", seeds.len()) } else { "".into() };
    format!("{} of traffic for each run{means}.", number::span(seconds))
}

/// A name for a policy's picture that no other policy has.
fn slug(scenario: &Scenario, policy: usize) -> String {
    let of = |name: &str| {
        let plain = |letter: char| letter.is_ascii_alphanumeric();
        let words = name.split(|letter| !plain(letter)).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-").to_lowercase()
    };
    let own = of(&scenario.policies[policy].name);
    let taken = comparison_charts::NAMES.contains(&own.as_str())
        || scenario.policies[..policy].iter().any(|other| of(&other.name) == own);
    if taken || own.is_empty() { format!("{own}-{policy}") } else { own }
}

// === impl Picture ===

impl Picture {
    /// The page as SVG.
    pub fn svg(&self) -> String {
        plot::page(&self.charts, self.columns)
    }
}

#[cfg(test)]
mod tests;
