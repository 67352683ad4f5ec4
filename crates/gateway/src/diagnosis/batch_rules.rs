//! Rules about batch work and stores: closed gates, used budgets, full disks.

use super::finding::{Level, StatusFinding};
use super::situation::{BatchQueueState, GateCondition, Situation, StoreTrouble};

/// The rules about gates that send nothing.
pub(super) const CLOSED: &str = "gate_closed";
pub(super) const UNREADABLE: &str = "gate_unreadable";
/// The rule about gates that allow no more for now.
const USED_UP: &str = "budget_used_up";
/// How the state of a gate begins that starts batch requests slowly.
const HOLDING_BACK: &str = "holding back";
/// The rule about a queue whose own data cannot be used.
const UNUSABLE: &str = "batch_queue_unusable";
/// The rule about a queue whose messages that wait for a retry have no set of their own.
const WITHOUT_RETRIES: &str = "batch_retries_unusable";
/// A gate closes and opens all the time. It is reported when it has been closed for so long.
const CLOSED_SECS: f64 = 5.0;
/// The same while a batch request is in flight: it may be what closes the gate, or it may wait.
const RUNNING_SECS: f64 = 20.0;
/// The same for a gate whose batch work goes on.
const BUSY_SECS: f64 = 10.0;
/// A gate that opens for a shorter time than this has not ended its finding.
const KEPT_SECS: f64 = 15.0;

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(situation.stores.iter().map(store));
    for gate in &situation.gates {
        found.extend(self::gate(gate, situation));
    }
    for queue in &situation.batch_queues {
        found.extend(unusable(queue));
        found.extend(without_retries(queue));
        found.extend(overload(queue));
    }
}

