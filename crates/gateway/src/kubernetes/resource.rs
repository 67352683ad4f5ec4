//! The resources that are listed and watched: their groups, their paths and their selectors.

use crate::upstream::client::escaped;

/// Objects of one page. The API server may send fewer.
pub(super) const PAGE_OBJECTS: usize = 200;
/// How long the API server keeps a watch open.
pub(super) const WATCH_SECS: u64 = 60;

/// A version of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Api {
    /// Empty for the core group.
    pub(super) group: &'static str,
    pub(super) version: &'static str,
}

/// A kind of object, with the APIs that may have it. The first that the API server knows counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) plural: &'static str,
    pub(super) apis: &'static [Api],
    /// Whether a cluster may lack it: then there are no objects of the kind.
    pub(super) optional: bool,
}

/// The objects of a kind in a namespace that a selector names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) selector: Selector,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    All,
    /// The object with this name.
    Name(String),
    Labels(String),
}

const fn api(group: &'static str, version: &'static str) -> Api {
    Api { group, version }
}

pub(super) const POOLS: Kind = Kind {
    plural: "inferencepools",
    apis: &[
        api("inference.networking.k8s.io", "v1"),
        api("inference.networking.x-k8s.io", "v1alpha2"),
    ],
    optional: false,
};

/// The same, only of the older group.
pub(super) const ALPHA_POOLS: Kind =
    Kind { apis: &[api("inference.networking.x-k8s.io", "v1alpha2")], ..POOLS };

pub(super) const PODS: Kind = Kind { plural: "pods", apis: &[api("", "v1")], optional: false };

pub(super) const ENDPOINT_SLICES: Kind = Kind {
    plural: "endpointslices",
    apis: &[api("discovery.k8s.io", "v1"), api("discovery.k8s.io", "v1beta1")],
    optional: false,
};

pub(super) const OBJECTIVES: Kind = Kind {
    plural: "inferenceobjectives",
    apis: &[api("llm-d.ai", "v1alpha2"), api("inference.networking.x-k8s.io", "v1alpha2")],
    optional: true,
};

pub(super) const REWRITES: Kind = Kind {
    plural: "inferencemodelrewrites",
    apis: &[api("llm-d.ai", "v1alpha2"), api("inference.networking.x-k8s.io", "v1alpha2")],
    optional: true,
};

// === impl Kind ===

impl Kind {
    /// The group, where no other one may have the kind.
    pub(super) fn only_group(&self) -> Option<&'static str> {
        match self.apis {
            [only] => Some(only.group),
            _ => None,
        }
    }
}

// === impl Resource ===

impl Resource {
    /// The API of the given number, counted in a circle.
    pub(super) fn api(&self, number: usize) -> Api {
        let apis = self.kind.apis;
        apis.get(number % apis.len().max(1)).copied().unwrap_or(api("", "v1"))
    }

    /// The path of a page of the list.
    pub(super) fn list_path(&self, number: usize, continue_token: Option<&str>) -> String {
        let more =
            continue_token.map_or(String::new(), |token| format!("&continue={}", escaped(token)));
        format!("{}?limit={PAGE_OBJECTS}{}{more}", self.base(number), self.selected())
    }

    /// The path of a watch from a version on.
    pub(super) fn watch_path(&self, number: usize, version: &str) -> String {
        format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECS}\
             &resourceVersion={}{}",
            self.base(number),
            escaped(version),
            self.selected()
        )
    }

    fn base(&self, number: usize) -> String {
        let Api { group, version } = self.api(number);
        let root = if group.is_empty() { "/api".into() } else { format!("/apis/{group}") };
        format!("{root}/{version}/namespaces/{}/{}", escaped(&self.namespace), self.kind.plural)
    }

    fn selected(&self) -> String {
        match &self.selector {
            Selector::All => String::new(),
            Selector::Name(name) => {
                format!("&fieldSelector={}", escaped(&format!("metadata.name={name}")))
            }
            Selector::Labels(labels) => format!("&labelSelector={}", escaped(labels)),
        }
    }
}
