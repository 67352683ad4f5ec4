//! Checks a scenario's file and turns it into values that can be run. Every error names its key.

mod figures;
mod policy;
mod traffic;

use flow::{Span, Time};

use super::{PolicyConfig, Scenario, ScenarioError, Traffic, file};
use crate::autoscaler::Scaling;
use crate::engine::{Profile, RanksShape, Shape};
use crate::measure::Slo;
use crate::policy::Tenant;
use crate::world::{Fault, FaultKind, Metrics};

/// Bounds on what one scenario may ask for.
const ENGINES_MAX: usize = 256;
const CELLS_MAX: usize = 10_000;
/// Every request is kept until its run has ended: so many take about a gigabyte.
const REQUESTS_MAX: f64 = 1e7;
/// Every block of an engine takes memory: so many tokens take 800 MB in each run.
const KV_TOKENS_MAX: u64 = 400_000_000;
/// A reading is work even where nothing arrives, so requests alone do not bound a run.
const READINGS_MAX: f64 = 5e7;

type Checked<T> = Result<T, ScenarioError>;

fn wrong<T>(key: impl Into<String>, message: impl Into<String>) -> Checked<T> {
    Err(ScenarioError::new(key, message))
}

fn require(holds: bool, key: impl Into<String>, message: impl Into<String>) -> Checked<()> {
    if holds { Ok(()) } else { wrong(key, message) }
}

/// Names stand in tables and on terminals, where a line feed or an escape would break the rest.
fn one_line<'a>(
    key: impl Into<String>,
    texts: impl IntoIterator<Item = &'a String>,
) -> Checked<()> {
    let sound = |text: &String| !text.contains(char::is_control);
    require(texts.into_iter().all(sound), key, "must be one line without control characters")
}

pub(super) fn scenario(file: file::File) -> Checked<Scenario> {
    one_line("title", [&file.title])?;
    let engines = engines(&file.engines)?;
    let policies = indexed(&file.policies, "policies", policy::policy)?;
    let loads = file.loads.clone().unwrap_or_else(|| vec![1.0]);
    let seeds = file.seeds.clone().unwrap_or_else(|| vec![1]);
    check_cells(&policies, &loads, &seeds)?;
    let duration = file.duration.0;
    require(duration > Span::ZERO, "duration", "must be more than 0")?;
    let warm_up = file.warm_up.map_or(Span::ZERO, |length| length.0);
    require(warm_up < duration, "warm_up", "must be shorter than the duration")?;
    let metrics = metrics(file.metrics.as_ref())?;
    let traffic = indexed(&file.traffic, "traffic", traffic::traffic)?;
    require(!traffic.is_empty(), "traffic", "give at least one [[traffic]]")?;
    let tenants = indexed(&file.tenants, "tenants", tenant)?;
    check_tenants(&tenants)?;
    let count = engines.len();
    let scaling = scaling(file.scaling.as_ref(), &policies, count)?;
    let expected = indexed(&file.expect, "expect", |key, expect| {
        figures::expectation(key, expect, &policies, &loads)
    })?;
    let scenario = Scenario {
        title: file.title,
        about: file.about,
        duration,
        warm_up,
        drain: file.drain.map_or(Span::from_secs(600), |length| length.0),
        network: file.network.map_or(Span::from_millis(1), |length| length.0),
        metrics,
        scaling,
        engines,
        traffic,
        tenants,
        faults: indexed(&file.faults, "faults", |key, fault| self::fault(key, fault, count))?,
        policies,
        loads,
        seeds,
        slo: file.slo.map_or_else(Slo::default, |slo| Slo { ttft: slo.ttft.0, tpot: slo.tpot.0 }),
        columns: indexed(&file.columns, "columns", figures::column)?,
        expected,
    };
    work(&scenario)?;
    Ok(scenario)
}

/// Checks each entry of a table under its own key.
fn indexed<T, U>(
    entries: &[T],
    table: &str,
    check: impl Fn(&str, &T) -> Checked<U>,
) -> Checked<Vec<U>> {
    let checked = |(at, entry)| check(&format!("{table}[{at}]"), entry);
    entries.iter().enumerate().map(checked).collect()
}

fn check_cells(policies: &[PolicyConfig], loads: &[f64], seeds: &[u64]) -> Checked<()> {
    // First, because the search for duplicates takes long in long lists.
    check_runs(policies.len(), loads.len(), seeds.len())?;
    for (at, policy) in policies.iter().enumerate() {
        let twice = policies[..at].iter().any(|other| other.name == policy.name);
        let key = format!("policies[{at}].name");
        require(!twice, key, format!("`{}` is there twice; give it a name", policy.name))?;
    }
    let sound = |load: &f64| *load > 0.0 && *load <= 100.0;
    require(loads.iter().all(sound), "loads", "each must be more than 0, up to 100")?;
    differ("loads", loads)?;
    differ("seeds", seeds)
}

