//! The goals of several scenarios: how many are reached, and which are missed.
//!
//! A limit guards what is reached; a goal says what is wanted. So a scenario can say where it falls
//! short without being broken.

use std::fmt::{self, Display, Formatter};

use super::table::{NOTHING, grid};
use super::{Report, Verdict, number};

/// The goals of some reports.
#[derive(Clone, Debug)]
pub struct GoalTable<'a> {
    /// Each verdict that has a goal, with the name of its scenario; there is at least one.
    goals: Vec<(&'a str, &'a Verdict)>,
}

// === impl GoalTable ===

impl<'a> GoalTable<'a> {
    /// The goals of these reports; nothing where none has a goal.
    pub fn new(reports: impl Iterator<Item = (&'a str, &'a Report)>) -> Option<Self> {
        let with_name = |(name, report): (&'a str, &'a Report)| {
            report.verdicts.iter().map(move |verdict| (name, verdict))
        };
        let goals: Vec<_> =
            reports.flat_map(with_name).filter(|(_, verdict)| verdict.goal.is_some()).collect();
        (!goals.is_empty()).then_some(Self { goals })
    }

    /// How many goals there are.
    pub fn count(&self) -> usize {
        self.goals.len()
    }

    /// How many of them are missed.
    pub fn missed(&self) -> usize {
        self.goals.iter().filter(|(_, verdict)| verdict.misses_goal()).count()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = ["scenario", "figure", "load", "goal", "came out"].map(str::to_owned);
        let missed = self.goals.iter().filter(|(_, verdict)| verdict.misses_goal());
        let rows = missed.map(|&(name, verdict)| {
            let Verdict { figure, load, goal, value, .. } = verdict;
            let load = load.map_or(NOTHING.to_owned(), |load| load.to_string());
            let goal = goal.map_or(NOTHING.to_owned(), |goal| goal.to_string());
            let value = value.map_or(NOTHING.to_owned(), number::any);
            vec![name.to_owned(), figure.clone(), load, goal, value]
        });
        [head.to_vec()].into_iter().chain(rows).collect()
    }
}

impl Display for GoalTable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (count, missed) = (self.count(), self.missed());
        writeln!(f, "### Goals\n\n{} of {count} goals are reached.", count - missed)?;
        if missed == 0 {
            return Ok(());
        }
        writeln!(f, "These are missed:\n")?;
        grid(f, &self.rows())
    }
}
