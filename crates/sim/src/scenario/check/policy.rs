//! Checks a policy of a scenario, and names it where the file gives no name.

use flow::start_limiter::StartLimiterSettings;
use flow::{Bounds, ReserveLimits, SLO_TTFT, Settings, Span};

use super::{Checked, one_line, require, wrong};
use crate::autoscaler::ScaleSignal;
use crate::policy::Cost;
use crate::policy::batch::Release;
use crate::policy::plain_queue::QueueOrder;
use crate::policy::routed::RoutingRule;
use crate::scenario::{PolicyConfig, PolicyKind, file};

pub(super) fn policy(key: &str, given: &file::Policy) -> Checked<PolicyConfig> {
    check_keys(key, given)?;
    let [pace, slo_tpot] = [given.pace, given.slo_tpot].map(|given| given.map(|length| length.0));
    for (field, length) in [("pace", pace), ("slo_tpot", slo_tpot)] {
        require(length != Some(Span::ZERO), format!("{key}.{field}"), "must be more than 0")?;
    }
    let unstreamed = given.unstreamed.unwrap_or(0.0);
    let share = (0.0..=1.0).contains(&unstreamed);
    require(share, format!("{key}.unstreamed"), "must be from 0 to 1")?;
    let kind = kind(key, given)?;
    one_line(format!("{key}.name"), &given.name)?;
    let usual = Settings::usual();
    let capacity = given.capacity.unwrap_or(usual.total_capacity);
    let objective = given.objective.map_or(SLO_TTFT, |length| length.0);
    let policy = PolicyConfig {
        name: given.name.clone().unwrap_or_else(|| name_of(given, kind)),
        kind,
        capacity,
        flow_capacity: given.flow_capacity.unwrap_or(usual.default_class.capacity),
        pace,
        slo_tpot,
        reserve: reserve(key, given)?,
        ttl: given.ttl.map_or(usual.default_class.ttl, |length| length.0),
        objective: if objective == Span::ZERO { Span::FOREVER } else { objective },
        cache_tokens: given.cache_tokens.unwrap_or(usual.cache_tokens),
        cache_slack: given.cache_slack.unwrap_or(usual.cache_slack),
        cache_reorder: given.cache_reorder.unwrap_or(usual.cache_reorder),
        cache_delay: given.cache_delay.map_or(usual.cache_delay, |length| length.0),
        without: given.without.clone(),
        metrics: given.metrics.unwrap_or(true),
        unstreamed,
        told: given.told.unwrap_or(false),
        places: given.places,
        scale_by: scale_by(key, given)?,
        fixed_engines: given.fixed_engines,
    };
    match policy.build(&[]) {
        Err(error) => wrong(format!("{key}.watermark"), error.message),
        Ok(_) => Ok(policy),
    }
}

/// Refuses keys that this kind of policy does not have.
fn check_keys(key: &str, given: &file::Policy) -> Checked<()> {
    let ours = given.kind == file::Kind::Ours;
    let batch = given.kind == file::Kind::Batch;
    let auto = ours && given.watermark.is_none();
    let routed = given.kind == file::Kind::Routed;
    let has_watermark = !batch && !routed && given.kind != file::Kind::Direct;
    let keys = [
        ("cost", given.cost.is_some(), ours, "only `ours` has it"),
        ("flow_capacity", given.flow_capacity.is_some(), ours, "only `ours` has it"),
        ("objective", given.objective.is_some(), ours, "only `ours` has it"),
        ("unstreamed", given.unstreamed.is_some(), ours, "only `ours` has it"),
        ("told", given.told.is_some(), ours, "only `ours` has it"),
        ("places", given.places.is_some(), auto, "only `ours` without a watermark has it"),
        ("reserve_share_max", given.reserve_share_max.is_some(), ours, "only `ours` has it"),
        ("routing", given.routing.is_some(), routed, "only `routed` has it"),
        ("cache_tokens", given.cache_tokens.is_some(), ours, "only `ours` has it"),
        ("cache_slack", given.cache_slack.is_some(), ours, "only `ours` has it"),
        ("cache_reorder", given.cache_reorder.is_some(), ours, "only `ours` has it"),
        ("cache_delay", given.cache_delay.is_some(), ours, "only `ours` has it"),
        ("pace", given.pace.is_some(), auto, "only `ours` without a watermark has it"),
        ("slo_tpot", given.slo_tpot.is_some(), auto, "only `ours` without a watermark has it"),
        (
            "watermark",
            given.watermark.is_some(),
            has_watermark,
            "`direct`, `routed` and `batch` have none",
        ),
        ("budget", given.budget.is_some(), batch, "only `batch` has it"),
        ("rest", given.rest.is_some(), batch, "only `batch` has it"),
    ];
    for (field, is_given, allowed, message) in keys {
        require(allowed || !is_given, format!("{key}.{field}"), message)?;
    }
    Ok(())
}

