//! The objects of the API server, with only the fields that are read.
//!
//! Every field may be missing: an object of a newer version, or one that is half made, must not
//! make a whole list unreadable.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::endpoints::{ACTIVE_PORTS, ENGINE_LABEL};

/// An object that has a name and a version.
pub(super) trait Object {
    fn metadata(&self) -> &Metadata;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) resource_version: String,
    pub(super) creation_timestamp: String,
    /// Set once the object is to be deleted.
    pub(super) deletion_timestamp: Option<String>,
    pub(super) labels: Kept,
    pub(super) annotations: Kept,
}

/// The labels or annotations that are read. Others may be large.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "BTreeMap<String, String>")]
pub(super) struct Kept(pub(super) BTreeMap<String, String>);

/// One page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub(super) struct Page<T> {
    #[serde(default)]
    pub(super) metadata: PageMetadata,
    #[serde(default = "Vec::new")]
    pub(super) items: Vec<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PageMetadata {
    pub(super) resource_version: String,
    /// The place of the next page; empty on the last one.
    #[serde(rename = "continue")]
    pub(super) continue_token: String,
}

/// The type of an event of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct EventType {
    #[serde(rename = "type")]
    pub(super) name: String,
}

/// The object of an event of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct EventObject<T> {
    pub(super) object: T,
}

/// An object of which only the version is read, as that of a bookmark.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Versioned {
    pub(super) metadata: Metadata,
}

/// Why the API server refuses a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) code: u16,
    pub(super) message: String,
}

/// An InferencePool of either group. The older one has a plain map of labels and one port.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct InferencePool {
    pub(super) metadata: Metadata,
    pub(super) spec: PoolSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PoolSpec {
    pub(super) selector: PoolSelector,
    pub(super) target_ports: Vec<TargetPort>,
    pub(super) target_port_number: Option<i64>,
    pub(super) app_protocol: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum PoolSelector {
    Nested {
        #[serde(rename = "matchLabels")]
        match_labels: BTreeMap<String, String>,
    },
    Plain(BTreeMap<String, String>),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct TargetPort {
    pub(super) number: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    pub(super) status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: String,
    pub(super) conditions: Vec<PodCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PodCondition {
    #[serde(rename = "type")]
    pub(super) name: String,
    pub(super) status: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct EndpointSlice {
    pub(super) metadata: Metadata,
    pub(super) address_type: String,
    // The API server writes `null` for an empty list.
    pub(super) endpoints: Option<Vec<SliceEndpoint>>,
    pub(super) ports: Option<Vec<SlicePort>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SliceEndpoint {
    pub(super) addresses: Vec<String>,
    pub(super) conditions: SliceConditions,
    pub(super) target_ref: Option<NamedReference>,
}

/// An unknown condition means that the endpoint may be used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct SliceConditions {
    pub(super) ready: Option<bool>,
    pub(super) terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct SlicePort {
    port: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct NamedReference {
    pub(super) name: String,
}

/// The pool of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PoolReference {
    pub(super) name: String,
    /// The API server fills it in, unless the object is older than the field.
    pub(super) group: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct InferenceObjective {
    pub(super) metadata: Metadata,
    pub(super) spec: ObjectiveSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ObjectiveSpec {
    pub(super) priority: Option<i64>,
    pub(super) pool_ref: Option<PoolReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct InferenceModelRewrite {
    pub(super) metadata: Metadata,
    pub(super) spec: RewriteSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RewriteSpec {
    pub(super) pool_ref: Option<PoolReference>,
    pub(super) rules: Vec<RewriteRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RewriteRule {
    pub(super) matches: Vec<RewriteMatch>,
    #[serde(alias = "split")]
    pub(super) targets: Vec<RewriteTarget>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RewriteMatch {
    pub(super) model: Option<ModelMatch>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ModelMatch {
    pub(super) value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RewriteTarget {
    pub(super) weight: Option<u32>,
    pub(super) model_rewrite: String,
}

// === impl Kept ===

impl From<BTreeMap<String, String>> for Kept {
    fn from(mut all: BTreeMap<String, String>) -> Self {
        all.retain(|name, _| name == ENGINE_LABEL || ACTIVE_PORTS.contains(&name.as_str()));
        Self(all)
    }
}

// === impl PoolSelector ===

impl Default for PoolSelector {
    fn default() -> Self {
        Self::Plain(BTreeMap::new())
    }
}

impl PoolSelector {
    fn labels(&self) -> &BTreeMap<String, String> {
        match self {
            Self::Nested { match_labels } => match_labels,
            Self::Plain(labels) => labels,
        }
    }

    /// The selector as the API server reads it; `None` if it would select every pod.
    pub(super) fn text(&self) -> Option<String> {
        let labels = self.labels();
        let pairs: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join(","))
    }
}

// === impl PoolSpec ===

impl PoolSpec {
    /// The ports of the model servers of a pod, one for each data-parallel rank.
    pub(super) fn ports(&self) -> Vec<u16> {
        let numbers = self.target_ports.iter().map(|port| port.number);
        numbers.chain(self.target_port_number).filter_map(port).collect()
    }
}

// === impl SlicePort ===

impl SlicePort {
    pub(super) fn number(&self) -> Option<u16> {
        self.port.and_then(port)
    }
}

/// A port that a server can have.
fn port(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|&port| port > 0)
}

// === impl Object ===

macro_rules! objects {
    ($($kind:ident),*) => {$(
        impl Object for $kind {
            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }
    )*};
}

objects!(InferencePool, Pod, EndpointSlice, InferenceObjective, InferenceModelRewrite);
