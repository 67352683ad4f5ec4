//! The sentence at the top of the status: whether all is well, and if not, what is wrong.

use super::backend_rules::{DOWN, EJECTED};
use super::batch_rules::{CLOSED, UNREADABLE};
use super::finding::{Level, StatusFinding};
use super::situation::{BatchQueueState, QueueState, Situation};
use super::watermark_rules::LONG_WAIT_SECS;

/// The sentence for these findings, of which the worst is the first.
pub(super) fn sentence(situation: &Situation, findings: &[StatusFinding]) -> String {
    if situation.shutting_down {
        return format!("The gateway is shutting down; {}.", waiting(situation, ""));
    }
    let notes = findings.iter().filter(|finding| finding.level == Level::Note).count();
    let Some(worst) = findings.first().filter(|finding| finding.level > Level::Note) else {
        let backends = match (situation.backends_ready, situation.backends_total) {
            _ if !situation.has_backends => String::new(),
            (1, 1) => "the backend is ready, ".to_owned(),
            (ready, total) => format!("{ready} of {total} backends are ready, "),
        };
        let notes = match notes {
            0 => String::new(),
            1 => "; 1 note".to_owned(),
            more => format!("; {more} notes"),
        };
        let verdict = if may_wait_in_vain(&situation.queue) || is_starting(situation) {
            "Nothing wrong is found"
        } else {
            "All is well"
        };
        let batches = closed_gate(findings).map(|_| batches(situation, "", findings));
        let batches = batches.unwrap_or_default();
        return format!("{verdict}: {backends}{}{batches}{notes}.", waiting(situation, ""));
    };
    let since = match worst.since_seconds {
        short if short < 1.0 || worst.is_past => String::new(),
        long if worst.text.ends_with(')') => format!(", for {}", span(long)),
        long => format!(" (for {})", span(long)),
    };
    let more = match findings.len() - 1 {
        0 => String::new(),
        1 => "; 1 more finding".to_owned(),
        more => format!("; {more} more findings"),
    };
    let waits = waiting(situation, &worst.text);
    let batches = batches(situation, &worst.text, findings);
    let left = left(situation, worst);
    let text = format!("{}{since}; {left}{waits}{batches}{more}.", worst.text);
    match worst.subject.as_ref().is_some_and(|name| worst.text.starts_with(name)) {
        // A name keeps its case.
        true => text,
        false => capitalised(&text),
    }
}

/// Whether a backend is not ready yet. It may become so, or a finding will say why not.
fn is_starting(situation: &Situation) -> bool {
    situation.backends.iter().any(|backend| backend.state == "starting")
}

/// Whether requests wait for an unknown time, and have waited for long. A queue that has just begun
/// to fill has no rate yet, and is well.
fn may_wait_in_vain(queue: &QueueState) -> bool {
    let limit = queue.objective_seconds.unwrap_or(LONG_WAIT_SECS);
    let waits_long = queue.oldest_seconds.is_some_and(|oldest| oldest > limit);
    queue.depth > 0 && queue.drains_in_seconds.is_none() && waits_long
}

/// How many backends are left, beside one that is lost.
fn left(situation: &Situation, worst: &StatusFinding) -> String {
    let (ready, total) = (situation.backends_ready, situation.backends_total);
    let are = if ready == 1 { "is" } else { "are" };
    match worst.id {
        DOWN | EJECTED => format!("{ready} of {total} backends {are} ready; "),
        _ => String::new(),
    }
}

/// How many batch requests wait, unless the text before has told it. They wait in their own queue.
/// An overload that closes a gate is the cause and stands first, so the gate is named here.
fn batches(situation: &Situation, before: &str, findings: &[StatusFinding]) -> String {
    let waits = |queue: &BatchQueueState| queue.pending + queue.retry;
    let pending: u64 = situation.batch_queues.iter().map(waits).sum();
    let gate = closed_gate(findings).unwrap_or_default();
    match pending {
        0 => String::new(),
        _ if before.contains("batch request") => String::new(),
        1 => format!("; 1 batch request waits{gate}"),
        pending => format!("; {pending} batch requests wait{gate}"),
    }
}

/// The first gate that holds batch work back, as a remark.
fn closed_gate(findings: &[StatusFinding]) -> Option<String> {
    let mut current = findings.iter().filter(|finding| !finding.is_past);
    current.find_map(|finding| {
        let state = match finding.id {
            CLOSED => "is closed",
            UNREADABLE => "cannot be read",
            _ => return None,
        };
        Some(format!(" (the gate {} {state})", finding.subject.as_ref()?))
    })
}

/// How many requests wait, and when the last of them goes. The number is left out if the text
/// before has told it.
fn waiting(situation: &Situation, before: &str) -> String {
    let queue = &situation.queue;
    let depth = queue.depth;
    // Other texts have other numbers, such as that of the requests at a backend.
    let about_waits = ["waiting request", "the queue is"].iter().any(|part| before.contains(part));
    let mut numbers = before.split(|letter: char| !letter.is_ascii_digit());
    let is_told = about_waits && numbers.any(|number| number.parse() == Ok(depth));
    let requests = match depth {
        0 if before.contains("batch request") => return "no other request waits".to_owned(),
        0 => return "no request waits".to_owned(),
        _ if is_told => String::new(),
        1 => "1 request waits, ".to_owned(),
        depth => format!("{depth} requests wait, "),
    };
    if situation.has_backends && situation.backends_ready == 0 {
        // The rate of the past says nothing about a time without backends.
        let they = if is_told { "they wait" } else { requests.trim_end_matches(", ") };
        return format!("{they} until a backend is ready");
    }
    let drain = match queue.drains_in_seconds {
        Some(secs) if queue.drain_is_least => {
            format!("{}, and at least {} remain", late(queue.late, is_told), span(secs))
        }
        Some(secs) if is_told => format!("the last request will wait about {} more", span(secs)),
        Some(secs) if depth == 1 => format!("for about {} more", span(secs)),
        Some(secs) => format!("the last for about {} more", span(secs)),
        None if queue.mean_drain_seconds.is_some_and(|secs| secs > queue.ttl_seconds) => {
            let will = if is_told { "some of the requests will wait" } else { "some" };
            format!("{will} for longer than their time to live of {}", span(queue.ttl_seconds))
        }
        None if is_told => "how long the requests will wait is not known yet".to_owned(),
        None => "how long is not known yet".to_owned(),
    };
    format!("{requests}{drain}")
}

/// How many of the waiting requests are late, after their number or without it.
fn late(late: u32, is_told: bool) -> String {
    let go = match late {
        1 => "it goes after the fresh requests of its flow",
        _ => "they go after the fresh requests of their flows",
    };
    let are = if late == 1 { "is" } else { "are" };
    match is_told {
        true => format!("{late} of the waiting requests {are} late: {go}"),
        false => format!("{late} of them late: {go}"),
    }
}

/// A number with its noun.
pub(super) fn count(number: u32, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A time in the unit that a person would choose.
pub(super) fn span(secs: f64) -> String {
    match secs {
        secs if secs < 1.0 => format!("{:.0} ms", secs * 1e3),
        secs if secs < 10.0 => format!("{secs:.1} s"),
        secs if secs < 120.0 => format!("{secs:.0} s"),
        secs if secs < 7200.0 => format!("{:.0} min", secs / 60.0),
        secs if secs < 172_800.0 => format!("{:.0} h", secs / 3600.0),
        secs => format!("{:.0} days", secs / 86_400.0),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}
