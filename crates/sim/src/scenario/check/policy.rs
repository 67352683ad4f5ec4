//! What can stand between clients and engines, and how it is called where no name is given.

use flow::Span;

use super::{Checked, one_line, require, wrong};
use crate::policy::Cost;
use crate::policy::plain_queue::QueueOrder;
use crate::scenario::{PolicyConfig, PolicyKind, file};

pub(super) fn policy(key: &str, given: &file::Policy) -> Checked<PolicyConfig> {
    let line = |order: QueueOrder| -> Checked<PolicyKind> {
        let watermark = given.watermark.filter(|mark| *mark >= 1.0 && mark.fract() == 0.0);
        let Some(watermark) = watermark.filter(|mark| *mark <= 1e6) else {
            return wrong(format!("{key}.watermark"), "give a whole number from 1 up");
        };
        Ok(PolicyKind::PlainQueue(order, watermark as u32))
    };
    let ours = given.kind == file::Kind::Ours;
    for (field, is_given) in
        [("cost", given.cost.is_some()), ("flow_capacity", given.flow_capacity.is_some())]
    {
        require(ours || !is_given, format!("{key}.{field}"), "only `ours` has it")?;
    }
    let auto = ours && given.watermark.is_none();
    let key_of_pace = format!("{key}.pace");
    require(auto || given.pace.is_none(), &*key_of_pace, "only `ours` without a watermark has it")?;
    let pace = given.pace.map(|length| length.0);
    require(pace != Some(Span::ZERO), key_of_pace, "must be more than 0")?;
    let kind = match given.kind {
        file::Kind::Direct => {
            require(given.watermark.is_none(), format!("{key}.watermark"), "`direct` has none")?;
            PolicyKind::Direct
        }
        file::Kind::Fifo => line(QueueOrder::Fifo)?,
        file::Kind::RoundRobin => line(QueueOrder::RoundRobin)?,
        file::Kind::Strict => line(QueueOrder::StrictBands)?,
        file::Kind::Ours => {
            let cost = match given.cost.unwrap_or(file::Cost::Tokens) {
                file::Cost::Requests => Cost::Requests,
                file::Cost::Tokens => Cost::Tokens,
            };
            PolicyKind::Tidegate(cost, given.watermark)
        }
    };
    one_line(format!("{key}.name"), &given.name)?;
    let capacity = given.capacity.unwrap_or(1000);
    let policy = PolicyConfig {
        name: given.name.clone().unwrap_or_else(|| name_of(kind)),
        kind,
        capacity,
        flow_capacity: given.flow_capacity.unwrap_or(capacity),
        pace,
        ttl: given.ttl.map_or(Span::from_secs(30), |length| length.0),
        without: given.without.clone(),
        metrics: given.metrics.unwrap_or(true),
    };
    match policy.build(&[]) {
        Err(error) => wrong(format!("{key}.watermark"), error.message),
        Ok(_) => Ok(policy),
    }
}

fn name_of(kind: PolicyKind) -> String {
    let bound = |watermark: Option<f64>| match watermark {
        Some(watermark) => format!("{watermark}"),
        None => "auto".to_owned(),
    };
    match kind {
        PolicyKind::Direct => "direct".to_owned(),
        PolicyKind::PlainQueue(QueueOrder::Fifo, watermark) => format!("fifo {watermark}"),
        PolicyKind::PlainQueue(QueueOrder::RoundRobin, watermark) => {
            format!("round-robin {watermark}")
        }
        PolicyKind::PlainQueue(QueueOrder::StrictBands, watermark) => format!("strict {watermark}"),
        PolicyKind::Tidegate(Cost::Requests, watermark) => {
            format!("ours requests {}", bound(watermark))
        }
        PolicyKind::Tidegate(Cost::Tokens, watermark) => {
            format!("ours tokens {}", bound(watermark))
        }
    }
}
