//! Rules about the queue: floods, capacity, waits that end in vain, refusals, quotas.

use super::advice::more_capacity;
use super::finding::{Level, StatusFinding};
use super::sentence::{count, span};
use super::situation::{FlowState, QueueState, Situation, TenantState};

/// A flow floods if it has at least this share of the queue and so many waiting requests, and
/// this many times the share of its weight.
const FLOOD_SHARE: f64 = 0.5;
const FLOOD_DEPTH: u32 = 8;
const FLOOD_TIMES: f64 = 1.5;
/// A flow that floods goes on to do so down to this part of these bounds: a queue moves around any
/// bound, and a finding that comes and goes is of no use.
const FLOOD_KEPT: f64 = 0.6;
/// A flow may be the first of a burst of all flows. That is over as soon as each has arrived.
const FLOOD_SECS: f64 = 3.0;
/// The rule about them.
pub(super) const FLOOD: &str = "flow_floods";
/// The rules about a full queue and about waits in vain.
pub(super) const NEARLY_FULL: &str = "queue_nearly_full";
pub(super) const WILL_EXPIRE: &str = "requests_will_expire";
/// The queue is nearly full from this share of its capacity on.
const FULL_SHARE: f64 = 0.9;
/// From this share of the time to live on, the oldest request is about to expire.
const OLD_SHARE: f64 = 0.8;
/// A queue that grows is reported from this share of the length that can be served, and if it
/// reaches that length within so many seconds.
const GROWN_SHARE: f64 = 0.3;
const EXPIRE_SOON_SECS: f64 = 60.0;
/// A burst of a moment is no overload.
const EXPIRE_LASTING_SECS: f64 = 5.0;
/// A forecast about fewer is within its error. The age of the oldest shows whether they expire.
const IN_VAIN_LEAST: f64 = 3.0;

/// One flow holds all: the first flow has this share of the waiting requests, for so long.
const ALL_SHARE: f64 = 0.95;
const ALL_SECS: f64 = 5.0;
const ALL_KEPT_SECS: f64 = 15.0;
/// Requests wait too long from here on where no objective is set.
const LONG_WAIT_SECS: f64 = 2.0;
/// The flow of requests without any part of `queue.flow_by`.
const ABSENT: &str = "-";

/// The waiting requests of a flow and of the queue, without those that no ready backend can take:
/// no other request could go in their place.
struct ServedWaits {
    depth: u32,
    total: u32,
    /// The share of the flow.
    share: f64,
    /// Which requests are counted, unless all are.
    which: &'static str,
}

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    let flood = situation.flows.iter().find_map(|flow| floods(flow, situation));
    found.extend(flood.or_else(|| one_flow(situation)));
    found.extend(nearly_full(situation));
    found.extend(will_expire(situation));
    found.extend(held(situation));
    found.extend(situation.tenants.iter().filter_map(quota));
}

pub(super) fn floods(flow: &FlowState, situation: &Situation) -> Option<StatusFinding> {
    let others = situation
        .flows
        .iter()
        .any(|other| other.name != flow.name && (other.queue_depth > 0 || other.in_flight > 0));
    let fair_share = flow.least_fair_share.unwrap_or(flow.fair_share);
    let others = others || flow.least_fair_share.is_some_and(|least| least < 1.0);
    let kept = if flow.flooded { FLOOD_KEPT } else { 1.0 };
    let ServedWaits { depth, total, share, which } = ServedWaits::of(flow, &situation.queue);
    let unfair = share >= (fair_share * FLOOD_TIMES).max(FLOOD_SHARE) * kept;
    let is_deep = f64::from(depth) >= f64::from(FLOOD_DEPTH) * kept;
    if !others || !unfair || !is_deep {
        return None;
    }
    let FlowState { name, refused, .. } = flow;
    let text = format!(
        "{name} floods the queue: {depth} of {total} waiting requests{which} ({:.0} %), and its \
         weight gives it {:.0} %",
        share * 100.0,
        fair_share * 100.0
    );
    let finding = StatusFinding::new(FLOOD, Level::Warning, text)
        .about(name)
        .lasting(FLOOD_SECS)
        .figure("waiting", depth)
        .figure("queue_share", share)
        .figure("fair_share", fair_share)
        .figure("refused", *refused)
        .advise(
            "Other flows keep their shares, and only this one waits long. To bound it, give it a \
             lower capacity or max_in_flight in [[flows]], or its tenant a requests_per_minute. \
             To serve it faster, raise its weight.",
        );
    Some(finding)
}

