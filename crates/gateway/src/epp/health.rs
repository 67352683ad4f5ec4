//! gRPC's health service, for Envoy, Kubernetes and whoever else has to choose a picker.
//!
//! `liveness` is well for as long as anybody answers. `readiness` says what the page `/ready` says.
//! The picker's own name, and the empty one for the whole server, are well while requests are
//! taken, even before any backend is known: they may wait for one or are refused in our words,
//! whereas Envoy, told to look elsewhere, can only fail them or let them pass unseen.

use std::sync::Arc;
use std::time::Duration;

use envoy::health::health_check_response::ServingStatus;
use envoy::health::{HealthCheckRequest, HealthCheckResponse, HealthListResponse};

use super::grpc::{Code, Incoming, Outgoing, Status};
use crate::admin;
use crate::state::State;

pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";
pub(super) const LIST: &str = "/grpc.health.v1.Health/List";
pub(super) const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// How often a watched name is looked at. Its end is told at once; backends come and go without
/// telling anybody here.
const LOOK: Duration = Duration::from_secs(1);

/// The names that are known, and what each asks.
const SUBJECTS: [(&str, Subject); 4] = [
    ("", Subject::Door),
    ("envoy.service.ext_proc.v3.ExternalProcessor", Subject::Door),
    ("liveness", Subject::Life),
    ("readiness", Subject::Readiness),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// Whether anybody is there.
    Life,
    /// Whether requests are taken.
    Door,
    /// Whether they should be sent here.
    Readiness,
}

/// How one name is now.
pub(super) async fn check(
    state: Arc<State>,
    mut incoming: Incoming,
    outgoing: Outgoing,
) -> Result<(), Status> {
    let Some(subject) = asked(&mut incoming).await? else {
        return Err(Status::new(Code::NotFound, "there is no such service"));
    };
    outgoing.send(&response(subject.status(&state)));
    Ok(())
}

/// How every name is now.
pub(super) async fn list(state: Arc<State>, outgoing: Outgoing) -> Result<(), Status> {
    let entry = |(name, subject): (&str, Subject)| (name.into(), response(subject.status(&state)));
    outgoing.send(&HealthListResponse { statuses: SUBJECTS.map(entry).into() });
    Ok(())
}

/// How one name is now and whenever that changes, until the end begins.
pub(super) async fn watch(
    state: Arc<State>,
    mut incoming: Incoming,
    outgoing: Outgoing,
) -> Result<(), Status> {
    let subject = asked(&mut incoming).await?;
    let mut phases = state.phases();
    let mut told = None;
    loop {
        // Whoever watches a name that is not known may hope for it: that is no error.
        let status = subject.map_or(ServingStatus::ServiceUnknown, |found| found.status(&state));
        if told.replace(status) != Some(status) {
            outgoing.send(&response(status));
        }
        if state.is_closing() {
            return Ok(());
        }
        tokio::select! {
            _ = phases.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

async fn asked(incoming: &mut Incoming) -> Result<Option<Subject>, Status> {
    let request: Option<HealthCheckRequest> = incoming.next().await?;
    let Some(HealthCheckRequest { service }) = request else {
        return Err(Status::new(Code::InvalidArgument, "the call has no message"));
    };
    Ok(SUBJECTS.into_iter().find(|(name, _)| *name == service).map(|(_, subject)| subject))
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

// === impl Subject ===

impl Subject {
    fn status(self, state: &State) -> ServingStatus {
        let well = match self {
            Self::Life => true,
            Self::Door => !state.is_draining(),
            Self::Readiness => admin::is_ready(state),
        };
        if well { ServingStatus::Serving } else { ServingStatus::NotServing }
    }
}

#[cfg(test)]
mod tests;
