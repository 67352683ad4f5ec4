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
    /// A queue that is off is none: requests pass to the ready backends without a bound.
    pub passes_when_off: bool,
    /// `X-Nexus-Priority` is the only part of a request that states its band, but for work that is
    /// to be behind all others.
    pub nexus_priority_alone: bool,
    /// The errors of requests are those of Nexus: without `param`, a timeout tells no cause, and a
    /// full queue names the key of its limit.
    pub nexus_errors: bool,
    /// A request that a backend did not serve goes to the back of its band, whatever the cause, and
    /// before all requests of lower bands.
    pub failed_goes_back: bool,
    /// A client that leaves while it waits is a warning in the log.
    pub warns_of_leaving: bool,
    /// Waiting requests count as pending at the backends that may take them, wherever it is shown.
    pub waiting_is_pending: bool,
    /// A pending request costs the same at every backend, however many fill it.
    pub flat_depth: bool,
}

// === impl Profile ===

impl Profile {
    pub(crate) const fn conventions(self) -> Conventions {
        Conventions {
            proposal_metrics: matches!(self, Self::InferenceGateway),
            passes_when_off: matches!(self, Self::InferenceGateway),
            nexus_priority_alone: matches!(self, Self::Nexus),
            nexus_errors: matches!(self, Self::Nexus),
            failed_goes_back: matches!(self, Self::Nexus),
            warns_of_leaving: matches!(self, Self::Nexus),
            waiting_is_pending: matches!(self, Self::OllamaProxy),
            flat_depth: matches!(self, Self::OllamaProxy),
        }
    }
}

// === impl Conventions ===

impl Conventions {
    /// What `tidegate check` tells of them.
    pub(crate) fn told(self) -> impl Iterator<Item = &'static str> {
        let told = [
            (self.proposal_metrics, "/metrics has the names of the proposal, too"),
            (self.passes_when_off, "with the queue off, requests pass to ready backends at once"),
            (
                self.nexus_priority_alone,
                "X-Nexus-Priority alone states the band of a request, except best-effort",
            ),
            (
                self.nexus_errors,
                "errors of requests have no `param`, and a timeout in the queue no cause",
            ),
            (self.failed_goes_back, "a request that a backend did not serve goes to the back"),
            (self.warns_of_leaving, "a client that leaves while it waits is a warning in the log"),
            (self.waiting_is_pending, "waiting requests count as pending at the backends"),
            (self.flat_depth, "a pending request costs the same at every backend"),
        ];
        told.into_iter().filter_map(|(is_so, text)| is_so.then_some(text))
    }
}