fn store(trouble: &StoreTrouble) -> StatusFinding {
    let StoreTrouble { name, path, error, full } = trouble;
    let is_folder = *name == "batch.folder";
    let place = path.as_ref().map(|path| format!(" ({path})")).unwrap_or_default();
    let (id, text, advice) = if *full {
        // The errors of a full disk differ from write to write, and say no more than that.
        let quota = if error.contains("quota") { " (its quota is used up)" } else { "" };
        let text = format!("the disk is full{quota}: {name}{place} cannot be written");
        let disk = path.as_ref().map_or("that disk".into(), |path| format!("the disk of {path}"));
        let advice = format!(
            "Make room on {disk}: the gateway tries again by itself. Or set {name} to a {} of \
             another disk and restart the gateway; {} in the old one.",
            if is_folder { "folder" } else { "file" },
            if is_folder { "existing batches stay" } else { "what was stored stays" }
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

/// A finding about a gate that sends nothing.
fn gate(gate: &GateCondition, situation: &Situation) -> Option<StatusFinding> {
    let queues = || situation.batch_queues.iter();
    let behind = || behind(gate, situation);
    let pending = pending(gate, situation);
    // Batch work fills the servers by itself, so its gate closes and opens while it goes on.
    let goes_on = behind().any(|queue| queue.ended_lately > 0);
    let runs = behind().any(|queue| queue.in_flight > 0);
    let finding = if gate.value.is_none() || gate.stale {
        unreadable(gate, pending)
    } else if pending == 0 || (gate.open && gate.left > 0) {
        return None;
    } else if gate.open || gate.spent || goes_on {
        used_up(gate, pending)
    } else if never_opens(gate) {
        constant(gate, pending)
    } else {
        let of_batches: usize = queues().map(|queue| queue.in_flight).sum();
        // Other requests use the backends: the gate does what it is for.
        let is_needed = situation.queue.in_flight as usize > of_batches;
        let level = if is_needed { Level::Note } else { Level::Warning };
        closed(gate, pending, level).lasting(if runs { RUNNING_SECS } else { CLOSED_SECS })
    };
    let past = past_of(finding.id, gate, pending);
    let mut finding = finding
        .about(&gate.name)
        .kept(KEPT_SECS, past)
        .figure("pending", pending as f64)
        .figure("in_flight", gate.in_flight as f64)
        .figure("threshold", gate.threshold);
    if let Some(value) = gate.value {
        finding = finding.figure("value", value);
    }
    Some(finding)
}

/// What is said of a finding about a gate while it is kept. The present state of the gate decides:
/// a batch may end, or be cancelled, behind a gate that stays closed.
pub(super) fn past(finding: &StatusFinding, situation: &Situation) -> Option<String> {
    let is_about_gate = [CLOSED, UNREADABLE, USED_UP].contains(&finding.id);
    let name = finding.subject.as_ref().filter(|_| is_about_gate)?;
    let gate = situation.gates.iter().find(|gate| gate.name == *name)?;
    Some(past_of(finding.id, gate, pending(gate, situation)))
}

fn past_of(id: &str, gate: &GateCondition, pending: u64) -> String {
    let name = &gate.name;
    match id {
        UNREADABLE => format!("the gate {name} can be read again: it could not until"),
        _ if pending == 0 => {
            format!(
                "no batch request waits at the gate {name} any more: the last ones waited until"
            )
        }
        CLOSED if gate.open => format!("the gate {name} is open again: it was closed until"),
        CLOSED => format!("batch work goes on at the gate {name}: it was held back until"),
        _ => format!("the gate {name} allows more again: it allowed none until"),
    }
}

fn behind<'a>(
    gate: &'a GateCondition,
    situation: &'a Situation,
) -> impl Iterator<Item = &'a BatchQueueState> {
    situation.batch_queues.iter().filter(|queue| queue.gates.contains(&gate.name))
}

fn pending(gate: &GateCondition, situation: &Situation) -> u64 {
    behind(gate, situation).map(|queue| queue.pending + queue.retry).sum()
}

fn unreadable(gate: &GateCondition, pending: u64) -> StatusFinding {
    let GateCondition { name, state, source, .. } = gate;
    let why = state.strip_prefix("unreadable: ").unwrap_or(state);
    let (level, so) = match pending {
        0 => (Level::Warning, "no batch request would be sent".to_owned()),
        pending => (Level::Trouble, waits(pending)),
    };
    let text = format!("the gate {name} cannot be read, so {so}: {why}");
    StatusFinding::new(UNREADABLE, level, text)
        .lasting(CLOSED_SECS)
        .advise(format!("See whether {source} can be read from here."))
}

/// Whether its value is a constant that keeps it closed.
fn never_opens(gate: &GateCondition) -> bool {
    gate.kind == "constant" && gate.value.is_some_and(|value| value <= gate.threshold)
}

fn constant(gate: &GateCondition, pending: u64) -> StatusFinding {
    let GateCondition { name, value, threshold, .. } = gate;
    let text = format!(
        "the gate {name} is closed, so {}: value {} is not above the baseline {threshold}: the \
         gate never opens",
        waits(pending),
        value.unwrap_or(0.0)
    );
    StatusFinding::new(CLOSED, Level::Warning, text).advise(format!(
        "Set the value of {name} in [[dispatch.gates]] above its baseline, or use a kind that \
         reads the load. Then restart: gates are read at the start only."
    ))
}

fn closed(gate: &GateCondition, pending: u64, level: Level) -> StatusFinding {
    let GateCondition { name, state, source, .. } = gate;
    let why = state.strip_prefix("closed: ").unwrap_or(state);
    let text = format!("the gate {name} is closed, so {}: {why}", waits(pending));
    StatusFinding::new(CLOSED, level, text).advise(format!(
        "Batch work waits while {source} is busy. Add capacity, or leave less to other work: {}, \
         and restart. `tidegate dispatch explain` shows what the gate reads.",
        lower_baseline(gate)
    ))
}

/// How the baseline of a gate is lowered.
fn lower_baseline(gate: &GateCondition) -> String {
    match gate.implied {
        true => added(gate, &format!("a baseline below {}", gate.threshold)),
        false => format!("lower the baseline of {} in [[dispatch.gates]]", gate.name),
    }
}

/// A gate that the gateway made has no entry yet.
fn added(gate: &GateCondition, setting: &str) -> String {
    let GateCondition { name, kind, .. } = gate;
    format!("add [[dispatch.gates]] with name = \"{name}\", kind = \"{kind}\" and {setting}")
}

/// Interactive requests are there, or were a short time ago, so that batch requests start one after
/// the other.
fn held_back(gate: &GateCondition) -> String {
    let change = match gate.implied {
        true => added(gate, "rest = 0"),
        false => format!("set rest = 0 for {} in [[dispatch.gates]]", gate.name),
    };
    format!(
        "For a minute after each interactive request, batch requests start one after the other, so \
         that they delay the first tokens of others little. To give batch work more, {change}, and \
         restart."
    )
}

fn used_up(gate: &GateCondition, pending: u64) -> StatusFinding {
    let GateCondition { name, state, .. } = gate;
    let text = format!("the gate {name} allows no more for now, so {}: {state}", waits(pending));
    let advice = match gate.kind {
        "aimd" => format!(
            "This is the usual state of a busy dispatcher. The answers of the target set the \
             budget of {name}: it grows while the target answers, and is halved when the target \
             refuses. `min` and `max` of the gate limit it."
        ),
        _ if state.starts_with(HOLDING_BACK) => held_back(gate),
        _ => format!(
            "This is the usual state of a busy dispatcher, and the baseline of {name} leaves \
             {:.0} % to other work. To give batch work more, {}, and restart. If the backends are \
             idle, see the age of the reading in `tidegate dispatch explain`.",
            gate.threshold * 100.0,
            lower_baseline(gate)
        ),
    };
    StatusFinding::new(USED_UP, Level::Note, text).lasting(BUSY_SECS).advise(advice)
}

fn waits(pending: u64) -> String {
    match pending {
        1 => "1 batch request waits".to_owned(),
        pending => format!("{pending} batch requests wait"),
    }
}

/// A finding about a queue whose own data cannot be used. Its error says what to do.
fn unusable(queue: &BatchQueueState) -> Option<StatusFinding> {
    let why = queue.trouble.as_ref()?;
    let name = &queue.name;
    let text = format!("the batch queue {name} cannot be used, so it sends nothing: {why}");
    let finding = StatusFinding::new(UNUSABLE, Level::Trouble, text).about(name).advise(
        "Other queues go on. The dispatcher looks again every second, and sends the messages of \
         this queue when its data is in order.",
    );
    Some(finding)
}

/// A finding about a queue that goes on without the set of its retries.
fn without_retries(queue: &BatchQueueState) -> Option<StatusFinding> {
    let why = queue.retries_trouble.as_ref()?;
    let name = &queue.name;
    let text = format!("the retries of the batch queue {name} have no place: {why}");
    let finding = StatusFinding::new(WITHOUT_RETRIES, Level::Warning, text).about(name).advise(
        "The queue goes on: a message that failed waits in its claim. Messages that waited for a \
         retry in this key before are sent when they are there again.",
    );
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
        .advise(match why.contains("refused") {
            true => {
                "The dispatcher pauses and tries again. The target accepts no connection: see \
                     whether it runs, and whether its address is right."
            }
            false => {
                "The dispatcher pauses and tries again. If it lasts, see the target's own \
                      status."
            }
        });
    Some(finding)
}
