//! Rules about the configuration: a change that is not in force, headers that it leaves unused, and
//! a limit that the system sets.

use super::finding::{Level, StatusFinding};
use super::situation::{ConnectionState, ReloadState, Situation};

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(failed(&situation.reload));
    found.extend(restart(&situation.reload));
    found.extend(few_files(&situation.connections));
    found.extend(unused_contexts(situation.workload_contexts_unused));
}

fn failed(reload: &ReloadState) -> Option<StatusFinding> {
    let first = reload.problems.first()?;
    let more = match reload.problems_total.saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let text = format!("the changed configuration is not in force: {first}{more}");
    let finding = StatusFinding::new("reload_failed", Level::Warning, text)
        .figure("problems", reload.problems_total as f64)
        .advise(
            "The old configuration stays in force, and a restart would fail. Correct the file: \
             `tidegate check` lists each problem with its line. The gateway reads it again by \
             itself.",
        );
    Some(finding)
}

fn restart(reload: &ReloadState) -> Option<StatusFinding> {
    let keys = reload.awaits_restart.as_slice();
    let text = match keys {
        [] => return None,
        [key] => format!("{key} has changed, and only a restart applies it"),
        keys => format!("{} have changed, and only a restart applies them", keys.join(", ")),
    };
    let finding = StatusFinding::new("restart_needed", Level::Note, text)
        .figure("keys", keys.len() as f64)
        .advise(
            "Restart the gateway when it suits, or change the file back. Until then the old \
                 values are in force.",
        );
    Some(finding)
}

fn few_files(connections: &ConnectionState) -> Option<StatusFinding> {
    let expected = connections.expected?;
    let ConnectionState { most, open_files_max, .. } = *connections;
    let text = format!(
        "the gateway takes at most {most} connections of clients, not {expected}: the system lets \
         it open {open_files_max} files"
    );
    let finding = StatusFinding::new("few_open_files", Level::Note, text)
        .figure("connections", most as f64)
        .figure("open_files", open_files_max as f64)
        .advise(
            "Raise the hard limit of open files: `LimitNOFILE` of systemd, `--ulimit nofile` of \
             Docker, `ulimit -Hn` of a shell. Or set server.connections_max to that number.",
        );
    Some(finding)
}

/// Clients send the contexts of workloads, and nothing reads them.
fn unused_contexts(count: u64) -> Option<StatusFinding> {
    if count == 0 {
        return None;
    }
    let text = format!("{count} requests had X-Workload-Context, which has no effect");
    let finding = StatusFinding::new("workload_context_unused", Level::Note, text)
        .figure("requests", count as f64)
        .advise(
            "Set queue.order = \"workload\", so that criticality, wait and rate order the \
             requests of a flow, or name flows by `workload` (queue.flow_by).",
        );
    Some(finding)
}
