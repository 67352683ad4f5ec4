//! Rules about batch work and stores: closed gates, used budgets, full disks.

use super::finding::{Level, StatusFinding};
use super::situation::{BatchQueueState, GateCondition, Situation, StoreTrouble};

/// A gate closes and opens all the time. It is reported when it has been closed for so long.
const CLOSED_SECS: f64 = 2.0;

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(situation.stores.iter().map(store));
    for gate in &situation.gates {
        found.extend(self::gate(gate, &situation.batch_queues));
    }
    for queue in &situation.batch_queues {
        found.extend(overload(queue));
    }
}

fn store(trouble: &StoreTrouble) -> StatusFinding {
    let StoreTrouble { name, path, error, full } = trouble;
    let place = path.as_ref().map(|path| format!(" ({path})")).unwrap_or_default();
    let (id, text, advice) = if *full {
        let text = format!("the disk is full: {name}{place} cannot be written ({error})");
        let disk = path.as_ref().map_or("that disk".into(), |path| format!("the disk of {path}"));
        let advice = format!(
            "Make room on {disk}, or set {name} to a folder of another disk. The gateway tries \
             again by itself."
        );
        ("disk_full", text, advice)
    } else {
        let text = format!("{name}{place} cannot be used: {error}");
        let advice = "See whether the file or server exists and may be written. The gateway tries \
                      again by itself.";
        ("store_failing", text, advice.to_owned())
    };
    StatusFinding::new(id, Level::Trouble, text).about(name).advise(advice)
}

fn gate(gate: &GateCondition, queues: &[BatchQueueState]) -> Option<StatusFinding> {
    let behind = queues.iter().filter(|queue| queue.gates.contains(&gate.name));
    let pending: u64 = behind.map(|queue| queue.pending + queue.retry).sum();
    if pending == 0 || (gate.open && gate.left > 0) {
        return None;
    }
    let GateCondition { name, state, source, .. } = gate;
    let (id, text, advice) = if gate.value.is_none() {
        let text =
            format!("the gate {name} cannot be read, so {pending} batch requests wait: {state}");
        ("gate_unreadable", text, format!("See whether {source} can be read from here."))
    } else if !gate.open && !gate.spent {
        let text = format!("the gate {name} is closed, so {pending} batch requests wait: {state}");
        let advice = format!(
            "Batch work waits while {source} is busy. Add capacity, or change the baseline of the \
             gate in [[dispatch.gates]]."
        );
        ("gate_closed", text, advice)
    } else {
        let text = format!(
            "the budget of the gate {name} is used up, so {pending} batch requests wait: {state}"
        );
        let advice = "This is the usual state of a busy dispatcher. If it lasts while the backends \
                      are idle, see the age of the reading in /dispatch.";
        ("budget_used_up", text, advice.to_owned())
    };
    let level = match id {
        "gate_unreadable" => Level::Trouble,
        "budget_used_up" => Level::Note,
        _ => Level::Warning,
    };
    let mut finding = StatusFinding::new(id, level, text)
        .about(name)
        .lasting(if id == "budget_used_up" { 5.0 * CLOSED_SECS } else { CLOSED_SECS })
        .figure("pending", pending as f64)
        .figure("in_flight", gate.in_flight as f64)
        .figure("threshold", gate.threshold)
        .advise(advice);
    if let Some(value) = gate.value {
        finding = finding.figure("value", value);
    }
    Some(finding)
}

fn overload(queue: &BatchQueueState) -> Option<StatusFinding> {
    let why = queue.overload.as_ref()?;
    let name = &queue.name;
    let text = format!("the target of the batch queue {name} refuses requests: {why}");
    let finding = StatusFinding::new("batch_target_refuses", Level::Warning, text)
        .about(name)
        .lasting(CLOSED_SECS)
        .figure("pending", queue.pending as f64)
        .advise("The dispatcher pauses and tries again. If it lasts, see the target's own status.");
    Some(finding)
}
