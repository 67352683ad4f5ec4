//! Discovery in Kubernetes: its settings, and what it learns for requests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flow::identity::NAME_MAX;
use flow::{Band, ModelNames, ResolvedModel};

use super::BackendSpec;

/// Discovery in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// The API server; `None` for that of the cluster that this process is in.
    pub url: Option<String>,
    /// The file with the token.
    pub token_file: Option<PathBuf>,
    /// The root certificates of the API server.
    pub ca_file: Option<PathBuf>,
    /// The namespace; `None` for that of the service account.
    pub namespace: Option<String>,
    /// Which endpoints are followed.
    pub targets: Vec<KubernetesTarget>,
}

/// Whose endpoints are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubernetesTarget {
    /// Those of an InferencePool, with its objectives and model names.
    Pool {
        /// Its name.
        name: String,
        /// Its group.
        group: PoolGroup,
    },
    /// Those of a service.
    Service {
        /// Its name.
        name: String,
        /// The port of each endpoint; `None` for the first of the service.
        port: Option<u16>,
    },
    /// All pods with these labels.
    Pods {
        /// The label selector.
        selector: String,
        /// The port of each pod.
        port: u16,
    },
}

/// The group of an InferencePool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolGroup {
    /// `inference.networking.k8s.io`, and the older one where the cluster lacks it.
    #[default]
    Stable,
    /// `inference.networking.x-k8s.io`.
    Alpha,
}

/// Why a backend gets no new requests although it may work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainCause {
    /// Kubernetes does not report it as ready.
    NotReady,
    /// Kubernetes is about to end it.
    Terminating,
    /// An operator drains it.
    Operator,
}

/// What objects of a cluster say about requests. The configuration goes before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterRules {
    /// The band of each objective by its name.
    pub objectives: BTreeMap<String, Band>,
    /// The models that requested names stand for.
    pub names: ModelNames,
    /// The models of all other names, as a rule for [`ClusterRules::ANY`].
    pub any: Option<ModelNames>,
}

// === impl ClusterRules ===

impl ClusterRules {
    /// The name of the rule for all names.
    pub const ANY: &'static str = "*";

    /// Whether there is a rule for this name.
    pub(crate) fn has_rule(&self, name: &str) -> bool {
        self.any.is_some() || self.names.has_rule(name)
    }

    /// The model of a name.
    pub(crate) fn resolve<'a>(&'a self, name: &'a str, draw: u64) -> Option<ResolvedModel<'a>> {
        match &self.any {
            Some(any) if !self.names.has_rule(name) => any.resolve(Self::ANY, draw),
            _ => self.names.resolve(name, draw),
        }
    }
}

// === impl DrainCause ===

impl std::fmt::Display for DrainCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotReady => "Kubernetes does not report it as ready",
            Self::Terminating => "Kubernetes is about to end it",
            Self::Operator => "an operator drains it",
        })
    }
}

// === impl KubernetesTarget ===

impl std::fmt::Display for KubernetesTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pool { name, .. } => write!(f, "the pods of the InferencePool {name}"),
            Self::Service { name, .. } => write!(f, "the endpoints of the Service {name}"),
            Self::Pods { selector, port } => write!(f, "port {port} of the pods {selector}"),
        }
    }
}

// === impl BackendSpec ===

impl BackendSpec {
    /// Whether a backend may have this id, which is shown in a header and as a label.
    pub(crate) fn allows_id(id: &str) -> bool {
        (1..=NAME_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    }
}