/// By what the engines of a policy come and go.
fn scale_by(key: &str, given: &file::Policy) -> Checked<Option<ScaleSignal>> {
    let fixed = given.fixed_engines;
    require(fixed != Some(0), format!("{key}.fixed_engines"), "must be 1 or more")?;
    let both = fixed.is_some() && given.scale_by.is_some();
    require(!both, format!("{key}.fixed_engines"), "leave it out: `scale_by` decides")?;
    let target = given.scale_target;
    let sound = target.is_none_or(|target| target > 0.0 && target <= 1e6);
    require(sound, format!("{key}.scale_target"), "must be more than 0, up to 1000000")?;
    let has_target =
        matches!(given.scale_by, Some(file::ScaleBy::QueueSize | file::ScaleBy::Utilization));
    let message = "only `queue-size` and `utilization` have one";
    require(has_target || target.is_none(), format!("{key}.scale_target"), message)?;
    let ours = given.kind == file::Kind::Ours;
    let wanted = given.scale_by == Some(file::ScaleBy::Wanted);
    require(ours || !wanted, format!("{key}.scale_by"), "only `ours` knows what is wanted")?;
    Ok(given.scale_by.map(|by| match by {
        file::ScaleBy::Wanted => ScaleSignal::Wanted,
        file::ScaleBy::QueueSize => ScaleSignal::QueueSize(target.unwrap_or(1.0)),
        file::ScaleBy::Utilization => ScaleSignal::Utilization(target.unwrap_or(0.7)),
    }))
}

fn reserve(key: &str, given: &file::Policy) -> Checked<ReserveLimits> {
    let least = Settings::KEPT_LEAST;
    let Some(share) = given.reserve_share_max else {
        let auto = given.kind == file::Kind::Ours && given.watermark.is_none();
        return Ok(if auto {
            ReserveLimits::usual(Bounds::Auto, least)
        } else {
            ReserveLimits::OFF
        });
    };
    match ReserveLimits::new(least, share) {
        Ok(limits) => Ok(limits),
        Err(error) => wrong(format!("{key}.reserve_share_max"), error.to_string()),
    }
}

fn kind(key: &str, given: &file::Policy) -> Checked<PolicyKind> {
    let queue = |order| watermark(key, given).map(|mark| PolicyKind::PlainQueue(order, mark));
    match given.kind {
        file::Kind::Direct => Ok(PolicyKind::Direct),
        file::Kind::Routed => match given.routing {
            Some(file::Routing::LeastLoad) => Ok(PolicyKind::Routed(RoutingRule::LeastLoad)),
            Some(file::Routing::Affinity) => Ok(PolicyKind::Routed(RoutingRule::Affinity)),
            Some(file::Routing::BalancedTree) => Ok(PolicyKind::Routed(RoutingRule::BalancedTree)),
            None => wrong(format!("{key}.routing"), "give least-load, affinity or balanced-tree"),
        },
        file::Kind::Fifo => queue(QueueOrder::Fifo),
        file::Kind::RoundRobin => queue(QueueOrder::RoundRobin),
        file::Kind::Strict => queue(QueueOrder::StrictBands),
        file::Kind::Batch => release(key, given).map(PolicyKind::Batch),
        file::Kind::Ours => {
            let cost = match given.cost.unwrap_or(file::Cost::Requests) {
                file::Cost::Requests => Cost::Requests,
                file::Cost::Tokens => Cost::Tokens,
            };
            Ok(PolicyKind::Tidegate(cost, given.watermark))
        }
    }
}

fn watermark(key: &str, given: &file::Policy) -> Checked<u32> {
    let whole = given.watermark.filter(|mark| *mark >= 1.0 && mark.fract() == 0.0);
    match whole.filter(|mark| *mark <= 1e6) {
        Some(watermark) => Ok(watermark as u32),
        None => wrong(format!("{key}.watermark"), "give a whole number from 1 up"),
    }
}

fn release(key: &str, given: &file::Policy) -> Checked<Release> {
    match (given.budget, given.rest) {
        (Some(budget), None) => Ok(Release::Budget(budget)),
        (None, rest) => match StartLimiterSettings::new(rest.unwrap_or(1.0)) {
            Ok(settings) => Ok(Release::StartLimiter(settings)),
            Err(error) => wrong(format!("{key}.rest"), error.to_string()),
        },
        (Some(_), Some(_)) => wrong(format!("{key}.budget"), "give budget or rest, not both"),
    }
}

fn name_of(given: &file::Policy, kind: PolicyKind) -> String {
    let bound = |watermark: Option<f64>| match watermark {
        Some(watermark) => format!("{watermark}"),
        None => "auto".to_owned(),
    };
    match kind {
        PolicyKind::Direct => "direct".to_owned(),
        PolicyKind::Routed(RoutingRule::LeastLoad) => "least load".to_owned(),
        PolicyKind::Routed(RoutingRule::Affinity) => "affinity".to_owned(),
        PolicyKind::Routed(RoutingRule::BalancedTree) => "balanced tree".to_owned(),
        PolicyKind::PlainQueue(QueueOrder::Fifo, mark) => format!("fifo {mark}"),
        PolicyKind::PlainQueue(QueueOrder::RoundRobin, mark) => format!("round-robin {mark}"),
        PolicyKind::PlainQueue(QueueOrder::StrictBands, mark) => format!("strict {mark}"),
        PolicyKind::Tidegate(Cost::Requests, mark) => format!("ours requests {}", bound(mark)),
        PolicyKind::Tidegate(Cost::Tokens, mark) => format!("ours tokens {}", bound(mark)),
        PolicyKind::Batch(Release::Budget(budget)) => format!("budget {budget}"),
        PolicyKind::Batch(Release::StartLimiter(_)) => {
            format!("start limiter, rest {}", given.rest.unwrap_or(1.0))
        }
    }
}
