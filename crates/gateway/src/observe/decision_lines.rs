//! The choice of a backend as log lines, and the end of a request there. All but one have the form
//! of an existing Ollama proxy, because operators of that proxy search logs for their first words.

use flow::{BANDS, UrgencyTerms};

use super::{BAND_NAMES, Record};

/// The line about the order inside its flow, if that is by urgency. It is not one of the proxy's.
pub(super) fn of_workload(record: &Record) -> Option<String> {
    let UrgencyTerms { wait, criticality, rate, urgency } = record.urgency.as_deref()?;
    let (wait, workload) = (wait.secs_f64(), record.workload.escape_debug());
    Some(format!(
        "[Workload] Request ordered: workload={workload} criticality={criticality} \
         wait={wait:.3}s rate={rate:.3}/s urgency={urgency:.6}"
    ))
}

/// The lines of a request that goes to a backend where `pending` requests of each band were.
pub(super) fn write(record: &Record, pending: [u32; BANDS]) -> [String; 3] {
    let Record { backend, boost, score, queue_penalty, .. } = record;
    let band = record.band.map_or("", |band| BAND_NAMES[band as usize]);
    [
        format!("[Priority] Request routed: priority={band} backend={backend} boost={boost:+.0}"),
        format!("[Queue] Backend {backend}: {}", depth(pending)),
        format!(
            "[Routing] Selected {backend}: score={score:.0} (priority_boost={boost:.0}, \
             queue_penalty={queue_penalty:.0})"
        ),
    ]
}

/// The line of a request that leaves its backend. Requests that leave none are looked for by it.
pub(super) fn of_end(record: &Record) -> String {
    let band = record.band.map_or("", |band| BAND_NAMES[band as usize]);
    format!("[Queue] MarkRequestEnd: backend={} priority={band}", record.backend)
}

/// The number of requests, and those of each band that has any.
fn depth(pending: [u32; BANDS]) -> String {
    let all: u32 = pending.iter().sum();
    let counts: Vec<String> = BAND_NAMES
        .into_iter()
        .zip(pending)
        .filter(|&(_, count)| count > 0)
        .map(|(band, count)| format!("{band}={count}"))
        .collect();
    if counts.is_empty() {
        format!("depth={all}")
    } else {
        format!("depth={all} ({})", counts.join(", "))
    }
}
