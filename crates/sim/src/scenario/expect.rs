//! What must come out of a scenario.

use std::fmt;

use super::{Cell, Figure, Scenario, ScenarioError};
use crate::measure::History;

/// A range that a figure must lie in, as a mean over the seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// What is looked at.
    pub figure: Figure,
    /// Under which policy, by its place in the scenario; under each where nothing is said.
    pub policy: Option<usize>,
    /// Under which load; under each where nothing is said.
    pub load: Option<f64>,
    /// The policy whose figure it is divided by.
    pub over: Option<usize>,
    /// The least it may be.
    pub min: f64,
    /// The most it may be.
    pub max: f64,
}

/// Whether a run kept to an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What was expected, in words.
    pub expected: String,
    /// What came out; nothing where no request counted.
    pub value: Option<f64>,
    /// Whether that is within the range.
    pub kept: bool,
}

/// The value of each expectation's figure in one cell, kept when its history is thrown away.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) cell: Cell,
    pub(super) values: Vec<Option<f64>>,
}

// === impl Scenario ===

impl Scenario {
    pub(super) fn sample(&self, cell: Cell, history: &History) -> Sample {
        let value = |expected: &Expectation| expected.figure.value(history, &self.slo);
        Sample { cell, values: self.expected.iter().map(value).collect() }
    }

    pub(super) fn verdicts(&self, samples: &[Sample]) -> Vec<Verdict> {
        let judge = |(at, expected): (usize, &Expectation)| {
            let policies = (0..self.policies.len())
                .filter(move |&policy| expected.policy.is_none_or(|only| only == policy));
            let cells = policies.flat_map(move |policy| {
                let loads = self.loads.iter().copied();
                let loads = loads.filter(move |&load| expected.load.is_none_or(|only| only == load));
                loads.map(move |load| (policy, load))
            });
            let verdict = move |(policy, load)| self.verdict(samples, at, policy, load);
            cells.map(verdict).collect::<Vec<_>>()
        };
        self.expected.iter().enumerate().flat_map(judge).collect()
    }

    fn verdict(&self, samples: &[Sample], at: usize, policy: usize, load: f64) -> Verdict {
        let expected = &self.expected[at];
        let mean = |policy: usize| mean_of(samples, at, policy, load);
        let value = match expected.over {
            None => mean(policy),
            Some(over) => mean(policy).zip(mean(over)).map(|(value, base)| value / base),
        };
        let kept = value.is_some_and(|value| (expected.min..=expected.max).contains(&value));
        let words = Words { scenario: self, expected, policy, load };
        Verdict { expected: words.to_string(), value, kept }
    }
}

fn mean_of(samples: &[Sample], at: usize, policy: usize, load: f64) -> Option<f64> {
    let same = |sample: &&Sample| sample.cell.policy == policy && sample.cell.load == load;
    let values: Option<Vec<f64>> =
        samples.iter().filter(same).map(|sample| sample.values[at]).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

struct Words<'a> {
    scenario: &'a Scenario,
    expected: &'a Expectation,
    policy: usize,
    load: f64,
}

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, expected, policy, load } = *self;
        write!(f, "{} under {}", expected.figure, scenario.policies[policy].name)?;
        if let Some(over) = expected.over {
            write!(f, " over that under {}", scenario.policies[over].name)?;
        }
        if scenario.loads.len() > 1 {
            write!(f, " at load {load}")?;
        }
        match (expected.min.is_finite(), expected.max.is_finite()) {
            (true, true) => write!(f, " is {} to {}", expected.min, expected.max),
            (true, false) => write!(f, " is at least {}", expected.min),
            (false, _) => write!(f, " is at most {}", expected.max),
        }
    }
}

// === impl Expectation ===

impl Expectation {
    pub(super) fn check(&self, key: &str) -> Result<(), ScenarioError> {
        let wrong = |field: &str, message: &str| {
            Err(ScenarioError::new(format!("{key}.{field}"), message))
        };
        if self.min.is_nan() || self.max.is_nan() || self.min > self.max {
            return wrong("min", "the least is more than the most");
        }
        if self.min.is_infinite() && self.max.is_infinite() {
            return wrong("min", "give min, max or both");
        }
        let scoped = self.figure.scope != super::Scope::default();
        if scoped && !self.figure.measure.has_scope() {
            return wrong("figure", "this figure is of all requests; leave out band and tenants");
        }
        Ok(())
    }
}