/// One flow that holds all waiting requests because clients are not told apart. A client that
/// floods then delays all others, and no share can be kept.
fn one_flow(situation: &Situation) -> Option<StatusFinding> {
    let queue = &situation.queue;
    let flow = situation.flows.first()?;
    let ServedWaits { depth, total, share, which } = ServedWaits::of(flow, queue);
    let holds_all = share >= ALL_SHARE && depth >= FLOOD_DEPTH;
    let limit = queue.objective_seconds.unwrap_or(LONG_WAIT_SECS);
    let waits_long = queue.oldest_seconds.is_some_and(|oldest| oldest > limit);
    let name = &flow.name;
    if !holds_all || !waits_long || (queue.flows_by_client && name != ABSENT) {
        return None;
    }
    let some = match depth {
        _ if depth == total => format!("all {depth}"),
        _ => format!("{depth} of {total}"),
    };
    let text = format!(
        "{some} waiting requests{which} are in one flow ({name}), so a client that floods delays \
         all others"
    );
    let finding = StatusFinding::new("one_flow", Level::Warning, text)
        .about(name)
        .lasting(ALL_SECS)
        .kept(ALL_KEPT_SECS, format!("the waiting requests were in one flow ({name}) until"))
        .past_at_once()
        .figure("waiting", depth)
        .figure("oldest_seconds", queue.oldest_seconds.unwrap_or(0.0))
        .advise(tell_apart(queue.flows_by_client));
    Some(finding)
}

/// How clients get flows of their own.
fn tell_apart(flows_by_client: bool) -> &'static str {
    match flows_by_client {
        true => {
            "The requests lack what queue.flow_by names. Let clients send that header, or set \
             queue.flow_by to what they have: [\"address\"], another header, or API keys \
             ([[tenants]]). Then a client that floods waits alone."
        }
        false => {
            "queue.flow_by does not tell clients apart. Set it to [\"address\"] or to a header \
             such as [\"header:x-team\"], or give clients API keys ([[tenants]]). Then a client \
             that floods waits alone."
        }
    }
}

fn nearly_full(situation: &Situation) -> Option<StatusFinding> {
    let (depth, capacity) = (situation.queue.depth, situation.queue.capacity);
    if capacity == 0 || f64::from(depth) < f64::from(capacity) * FULL_SHARE {
        return None;
    }
    let level = if depth >= capacity { Level::Trouble } else { Level::Warning };
    let text = format!("the queue is nearly full: {depth} of {capacity} places are taken");
    let finding = StatusFinding::new(NEARLY_FULL, level, text)
        .figure("waiting", depth)
        .figure("capacity", capacity)
        .advise(format!(
            "{} A larger queue.total_capacity only makes requests wait longer.",
            more_capacity(situation)
        ));
    Some(finding)
}

fn will_expire(situation: &Situation) -> Option<StatusFinding> {
    let queue = &situation.queue;
    if queue.depth == 0 || situation.backends_ready == 0 || queue.ttl_seconds <= 0.0 {
        return None;
    }
    let oldest = queue.oldest_seconds.unwrap_or(0.0);
    let (in_vain, begins) = (in_vain(queue), begins_to_expire(queue));
    let text = if in_vain >= IN_VAIN_LEAST {
        let depth = queue.depth;
        format!("about {in_vain:.0} of {depth} waiting requests will expire before their turn")
    } else if let Some(secs) = begins {
        format!(
            "the queue grows by {:.1} requests a second: in about {} requests begin to expire",
            queue.growing_per_second,
            span(secs)
        )
    } else if oldest >= queue.ttl_seconds * OLD_SHARE {
        format!("the oldest request has waited {} and is about to expire", span(oldest))
    } else {
        return None;
    };
    let finding = StatusFinding::new(WILL_EXPIRE, Level::Warning, text)
        .lasting(EXPIRE_LASTING_SECS)
        .figure("oldest_seconds", oldest)
        .figure("ttl_seconds", queue.ttl_seconds)
        .figure("drains_in_seconds", queue.mean_drain_seconds.unwrap_or(0.0))
        .figure("arriving_per_second", queue.arriving_per_second)
        .figure("starting_per_second", queue.starting_per_second)
        .advise(format!(
            "{} A longer queue.queue_ttl helps only against a short burst.",
            more_capacity(situation)
        ));
    Some(finding)
}

