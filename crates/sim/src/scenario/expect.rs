//! The expectations of a scenario.

use std::fmt;

use super::{Cell, Figure, Scenario, ScenarioError};
use crate::measure::History;

/// A range that a figure must lie in, as a mean over the seeds.
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
    /// The least it may be.
    pub min: f64,
    /// The most it may be.
    pub max: f64,
}

/// Whether a run kept to an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The expectation in words, without the load.
    pub expected: String,
    /// The head of its column in a table of cases.
    pub head: Option<String>,
    /// Whether there is a range; without one the figure is only shown.
    pub limited: bool,
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
    /// Nothing where this is not what the expectation is about, or has not been run.
    fn judge(self, samples: &[Sample]) -> Option<Verdict> {
        let expected = &self.scenario.expected[self.at];
        let meant = expected.policy.is_none_or(|only| only == self.policy)
            && expected.load.is_none_or(|only| only == self.load)
            && (expected.over != Some(self.policy) || expected.over_figure.is_some());
        if !meant {
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
        let kept = value.is_some_and(|value| (expected.min..=expected.max).contains(&value));
        let load = (self.scenario.loads.len() > 1).then_some(self.load);
        let (head, limited) = (expected.head.clone(), expected.is_limited());
        Some(Verdict { expected: self.to_string(), head, limited, load, value, kept })
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
        match (expected.min.is_finite(), expected.max.is_finite()) {
            (true, true) => write!(f, " is {} to {}", expected.min, expected.max),
            (true, false) => write!(f, " is at least {}", expected.min),
            (false, true) => write!(f, " is at most {}", expected.max),
            (false, false) => Ok(()),
        }
    }
}

// === impl Expectation ===

impl Expectation {
    pub(super) fn check(&self, key: &str) -> Result<(), ScenarioError> {
        let wrong =
            |field: &str, message: &str| Err(ScenarioError::new(format!("{key}.{field}"), message));
        if self.min.is_nan() || self.max.is_nan() || self.min > self.max {
            return wrong("min", "the least is more than the most");
        }
        if !self.is_limited() && self.head.is_none() {
            return wrong("min", "give min, max or both; without them a head, to show the figure");
        }
        Ok(())
    }

    /// Whether it has a range; without one the figure is only shown.
    fn is_limited(&self) -> bool {
        self.min.is_finite() || self.max.is_finite()
    }
}
