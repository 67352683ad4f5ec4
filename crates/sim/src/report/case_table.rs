//! The cases of one file as one table: a row for each case, a column for each expectation that has
//! a head.

use std::fmt::{self, Display, Formatter};

use super::table::{NOTHING, grid};
use super::{Report, Verdict, number};

/// The reports of a file's cases.
#[derive(Clone, Debug)]
pub struct CaseTable<'a> {
    /// Each case's name and report; there is at least one.
    cases: Vec<(&'a str, &'a Report)>,
}

// === impl CaseTable ===

impl<'a> CaseTable<'a> {
    /// A table of these cases; nothing where there are none, or where no expectation has a head.
    pub fn new(cases: Vec<(&'a str, &'a Report)>) -> Option<Self> {
        let (_, report) = cases.first()?;
        report.verdicts.iter().any(|verdict| verdict.head.is_some()).then_some(Self { cases })
    }

    /// The title without the name of the case, which the rows show.
    fn title(&self) -> &'a str {
        let (name, report) = self.cases[0];
        let title = report.title.strip_suffix(name).and_then(|title| title.strip_suffix(": "));
        title.unwrap_or(&report.title)
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let headed = |report: &'a Report| report.verdicts.iter().filter(|it| it.head.is_some());
        let heads = headed(self.cases[0].1).filter_map(|verdict| verdict.head.clone());
        let mut rows =
            vec![[vec!["case".to_owned()], heads.collect(), vec!["kept".into()]].concat()];
        for &(name, report) in &self.cases {
            let kept = if report.is_kept() { "yes" } else { "**NO**" };
            let values = headed(report).map(cell).collect();
            rows.push([vec![name.to_owned()], values, vec![kept.to_owned()]].concat());
        }
        rows
    }
}

/// The value of a figure, in bold where it misses its goal.
fn cell(verdict: &Verdict) -> String {
    let text = verdict.value.map_or(NOTHING.to_owned(), number::any);
    if verdict.misses_goal() { format!("**{text}**") } else { text }
}

fn has_goal(verdict: &Verdict) -> bool {
    verdict.goal.is_some()
}

impl Display for CaseTable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (_, report) = self.cases[0];
        writeln!(f, "### {}\n", self.title())?;
        if !report.about.is_empty() {
            writeln!(f, "{}\n", report.about)?;
        }
        grid(f, &self.rows())?;
        writeln!(f)?;
        // Cases may differ in their length.
        if self.cases.iter().all(|(_, other)| other.runs == report.runs) {
            write!(f, "{} ", report.runs)?;
        }
        write!(f, "*Kept*: every expectation of the case, shown or not.")?;
        let with_goal = |(_, report): &(&str, &Report)| report.verdicts.iter().any(has_goal);
        match self.cases.iter().any(with_goal) {
            true => writeln!(f, " **Bold**: misses its goal."),
            false => writeln!(f),
        }
    }
}