/// How many waiting requests will expire. Within a time to live, the backends start so many
/// requests, and no more. New requests are fresh and go before late ones, so late ones get only
/// what arriving requests leave.
fn in_vain(queue: &QueueState) -> f64 {
    let Some(drain) = queue.mean_drain_seconds.filter(|&drain| drain > 0.0) else { return 0.0 };
    let (depth, late) = (f64::from(queue.depth), f64::from(queue.late));
    let rate = depth / drain;
    let by_order = depth - rate * queue.ttl_seconds;
    let left_over = (rate - queue.arriving_per_second).max(0.0);
    // The late ones have waited for half of the longest wait, on the average.
    let rest = (queue.ttl_seconds - queue.oldest_seconds.unwrap_or(0.0) / 2.0).max(0.0);
    by_order.max(late - left_over * rest)
}

/// When a queue that grows will be longer than the backends can serve within a time to live, if
/// that is soon.
fn begins_to_expire(queue: &QueueState) -> Option<f64> {
    let drain = queue.mean_drain_seconds.filter(|&drain| drain > 0.0)?;
    let most = f64::from(queue.depth) / drain * queue.ttl_seconds;
    let more = most - f64::from(queue.depth);
    if queue.growing_per_second <= 0.0 || f64::from(queue.depth) < most * GROWN_SHARE {
        return None;
    }
    Some((more / queue.growing_per_second).max(0.0)).filter(|&secs| secs <= EXPIRE_SOON_SECS)
}

fn held(situation: &Situation) -> Option<StatusFinding> {
    let held = u32::try_from(situation.queue.held).unwrap_or(u32::MAX);
    if held == 0 {
        return None;
    }
    let waits = if held == 1 { "waits" } else { "wait" };
    let text = format!("{} {waits} for a model that no backend lists", count(held, "request"));
    let finding = StatusFinding::new("model_without_backend", Level::Warning, text)
        .figure("held", held)
        .advise("Start a backend for the model, or take it out of [[models]] if it stands there.");
    Some(finding)
}

fn quota(tenant: &TenantState) -> Option<StatusFinding> {
    let (period, name) = (tenant.quota_used_up?, &tenant.name);
    let most = match period {
        "month" => tenant.tokens_per_month,
        _ => tenant.tokens_per_day,
    };
    let (most, left) = (most.unwrap_or(0), tenant.quota_ends_in_seconds.unwrap_or(0.0));
    let text = format!(
        "{name} has used its quota of {most} tokens a {period}; the next {period} begins in {}",
        span(left)
    );
    let happens = match tenant.on_quota {
        "refuse" => "its requests are refused",
        _ => "its requests wait in the lowest band",
    };
    let finding = StatusFinding::new("quota_used_up", Level::Note, text)
        .about(name)
        .figure("tokens_today", tenant.tokens_today as f64)
        .figure("tokens_this_month", tenant.tokens_this_month as f64)
        .figure("ends_in_seconds", left)
        .advise(format!(
            "Until then {happens} (on_quota). To let it use more, raise tokens_per_{period} of \
             {name} in [[tenants]]."
        ));
    Some(finding)
}

// === impl ServedWaits ===

impl ServedWaits {
    fn of(flow: &FlowState, queue: &QueueState) -> Self {
        let depth = flow.queue_depth.saturating_sub(flow.unserved);
        let total = queue.depth.saturating_sub(queue.unserved);
        match queue.unserved {
            0 => Self { depth, total, share: flow.queue_share, which: "" },
            _ => {
                let share = f64::from(depth) / f64::from(total.max(1));
                Self { depth, total, share, which: " that a backend can serve" }
            }
        }
    }
}
