//! From a scenario's file to values that can be run. Every refusal names its key.

mod figures;
mod policy;
mod traffic;

use flow::{Span, Time};

use super::{Policy, Scenario, ScenarioError, Traffic, file};
use crate::engine::{Profile, Shape};
use crate::gate::Tenant;
use crate::measure::Slo;
use crate::world::{Fault, Metrics, Trouble};

/// Bounds on what one scenario may ask for.
const ENGINES_MAX: usize = 256;
const CELLS_MAX: usize = 10_000;
/// Every request is kept until its run has ended: so many take about a gigabyte.
const REQUESTS_MAX: f64 = 1e7;

type Checked<T> = Result<T, ScenarioError>;

fn wrong<T>(key: impl Into<String>, message: impl Into<String>) -> Checked<T> {
    Err(ScenarioError::new(key, message))
}

fn require(holds: bool, key: impl Into<String>, message: impl Into<String>) -> Checked<()> {
    if holds { Ok(()) } else { wrong(key, message) }
}

pub(super) fn scenario(file: file::File) -> Checked<Scenario> {
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
    check_requests(&traffic, &loads, duration)?;
    let tenants = indexed(&file.tenants, "tenants", tenant)?;
    check_tenants(&tenants)?;
    let count = engines.len();
    let expected = indexed(&file.expect, "expect", |key, expect| {
        figures::expectation(key, expect, &policies, &loads)
    })?;
    Ok(Scenario {
        title: file.title,
        about: file.about,
        duration,
        warm_up,
        drain: file.drain.map_or(Span::from_secs(600), |length| length.0),
        network: file.network.map_or(Span::from_millis(1), |length| length.0),
        metrics,
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
    })
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

fn check_cells(policies: &[Policy], loads: &[f64], seeds: &[u64]) -> Checked<()> {
    require(!policies.is_empty(), "policies", "give at least one [[policies]]")?;
    for (at, policy) in policies.iter().enumerate() {
        let twice = policies[..at].iter().any(|other| other.name == policy.name);
        let key = format!("policies[{at}].name");
        require(!twice, key, format!("`{}` is there twice; give it a name", policy.name))?;
    }
    let sound = |load: &f64| *load > 0.0 && *load <= 100.0;
    require(!loads.is_empty() && loads.iter().all(sound), "loads", "each must be 0 to 100")?;
    require(!seeds.is_empty(), "seeds", "give at least one")?;
    let cells = policies.len() * loads.len() * seeds.len();
    require(cells <= CELLS_MAX, "seeds", format!("{cells} runs are too many; {CELLS_MAX} at most"))
}

fn check_requests(traffic: &[Traffic], loads: &[f64], duration: Span) -> Checked<()> {
    let most = loads.iter().copied().fold(0.0, f64::max);
    let rate: f64 = traffic.iter().map(Traffic::rate_max).sum();
    let requests = rate * most * duration.secs_f64();
    let message = format!("{requests:.0} requests in a run are too many; {REQUESTS_MAX} at most");
    require(requests <= REQUESTS_MAX, "duration", message)
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

fn engines(given: &[file::Engine]) -> Checked<Vec<Profile>> {
    let mut engines = Vec::new();
    for (profile, count) in indexed(given, "engines", engine)? {
        engines.extend(std::iter::repeat_n(profile, count as usize));
        let message = format!("more than {ENGINES_MAX} engines");
        require(engines.len() <= ENGINES_MAX, "engines", message)?;
    }
    require(!engines.is_empty(), "engines", "give at least one [[engines]]")?;
    Ok(engines)
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
        Shape::Batch(batch) => {
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
    Ok(Tenant { name: given.name.clone(), weight: given.weight })
}

fn fault(key: &str, given: &file::Fault, engines: usize) -> Checked<Fault> {
    let message = format!("there are engines 0 to {}", engines - 1);
    require((given.engine as usize) < engines, format!("{key}.engine"), message)?;
    let factor = given.factor.filter(|factor| *factor > 0.0 && *factor <= 1e4);
    let slow = given.what == file::Trouble::Slow;
    let message = "only `slow` has a factor";
    require(slow || given.factor.is_none(), format!("{key}.factor"), message)?;
    let what = match (given.what, factor) {
        (file::Trouble::Slow, Some(factor)) => Trouble::Slow(factor),
        (file::Trouble::Slow, None) => {
            return wrong(format!("{key}.factor"), "say how many times slower, above 0 to 10000");
        }
        (file::Trouble::Crash, _) => Trouble::Crash,
        (file::Trouble::Return, _) => Trouble::Return,
        (file::Trouble::NoMetrics, _) => Trouble::NoMetrics,
        (file::Trouble::Metrics, _) => Trouble::Metrics,
    };
    Ok(Fault { at: Time::ZERO.after(given.at.0), engine: given.engine, what })
}
