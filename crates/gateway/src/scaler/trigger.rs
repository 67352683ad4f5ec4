//! What a trigger of a ScaledObject asks for: a model, a metric and its target.
//!
//! KEDA sends the whole metadata of the trigger, its own keys included, so unknown keys are no
//! error. A value that is not understood is: an autoscaler that is told a wrong number would act
//! on it.

use std::collections::BTreeMap;

use flow::{Demand, ModelId, ScaleGoal};

use crate::backend::Lookup;
use crate::clock;
use crate::grpc::{Code, Status};
use crate::state::State;

/// A metric of the metadata, its name for KEDA, and the target of one replica where there is a
/// usual one.
const METRICS: [(&str, Metric, Option<f64>); 5] = [
    ("backendsWanted", Metric::BackendsWanted, Some(1.0)),
    ("backlogSeconds", Metric::BacklogSeconds, Some(10.0)),
    ("queue", Metric::Queue, Some(1.0)),
    ("running", Metric::Running, Some(16.0)),
    ("tokens", Metric::Tokens, None),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    /// The backends that the demand needs.
    BackendsWanted,
    /// The time until the backlog has been completed.
    BacklogSeconds,
    /// Requests that wait.
    Queue,
    /// Requests at a backend.
    Running,
    /// Their tokens.
    Tokens,
}

/// See the module's description.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trigger {
    /// The model; all models together without one.
    pub(super) model: Option<String>,
    pub(super) metric: Metric,
    pub(super) name: &'static str,
    pub(super) target: f64,
}

// === impl Trigger ===

impl Trigger {
    pub(super) fn read(metadata: &BTreeMap<String, String>) -> Result<Self, Status> {
        let given = |key: &str| metadata.get(key).filter(|value| !value.is_empty());
        let metric = given("metric").map_or("backendsWanted", String::as_str);
        let known = METRICS.into_iter().find(|(name, ..)| *name == metric);
        let Some((name, metric, usual)) = known else {
            let names = METRICS.map(|(name, ..)| name).join(", ");
            return Err(wrong(format!("metric is {metric:?}, it must be one of: {names}")));
        };
        let target = given("target").map(|text| target_of(text)).transpose()?.or(usual);
        let Some(target) = target else {
            return Err(wrong(format!("target is missing: the metric {name} has no usual one")));
        };
        Ok(Self { model: given("model").cloned(), metric, name, target })
    }

    /// The number of the model, if the trigger names one.
    pub(super) fn number(&self, state: &State) -> Result<Option<ModelId>, Status> {
        let Some(model) = &self.model else { return Ok(None) };
        let roster = state.fleet.roster();
        match roster.lookup(model) {
            Lookup::Known(id) | Lookup::Configured(id) => Ok(Some(id)),
            // A pool without models: the requests that wait may be for this one.
            Lookup::NotYet(id) if roster.holds() => Ok(Some(id)),
            // The lists of backends are not known yet, so KEDA should ask again.
            Lookup::NotYet(_) => Err(Status::told(
                Code::Unavailable,
                format!("the models of a backend are not known yet, {model:?} may be one"),
            )),
            Lookup::Unknown => Err(Status::told(
                Code::NotFound,
                format!("no backend lists the model {model:?}, and no target in [[models]] is it"),
            )),
        }
    }

    /// The demands that the trigger is about, one for each group of backends.
    pub(super) fn demands(&self, state: &State) -> Result<Vec<Demand>, Status> {
        let number = self.number(state)?;
        Ok(state.scheduler.with(|core, now| match number {
            Some(model) => core.demand(model, now).into_iter().collect(),
            None => core.demands(now),
        }))
    }

    /// The present value of the metric.
    pub(super) fn value(&self, state: &State) -> Result<f64, Status> {
        if self.metric == Metric::Tokens {
            let number = self.number(state)?;
            return Ok(state.scheduler.with(|core, _| core.tokens_in_flight(number)) as f64);
        }
        let goal = state.config.load().scaler.goal;
        Ok(self.demands(state)?.iter().map(|demand| self.metric.of(demand, goal)).sum())
    }

    /// Whether a request waits or is at a backend, or one came within the quiet time.
    pub(super) fn is_active(&self, state: &State) -> Result<bool, Status> {
        let quiet = clock::span(state.config.load().scaler.quiet);
        Ok(self.demands(state)?.iter().any(|demand| demand.is_active(quiet)))
    }
}

// === impl Metric ===

impl Metric {
    fn of(self, demand: &Demand, goal: ScaleGoal) -> f64 {
        match self {
            Self::BackendsWanted => f64::from(demand.wanted(goal)),
            Self::BacklogSeconds => demand.backlog_secs(),
            Self::Queue => f64::from(demand.waiting),
            Self::Running => f64::from(demand.in_flight),
            // It is counted from the requests themselves.
            Self::Tokens => 0.0,
        }
    }
}

fn target_of(text: &str) -> Result<f64, Status> {
    let number = text.trim().parse().ok().filter(|target: &f64| target.is_finite());
    match number.filter(|&target| target > 0.0) {
        Some(target) => Ok(target),
        None => Err(wrong(format!("target is {text:?}, it must be a number above 0"))),
    }
}

fn wrong(text: String) -> Status {
    Status::told(Code::InvalidArgument, text)
}

#[cfg(test)]
mod tests;
