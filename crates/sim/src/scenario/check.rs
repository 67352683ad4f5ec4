//! From a scenario's file to values that can be run. Every refusal names its key.

use flow::{BANDS, Band, Span, Time};

use super::figure::BAND_NAMES;
use super::length::Length;
use super::{
    Expectation, Figure, Kind, Lengths, Measure, Policy, Rhythm, Scenario, ScenarioError, Scope,
    Traffic, file,
};
use crate::engine::{Profile, Shape};
use crate::gate::line::Order;
use crate::gate::{Cost, Tenant};
use crate::measure::Slo;
use crate::world::{Fault, Metrics, Trouble};

/// Bounds on what one scenario may ask for.
const ENGINES_MAX: usize = 256;
const CELLS_MAX: usize = 10_000;
const RATE_MAX: f64 = 1e5;

type Checked<T> = Result<T, ScenarioError>;

fn wrong<T>(key: impl Into<String>, message: impl Into<String>) -> Checked<T> {
    Err(ScenarioError::new(key, message))
}

fn require(holds: bool, key: impl Into<String>, message: impl Into<String>) -> Checked<()> {
    if holds { Ok(()) } else { wrong(key, message) }
}

pub(super) fn scenario(file: file::File) -> Checked<Scenario> {
    let engines = engines(&file.engines)?;
    let policies = indexed(&file.policies, "policies", policy)?;
    let loads = file.loads.clone().unwrap_or_else(|| vec![1.0]);
    let seeds = file.seeds.clone().unwrap_or_else(|| vec![1]);
    check_cells(&policies, &loads, &seeds)?;
    let duration = file.duration.0;
    require(duration > Span::ZERO, "duration", "must be more than 0")?;
    let warm_up = file.warm_up.map_or(Span::ZERO, |length| length.0);
    require(warm_up < duration, "warm_up", "must be shorter than the duration")?;
    let metrics = metrics(file.metrics.as_ref())?;
    let traffic = indexed(&file.traffic, "traffic", traffic)?;
    require(!traffic.is_empty(), "traffic", "give at least one [[traffic]]")?;
    let count = engines.len();
    let expected = indexed(&file.expect, "expect", |key, expect| {
        expectation(key, expect, &policies, &loads)
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
        tenants: indexed(&file.tenants, "tenants", tenant)?,
        faults: indexed(&file.faults, "faults", |key, fault| self::fault(key, fault, count))?,
        policies,
        loads,
        seeds,
        slo: file.slo.map_or_else(Slo::default, |slo| Slo { ttft: slo.ttft.0, tpot: slo.tpot.0 }),
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

fn traffic(key: &str, given: &file::Traffic) -> Checked<Traffic> {
    Ok(Traffic {
        trace: given.trace.clone(),
        lengths: lengths(key, given)?,
        rhythm: rhythm(key, given)?,
        tenant: given.tenant.clone(),
        bands: bands(key, given)?,
        patience: given.patience.map(|length| length.0),
        ttl: given.ttl.map(|length| length.0),
    })
}

fn lengths(key: &str, given: &file::Traffic) -> Checked<Lengths> {
    let numbers = [given.prompt, given.prompt_cv, given.output, given.output_cv];
    if given.trace.is_some() {
        let none = numbers.iter().all(Option::is_none);
        require(none, format!("{key}.trace"), "gives the lengths; leave out prompt and output")?;
        return Ok(Lengths::default());
    }
    let (Some(prompt), Some(output)) = (given.prompt, given.output) else {
        return wrong(format!("{key}.trace"), "give a trace, or prompt and output in tokens");
    };
    let sound = |mean: f64| (1.0..=1e7).contains(&mean);
    require(sound(prompt), format!("{key}.prompt"), "must be 1 to 1e7 tokens")?;
    require(sound(output), format!("{key}.output"), "must be 1 to 1e7 tokens")?;
    let (prompt_cv, output_cv) = (given.prompt_cv.unwrap_or(0.0), given.output_cv.unwrap_or(0.0));
    let sound = |cv: f64| (0.0..=10.0).contains(&cv);
    require(sound(prompt_cv), format!("{key}.prompt_cv"), "must be 0 to 10")?;
    require(sound(output_cv), format!("{key}.output_cv"), "must be 0 to 10")?;
    let both = (prompt_cv > 0.0) == (output_cv > 0.0);
    require(both, format!("{key}.output_cv"), "give both prompt_cv and output_cv, or neither")?;
    Ok(Lengths { prompt, prompt_cv, output, output_cv })
}

fn rhythm(key: &str, given: &file::Traffic) -> Checked<Rhythm> {
    use file::Arrivals::{Gamma, OnOff, Poisson, Replay};
    let owned = [
        ("rate", given.rate.is_some(), &[Poisson, Gamma, OnOff][..]),
        ("cv", given.cv.is_some(), &[Gamma]),
        ("quiet_rate", given.quiet_rate.is_some(), &[OnOff]),
        ("on", given.on.is_some(), &[OnOff]),
        ("off", given.off.is_some(), &[OnOff]),
        ("speed", given.speed.is_some(), &[Replay]),
    ];
    for (field, is_given, kinds) in owned {
        let fits = !is_given || kinds.contains(&given.arrivals);
        let message = format!("{:?} arrivals have no such figure", given.arrivals);
        require(fits, format!("{key}.{field}"), message.to_lowercase())?;
    }
    let rate = || {
        let rate = given.rate.unwrap_or(f64::NAN);
        let message = "must be more than 0, up to 1e5 requests per second";
        require(rate > 0.0 && rate <= RATE_MAX, format!("{key}.rate"), message)?;
        Ok(rate)
    };
    match given.arrivals {
        Poisson => Ok(Rhythm::Poisson { rate: rate()? }),
        Gamma => {
            let cv = given.cv.unwrap_or(f64::NAN);
            require(cv > 0.0 && cv <= 100.0, format!("{key}.cv"), "must be 0 to 100")?;
            Ok(Rhythm::Gamma { rate: rate()?, cv })
        }
        OnOff => {
            let quiet_rate = given.quiet_rate.unwrap_or(0.0);
            let sound = (0.0..=RATE_MAX).contains(&quiet_rate);
            require(sound, format!("{key}.quiet_rate"), "must be 0 to 1e5")?;
            let period = |field: &str, length: Option<Length>| match length {
                Some(Length(span)) if span > Span::ZERO => Ok(span),
                _ => wrong(format!("{key}.{field}"), "give a length of more than 0"),
            };
            let (on, off) = (period("on", given.on)?, period("off", given.off)?);
            Ok(Rhythm::OnOff { rate: rate()?, quiet_rate, on, off })
        }
        Replay => {
            let speed = given.speed.unwrap_or(1.0);
            require(speed > 0.0 && speed <= 1e3, format!("{key}.speed"), "must be 0 to 1000")?;
            let message = "only a trace can be replayed; name one";
            require(given.trace.is_some(), format!("{key}.trace"), message)?;
            Ok(Rhythm::Replay { speed })
        }
    }
}

fn bands(key: &str, given: &file::Traffic) -> Checked<[f64; BANDS]> {
    let mut shares = [0.0; BANDS];
    match (given.band, &given.bands) {
        (Some(_), Some(_)) => return wrong(format!("{key}.band"), "give band or bands, not both"),
        (band, None) => shares[band.unwrap_or(file::Band::Normal) as usize] = 1.0,
        (None, Some(given)) => {
            given.iter().for_each(|(&band, &share)| shares[band as usize] = share);
        }
    }
    let sound = shares.iter().all(|share| (0.0..=1.0).contains(share));
    let whole = (shares.iter().sum::<f64>() - 1.0).abs() < 1e-6;
    require(sound && whole, format!("{key}.bands"), "must be shares that add up to 1")?;
    Ok(shares)
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
    let what = match (given.what, factor) {
        (file::Trouble::Slow, Some(factor)) => Trouble::Slow(factor),
        (file::Trouble::Slow, None) => {
            return wrong(format!("{key}.factor"), "say how many times slower, 0 to 10000");
        }
        (_, _) if given.factor.is_some() => {
            return wrong(format!("{key}.factor"), "only `slow` has a factor");
        }
        (file::Trouble::Crash, None) => Trouble::Crash,
        (file::Trouble::Return, _) => Trouble::Return,
        (file::Trouble::NoMetrics, _) => Trouble::NoMetrics,
        (file::Trouble::Metrics | file::Trouble::Crash, _) => Trouble::Metrics,
    };
    Ok(Fault { at: Time::ZERO.after(given.at.0), engine: given.engine, what })
}

fn policy(key: &str, given: &file::Policy) -> Checked<Policy> {
    let line = |order: Order| -> Checked<Kind> {
        let watermark = given.watermark.filter(|mark| *mark >= 1.0 && mark.fract() == 0.0);
        let Some(watermark) = watermark.filter(|mark| *mark <= 1e6) else {
            return wrong(format!("{key}.watermark"), "give a whole number from 1 up");
        };
        Ok(Kind::Line(order, watermark as u32))
    };
    let ours = given.kind == file::Kind::Ours;
    for (field, is_given) in
        [("cost", given.cost.is_some()), ("flow_capacity", given.flow_capacity.is_some())]
    {
        require(ours || !is_given, format!("{key}.{field}"), "only `ours` has it")?;
    }
    let kind = match given.kind {
        file::Kind::Direct => {
            require(given.watermark.is_none(), format!("{key}.watermark"), "`direct` has none")?;
            Kind::Direct
        }
        file::Kind::Fifo => line(Order::Fifo)?,
        file::Kind::RoundRobin => line(Order::RoundRobin)?,
        file::Kind::Strict => line(Order::StrictBands)?,
        file::Kind::Ours => {
            let cost = match given.cost.unwrap_or(file::Cost::Tokens) {
                file::Cost::Requests => Cost::Requests,
                file::Cost::Tokens => Cost::Tokens,
            };
            Kind::Ours(cost, given.watermark)
        }
    };
    let capacity = given.capacity.unwrap_or(1000);
    let policy = Policy {
        name: given.name.clone().unwrap_or_else(|| name_of(kind)),
        kind,
        capacity,
        flow_capacity: given.flow_capacity.unwrap_or(capacity),
        ttl: given.ttl.map_or(Span::from_secs(30), |length| length.0),
        without: given.without.clone(),
        metrics: given.metrics.unwrap_or(true),
    };
    match policy.gate(&[]) {
        Err(error) => wrong(format!("{key}.watermark"), error.message),
        Ok(_) => Ok(policy),
    }
}

fn name_of(kind: Kind) -> String {
    let bound = |watermark: Option<f64>| match watermark {
        Some(watermark) => format!("{watermark}"),
        None => "auto".to_owned(),
    };
    match kind {
        Kind::Direct => "direct".to_owned(),
        Kind::Line(Order::Fifo, watermark) => format!("fifo {watermark}"),
        Kind::Line(Order::RoundRobin, watermark) => format!("round-robin {watermark}"),
        Kind::Line(Order::StrictBands, watermark) => format!("strict {watermark}"),
        Kind::Ours(Cost::Requests, watermark) => format!("ours requests {}", bound(watermark)),
        Kind::Ours(Cost::Tokens, watermark) => format!("ours tokens {}", bound(watermark)),
    }
}

fn expectation(
    key: &str,
    given: &file::Expect,
    policies: &[Policy],
    loads: &[f64],
) -> Checked<Expectation> {
    let find = |field: &str, name: &Option<String>| -> Checked<Option<usize>> {
        let Some(name) = name else { return Ok(None) };
        let found = policies.iter().position(|policy| policy.name == *name);
        let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
        let message = format!("`{name}` is not a policy here; there are {}", names.join(", "));
        found.map(Some).ok_or_else(|| ScenarioError::new(format!("{key}.{field}"), message))
    };
    let known = given.load.is_none_or(|load| loads.contains(&load));
    require(known, format!("{key}.load"), "is not among the loads")?;
    let scope = Scope {
        band: given.band.map(|band| Band::DESCENDING[BAND_NAMES.len() - 1 - band as usize]),
        tenant: given.tenant.clone(),
        except: given.except.clone(),
    };
    let measure = Measure::parse(format!("{key}.figure"), &given.figure)?;
    let expectation = Expectation {
        figure: Figure { measure, scope },
        policy: find("policy", &given.policy)?,
        load: given.load,
        over: find("over", &given.over)?,
        min: given.min.unwrap_or(f64::NEG_INFINITY),
        max: given.max.unwrap_or(f64::INFINITY),
    };
    expectation.check(key)?;
    Ok(expectation)
}
