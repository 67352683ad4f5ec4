//! gRPC's health service, for Envoy, Kubernetes and load balancers.
//!
//! `liveness` is serving while the process responds. `readiness` equals the page `/ready`. Every
//! other name is the picker: deployments check its own name, the empty name or one of theirs, such
//! as `inference-extension`. The picker is serving while requests are accepted and its pool is
//! known. Before, it could only refuse them, and another picker may know the pool. A known pool
//! without a ready backend is serving: requests wait for one. If Envoy were told to look elsewhere,
//! it could only fail them or let them pass unseen.

use std::sync::Arc;
use std::time::Duration;

use envoy::health::health_check_response::ServingStatus;
use envoy::health::{HealthCheckRequest, HealthCheckResponse, HealthListResponse};

use crate::admin;
use crate::grpc::{Code, Incoming, Outgoing, Status};
use crate::state::State;

pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";
pub(super) const LIST: &str = "/grpc.health.v1.Health/List";
pub(super) const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// How often a watched name is checked. A shutdown is reported at once; changes of backends are not
/// announced here.
const LOOK: Duration = Duration::from_secs(1);

/// The names that are listed, and the subject of each.
const SUBJECTS: [(&str, Subject); 4] = [
    ("", Subject::Door),
    ("envoy.service.ext_proc.v3.ExternalProcessor", Subject::Door),
    ("liveness", Subject::Life),
    ("readiness", Subject::Readiness),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// Whether the process responds.
    Life,
    /// Whether requests are accepted, and their backends may be known.
    Door,
    /// Whether requests should be sent here.
    Readiness,
}

/// The present status of one name.
pub(super) async fn check(
    state: Arc<State>,
    mut incoming: Incoming,
    outgoing: Outgoing,
) -> Result<(), Status> {
    let subject = asked(&mut incoming).await?;
    outgoing.send(&response(subject.status(&state)));
    Ok(())
}

/// The present status of every name.
pub(super) async fn list(state: Arc<State>, outgoing: Outgoing) -> Result<(), Status> {
    let entry = |(name, subject): (&str, Subject)| (name.into(), response(subject.status(&state)));
    outgoing.send(&HealthListResponse { statuses: SUBJECTS.map(entry).into() });
    Ok(())
}

/// The status of one name now and whenever it changes, until the shutdown.
pub(super) async fn watch(
    state: Arc<State>,
    mut incoming: Incoming,
    outgoing: Outgoing,
) -> Result<(), Status> {
    let subject = asked(&mut incoming).await?;
    let mut phases = state.phases();
    let mut told = None;
    loop {
        let status = subject.status(&state);
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

async fn asked(incoming: &mut Incoming) -> Result<Subject, Status> {
    let request: Option<HealthCheckRequest> = incoming.next().await?;
    let Some(HealthCheckRequest { service }) = request else {
        return Err(Status::new(Code::InvalidArgument, "the call has no message"));
    };
    let listed = SUBJECTS.into_iter().find(|(name, _)| *name == service);
    Ok(listed.map_or(Subject::Door, |(_, subject)| subject))
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

// === impl Subject ===

impl Subject {
    fn status(self, state: &State) -> ServingStatus {
        let well = match self {
            Self::Life => true,
            Self::Door => !state.is_draining() && !state.fleet.roster().lacks_cluster(),
            Self::Readiness => admin::is_ready(state),
        };
        if well { ServingStatus::Serving } else { ServingStatus::NotServing }
    }
}

#[cfg(test)]
mod tests;
