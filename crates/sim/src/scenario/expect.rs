//! The expectations of a scenario.

use std::fmt;

use super::{Cell, Figure, Scenario, ScenarioError};
use crate::measure::History;

/// A range of values; an end that is not given is infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// A range that a figure must lie in, as a mean over the seeds, and one that it should lie in.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The head of its column in a table of cases; without one it has no column.
    pub head: Option<String>,
    /// The figure.
    pub figure: Figure,
    /// Under which policy, by its place in the scenario; under each where nothing is said.
    pub policy: Option<usize>,
    /// Under which load; under each where nothing is said.
    pub load: Option<f64>,
    /// The policy whose figure it is divided by.
    pub over: Option<usize>,
    /// Which figure of that policy this is, where it is not the same one.
    pub over_figure: Option<Figure>,
    /// Where it must lie: outside of it the expectation is broken.
    pub limit: Range,
    /// Where it should lie: outside of it the expectation misses its goal.
    pub goal: Range,
}

/// Whether a run kept to an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The expectation in words, without the load.
    pub expected: String,
    /// The figure in words.
    pub figure: String,
    /// The head of its column in a table of cases.
    pub head: Option<String>,
    /// Whether there is a limit; without one the figure is only shown.
    pub limited: bool,
    /// Where the figure should lie, if a goal is given.
    pub goal: Option<Range>,
    /// Under which load, where there are several.
    pub load: Option<f64>,
    /// The figure that was found; nothing where no request counted.
    pub value: Option<f64>,
    /// Whether that is within the range.
    pub kept: bool,
}

/// The value of each expectation's figure in one cell, kept when its history is thrown away.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    cell: Cell,
    values: Vec<Option<f64>>,
    /// The values that the others may be divided by.
    bases: Vec<Option<f64>>,
}

/// One expectation in one place.
#[derive(Clone, Copy)]
struct Case<'a> {
    scenario: &'a Scenario,
    /// The expectation, by its place in the scenario.
    at: usize,
    policy: usize,
    load: f64,
}

// === impl Scenario ===

impl Scenario {
    pub(crate) fn sample(&self, cell: Cell, history: &History) -> Sample {
        let value = |expected: &Expectation| expected.figure.value(history, &self.slo);
        let values: Vec<Option<f64>> = self.expected.iter().map(value).collect();
        let base = |(expected, same): (&Expectation, &Option<f64>)| match &expected.over_figure {
            Some(figure) => figure.value(history, &self.slo),
            None => *same,
        };
        let bases = self.expected.iter().zip(&values).map(base).collect();
        Sample { cell, values, bases }
    }

    /// Judges every expectation whose cells have been run: of a part of a scenario only a part can
    /// be judged.
    pub(crate) fn verdicts(&self, samples: &[Sample]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for at in 0..self.expected.len() {
            for policy in 0..self.policies.len() {
                let case = |&load| Case { scenario: self, at, policy, load };
                let judged = self.loads.iter().map(case).filter_map(|case| case.judge(samples));
                verdicts.extend(judged);
            }
        }
        verdicts
    }
}

// === impl Case ===

impl Case<'_> {
    /// Whether the expectation is about this policy and this load.
    fn is_meant(self, expected: &Expectation) -> bool {
        expected.policy.is_none_or(|only| only == self.policy)
            && expected.load.is_none_or(|only| only == self.load)
            && (expected.over != Some(self.policy) || expected.over_figure.is_some())
    }

    /// Nothing where this is not what the expectation is about, or has not been run.
    fn judge(self, samples: &[Sample]) -> Option<Verdict> {
        let expected = &self.scenario.expected[self.at];
        if !self.is_meant(expected) {
            return None;
        }
        let mean = self.mean(samples, self.policy, |sample| &sample.values)?;
        let value = match expected.over {
            None => mean,
            Some(over) => {
                let base = self.mean(samples, over, |sample| &sample.bases)?;
                mean.zip(base).map(|(value, base)| value / base)
            }
        };
        let kept = value.is_some_and(|value| expected.limit.contains(value));
        let load = (self.scenario.loads.len() > 1).then_some(self.load);
        let (head, limited) = (expected.head.clone(), expected.limit.is_given());
        let goal = Some(expected.goal).filter(Range::is_given);
        let figure = self.to_string();
        let expected = format!("{figure}{}", expected.ranges());
        Some(Verdict { expected, figure, head, limited, goal, load, value, kept })
    }

    /// The mean over the seeds; the inner nothing where a run has no such figure.
    fn mean(
        self,
        samples: &[Sample],
        policy: usize,
        of: fn(&Sample) -> &Vec<Option<f64>>,
    ) -> Option<Option<f64>> {
        let same = |sample: &&Sample| sample.cell.policy == policy && sample.cell.load == self.load;
        let values: Vec<Option<f64>> =
            samples.iter().filter(same).map(|sample| of(sample)[self.at]).collect();
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let sum: Option<f64> = values.into_iter().sum();
        Some(sum.map(|sum| sum / count))
    }
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, at, policy, .. } = *self;
        let expected = &scenario.expected[at];
        write!(f, "{} under {}", expected.figure, scenario.policies[policy].name)?;
        if let Some(over) = expected.over {
            let name = &scenario.policies[over].name;
            match &expected.over_figure {
                Some(figure) => write!(f, " over {figure} under {name}")?,
                None => write!(f, " over that under {name}")?,
            }
        }
        Ok(())
    }
}

// === impl Expectation ===

impl Expectation {
    pub(super) fn check(&self, key: &str) -> Result<(), ScenarioError> {
        let wrong =
            |field: &str, message: &str| Err(ScenarioError::new(format!("{key}.{field}"), message));
        for (field, range) in [("min", self.limit), ("goal_min", self.goal)] {
            if !range.is_ordered() {
                return wrong(field, "the least is more than the most");
            }
        }
        if ![self.limit, self.goal].iter().any(Range::is_given) && self.head.is_none() {
            return wrong("min", "give min, max or both; without them a head, to show the figure");
        }
        Ok(())
    }

    /// The limit and the goal in words.
    fn ranges(&self) -> String {
        let limit = self.limit.is_given().then(|| format!(" is {}", self.limit));
        let goal = self.goal.is_given().then(|| format!(", should be {}", self.goal));
        [limit, goal].into_iter().flatten().collect()
    }
}

// === impl Verdict ===

impl Verdict {
    /// Whether there is a goal, and the figure does not lie in it.
    pub fn misses_goal(&self) -> bool {
        self.goal.is_some_and(|goal| !self.value.is_some_and(|value| goal.contains(value)))
    }
}

// === impl Range ===

impl Range {
    /// The range between two ends that may be missing.
    pub fn new(min: Option<f64>, max: Option<f64>) -> Self {
        Self { min: min.unwrap_or(f64::NEG_INFINITY), max: max.unwrap_or(f64::INFINITY) }
    }

    fn contains(self, value: f64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// Whether it has an end.
    fn is_given(&self) -> bool {
        self.min.is_finite() || self.max.is_finite()
    }

    fn is_ordered(self) -> bool {
        !self.min.is_nan() && !self.max.is_nan() && self.min <= self.max
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max } = self;
        match (min.is_finite(), max.is_finite()) {
            (true, false) => write!(f, "at least {min}"),
            (false, true) => write!(f, "at most {max}"),
            _ => write!(f, "{min} to {max}"),
        }
    }
}