/// The same again would only weigh double in every mean.
fn differ<T: PartialEq + std::fmt::Display>(key: &str, values: &[T]) -> Checked<()> {
    let twice = values.iter().enumerate().find(|&(at, value)| values[..at].contains(value));
    match twice {
        Some((_, value)) => wrong(key, format!("`{value}` is there twice")),
        None => Ok(()),
    }
}

fn check_runs(policies: usize, loads: usize, seeds: usize) -> Checked<()> {
    require(policies > 0, "policies", "give at least one [[policies]]")?;
    require(loads > 0, "loads", "give at least one")?;
    require(seeds > 0, "seeds", "give at least one")?;
    let runs = policies.saturating_mul(loads).saturating_mul(seeds);
    require(runs <= CELLS_MAX, "seeds", format!("{runs} runs are too many; {CELLS_MAX} at most"))
}

/// Whether a scenario as it stands can be run in sensible time and memory.
pub(super) fn work(scenario: &Scenario) -> Checked<()> {
    let Scenario { policies, loads, seeds, .. } = scenario;
    check_runs(policies.len(), loads.len(), seeds.len())?;
    let most = loads.iter().copied().fold(0.0, f64::max);
    let rate: f64 = scenario.traffic.iter().map(Traffic::rate_max).sum();
    let requests = rate * most * scenario.duration.secs_f64();
    let message = format!("{requests:.0} requests in a run are too many; {REQUESTS_MAX} at most");
    require(requests <= REQUESTS_MAX, "duration", message)?;
    let Some(metrics) = scenario.metrics else { return Ok(()) };
    // Metrics are read until the last request has ended.
    let seconds = scenario.duration.secs_f64() + scenario.drain.secs_f64();
    let engines = (scenario.engines.len() * scenario.cells().len()) as f64;
    let readings = (seconds / metrics.every.secs_f64() * engines).round();
    let message = format!(
        "{readings} readings by all engines in all runs, drain included, are too many; \
         {READINGS_MAX} at most"
    );
    require(readings <= READINGS_MAX, "metrics.every", message)
}

fn check_tenants(tenants: &[Tenant]) -> Checked<()> {
    for (at, tenant) in tenants.iter().enumerate() {
        let twice = tenants[..at].iter().any(|other| other.name == tenant.name);
        let message = format!("`{}` is there twice", tenant.name);
        require(!twice, format!("tenants[{at}].name"), message)?;
    }
    Ok(())
}

fn metrics(given: Option<&file::Metrics>) -> Checked<Option<Metrics>> {
    let Some(given) = given else { return Ok(None) };
    let every = given.every.0;
    require(every >= Span::from_millis(1), "metrics.every", "must be 1ms or more")?;
    Ok(Some(Metrics { every, lag: given.lag.map_or(Span::ZERO, |lag| lag.0) }))
}

/// A policy that scales needs the section, and a fixed number cannot exceed the engines.
fn scaled_policy(key: &str, policy: &PolicyConfig, given: bool, engines: usize) -> Checked<()> {
    let scales = policy.scale_by.is_some();
    require(!scales || given, format!("{key}.scale_by"), "needs [scaling]")?;
    let known = policy.fixed_engines.is_none_or(|count| count as usize <= engines);
    let message = format!("there are {engines} engines");
    require(known, format!("{key}.fixed_engines"), message)
}

/// How engines come and go. An engine of which too few exist would be a start that never ends.
fn scaling(
    given: Option<&file::Scaling>,
    policies: &[PolicyConfig],
    engines: usize,
) -> Checked<Option<Scaling>> {
    for (at, policy) in policies.iter().enumerate() {
        scaled_policy(&format!("policies[{at}]"), policy, given.is_some(), engines)?;
    }
    let Some(given) = given else { return Ok(None) };
    let (min, max) = (given.min.unwrap_or(1), engines as u32);
    let message = format!("must be 1 to {max}, the number of engines");
    require((1..=max).contains(&min), "scaling.min", message)?;
    let poll = given.poll.map_or(Span::from_secs(15), |length| length.0);
    require(poll >= Span::from_secs(1), "scaling.poll", "must be 1s or more")?;
    let cool_down = given.cool_down.map_or(Span::from_secs(300), |length| length.0);
    require(cool_down <= Span::from_secs(86_400), "scaling.cool_down", "must be a day at most")?;
    Ok(Some(Scaling { min, max, start_up: given.start_up.0, poll, cool_down }))
}

