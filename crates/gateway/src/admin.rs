//! The admin pages, for operators, load balancers and Prometheus.
//!
//! A page reads the core once and copies what it needs; it is formatted after the lock is released.
//! Lists are limited to the thousand busiest entries, because clients can invent ids.

mod backend_conditions;
mod backends;
mod bands;
mod client_mistakes;
mod configured;
mod flows;
mod health;
mod request_list;
pub(crate) mod requests;
pub(crate) mod status;
mod workloads;

#[cfg(test)]
mod tests;

#[cfg(feature = "dbus")]
pub(crate) use {backends::BackendEntry, health::QueueStatus};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use crate::backend::Roster;
use crate::ingress::path::AdminPage;
use crate::observe::{IdNames, MetricsFormat, ProcessStatus};
use crate::reply::{Fault, content, error, json, uncached};
use crate::state::{Standing, State};

#[derive(Serialize)]
struct Version {
    version: &'static str,
}

/// The most entries of a list.
const LIST_MAX: usize = 1000;

/// Whether load balancers should send requests here, as `/ready` reports.
pub(crate) fn is_ready(state: &State) -> bool {
    health::readiness(state, state.standing()).ready
}

/// Builds the response for a page.
pub(crate) fn respond(
    state: &State,
    page: AdminPage,
    standing: Standing<'_>,
) -> Response<Full<Bytes>> {
    uncached(match page {
        AdminPage::Backends => json(StatusCode::OK, &backends::page(state)),
        AdminPage::Requests => json(StatusCode::OK, &request_list::page(state)),
        AdminPage::Flows => json(StatusCode::OK, &flows::page(state)),
        AdminPage::Workloads => json(StatusCode::OK, &workloads::page(state)),
        AdminPage::Health => json(StatusCode::OK, &health::page(state, standing)),
        AdminPage::Ready => {
            let ready = health::readiness(state, standing);
            let status = if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            json(status, &ready)
        }
        AdminPage::Status => json(StatusCode::OK, &status::page(state)),
        AdminPage::StatusHistory => json(StatusCode::OK, &status::history(state)),
        // The HTTP server responds itself.
        AdminPage::StatusStream | AdminPage::Request | AdminPage::Dashboard(_) => {
            return error::response(&Fault::NoSuchPage.into());
        }
        AdminPage::Version => version(),
        // The HTTP server responds itself: the accounts are in a file.
        AdminPage::Usage => return error::response(&Fault::UsageDisabled.into()),
        AdminPage::Metrics => return metrics(state, MetricsFormat::default()),
    })
}

/// The metrics, in one of their formats.
pub(crate) fn metrics(state: &State, format: MetricsFormat) -> Response<Full<Bytes>> {
    let roster = state.fleet.roster();
    let named = id_names(&roster);
    let config = state.config.load();
    let snapshot = state.scheduler.with(|core, now| {
        let snapshot = state.observer.snapshot(core, now, &named);
        match config.conventions.waiting_is_pending {
            true => snapshot.with_waiting(&core.waiting_by_backend()),
            false => snapshot,
        }
    });
    let hold = state.hold_places.usage(config.hold.capacity);
    let goal = config.scaler.goal;
    let proposal = config.conventions.proposal_metrics.then_some(config.flow.bounds);
    let process = ProcessStatus { hold, backends: state.fleet.statuses(), goal, proposal };
    let text = state.observer.metrics(&snapshot, &named, &process, format);
    uncached(content(StatusCode::OK, format.media_type(), text.into()))
}

/// The version of the program, in the form of Ollama's and vLLM's.
pub(crate) fn version() -> Response<Full<Bytes>> {
    json(StatusCode::OK, &Version { version: env!("CARGO_PKG_VERSION") })
}

/// The queue and all backends at one moment, as `/health` and `/backends` show them.
#[cfg(feature = "dbus")]
pub(crate) fn status(state: &State) -> (QueueStatus, Vec<BackendEntry>) {
    backends::status(state)
}

fn id_names(roster: &Roster) -> IdNames<'_> {
    let backends = roster.backends.iter().map(|(&id, endpoint)| (id, endpoint.name.as_str()));
    let models = roster.numbered().map(|(name, id)| (id, name));
    let subsets = roster.narrowed().collect();
    IdNames { backends: backends.collect(), models: models.collect(), subsets }
}

/// Keeps the busiest entries, sorted, and returns the number of the others.
fn busiest<T, K: Ord>(entries: &mut Vec<T>, busy: impl Fn(&T) -> K) -> usize {
    busiest_of(entries, LIST_MAX, busy)
}

/// The same with another number of entries.
fn busiest_of<T, K: Ord>(entries: &mut Vec<T>, most: usize, busy: impl Fn(&T) -> K) -> usize {
    let beyond = entries.len().saturating_sub(most);
    if beyond > 0 {
        entries.select_nth_unstable_by_key(most, |entry| std::cmp::Reverse(busy(entry)));
        entries.truncate(most);
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(busy(entry)));
    beyond
}
