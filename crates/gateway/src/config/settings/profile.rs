//! The designs that Tidegate follows, as a configuration names them.

/// A design whose rules hold where the configuration gives none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The defaults of Tidegate.
    #[default]
    None,
    /// The queuing proposal of the Inference Gateway.
    InferenceGateway,
    /// The request queue of Nexus.
    Nexus,
    /// Priorities in an Ollama proxy.
    OllamaProxy,
    /// Workload-aware routing for the Gateway API Inference Extension.
    WorkloadAware,
}

/// What a design writes otherwise than Tidegate, and no key says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conventions {
    /// `/metrics` has the families of the proposal under their own names, too.
    pub proposal_metrics: bool,
    /// `X-Nexus-Priority` is the only part of a request that states its band.
    pub nexus_priority_alone: bool,
    /// The errors of requests are those of Nexus: without `param`, and a timeout tells no cause.
    pub nexus_errors: bool,
    /// `/backends` and D-Bus count waiting requests as pending at the backends that may take them.
    pub waiting_is_pending: bool,
}

// === impl Profile ===

impl Profile {
    pub(crate) const fn conventions(self) -> Conventions {
        Conventions {
            proposal_metrics: matches!(self, Self::InferenceGateway),
            nexus_priority_alone: matches!(self, Self::Nexus),
            nexus_errors: matches!(self, Self::Nexus),
            waiting_is_pending: matches!(self, Self::OllamaProxy),
        }
    }
}

// === impl Conventions ===

impl Conventions {
    /// What `tidegate check` tells of them.
    pub(crate) fn told(self) -> impl Iterator<Item = &'static str> {
        let told = [
            (self.proposal_metrics, "/metrics has the names of the proposal, too"),
            (self.nexus_priority_alone, "X-Nexus-Priority alone states the band of a request"),
            (self.nexus_errors, "errors have no `param`, and a timeout in the queue no cause"),
            (self.waiting_is_pending, "/backends and D-Bus count waiting requests as pending"),
        ];
        told.into_iter().filter_map(|(is_so, text)| is_so.then_some(text))
    }
}