fn engines(given: &[file::Engine]) -> Checked<Vec<Profile>> {
    let mut engines = Vec::new();
    for (profile, count) in indexed(given, "engines", engine)? {
        engines.extend(std::iter::repeat_n(profile, count as usize));
        let message = format!("more than {ENGINES_MAX} engines");
        require(engines.len() <= ENGINES_MAX, "engines", message)?;
    }
    require(!engines.is_empty(), "engines", "give at least one [[engines]]")?;
    let tokens: u64 = engines.iter().map(kv_tokens).sum();
    let message = format!("{tokens} tokens of KV cache are too many; {KV_TOKENS_MAX} at most");
    require(tokens <= KV_TOKENS_MAX, "engines", message)?;
    Ok(engines)
}

fn kv_tokens(engine: &Profile) -> u64 {
    match engine.shape() {
        Shape::Batch(batch) => batch.kv_tokens,
        Shape::Ranks(ranks) => ranks.each.kv_tokens.saturating_mul(u64::from(ranks.ranks)),
        Shape::Slots(_) => 0,
    }
}

fn engine(key: &str, given: &file::Engine) -> Checked<(Profile, u32)> {
    let Some(named) = Profile::named(&given.profile) else {
        let known = Profile::NAMES.join(", ");
        let message = format!("`{}` is not a profile; known are {known}", given.profile);
        return wrong(format!("{key}.profile"), message);
    };
    let mut shape = *named.shape();
    let foreign = |field: &str| {
        wrong(format!("{key}.{field}"), format!("`{}` has no such figure", given.profile))
    };
    match &mut shape {
        Shape::Batch(batch) | Shape::Ranks(RanksShape { each: batch, .. }) => {
            if given.slots.is_some() {
                return foreign("slots");
            }
            batch.kv_tokens = given.kv_tokens.unwrap_or(batch.kv_tokens);
            batch.max_seqs = given.max_seqs.unwrap_or(batch.max_seqs);
            batch.max_batched_tokens = given.step_tokens.unwrap_or(batch.max_batched_tokens);
        }
        Shape::Slots(slots) => {
            if given.kv_tokens.is_some() || given.max_seqs.is_some() || given.step_tokens.is_some()
            {
                return foreign("kv_tokens, max_seqs and step_tokens");
            }
            slots.slots = given.slots.unwrap_or(slots.slots);
        }
    }
    let count = given.count.unwrap_or(1);
    let range = 1..=ENGINES_MAX as u32;
    require(range.contains(&count), format!("{key}.count"), "must be 1 to 256")?;
    let profile = Profile::new(&given.profile, shape)
        .map_err(|error| ScenarioError::new(format!("{key}.{}", error.key), error.to_string()))?;
    Ok((profile, count))
}

fn tenant(key: &str, given: &file::Tenant) -> Checked<Tenant> {
    flow::Weight::new(given.weight)
        .map_err(|error| ScenarioError::new(format!("{key}.weight"), error.to_string()))?;
    require(!given.name.is_empty(), format!("{key}.name"), "must not be empty")?;
    one_line(format!("{key}.name"), [&given.name])?;
    Ok(Tenant { name: given.name.clone(), weight: given.weight })
}

fn fault(key: &str, given: &file::Fault, engines: usize) -> Checked<Fault> {
    let message = format!("there are engines 0 to {}", engines - 1);
    require((given.engine as usize) < engines, format!("{key}.engine"), message)?;
    let factor = given.factor.filter(|factor| *factor > 0.0 && *factor <= 1e4);
    let slow = given.what == file::FaultKind::Slow;
    let message = "only `slow` has a factor";
    require(slow || given.factor.is_none(), format!("{key}.factor"), message)?;
    let what = match (given.what, factor) {
        (file::FaultKind::Slow, Some(factor)) => FaultKind::Slow(factor),
        (file::FaultKind::Slow, None) => {
            return wrong(format!("{key}.factor"), "say how many times slower, above 0 to 10000");
        }
        (file::FaultKind::Crash, _) => FaultKind::Crash,
        (file::FaultKind::Return, _) => FaultKind::Return,
        (file::FaultKind::NoMetrics, _) => FaultKind::NoMetrics,
        (file::FaultKind::Metrics, _) => FaultKind::Metrics,
    };
    Ok(Fault { at: Time::ZERO.after(given.at.0), engine: given.engine, what })
}
