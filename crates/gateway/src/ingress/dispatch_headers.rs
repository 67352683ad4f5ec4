//! The headers of a request that the dispatcher sends. A gateway reads them to treat the request as
//! batch work.

use std::collections::BTreeMap;

use flow::identity::NAME_MAX;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::headers::{JSON, REQUEST_ID, WORKLOAD, ends_here};
use crate::hop_by_hop;

const PRIORITY: HeaderName = HeaderName::from_static("x-priority");
/// A receiver with the rules of Nexus knows no other header for work above normal.
const NEXUS_PRIORITY: HeaderName = HeaderName::from_static("x-nexus-priority");
/// Under the newer and the older name, because the receiver may know either.
const OBJECTIVE: [HeaderName; 2] = [
    HeaderName::from_static("x-llm-d-inference-objective"),
    HeaderName::from_static("x-gateway-inference-objective"),
];
const FAIRNESS: [HeaderName; 2] = [
    HeaderName::from_static("x-llm-d-inference-fairness-id"),
    HeaderName::from_static("x-gateway-inference-fairness-id"),
];
/// The key of the dispatcher for its own gateway. No message can set the header, and no backend
/// gets it.
pub(crate) const OWN_KEY: HeaderName = HeaderName::from_static("x-gateway-dispatch-key");

/// The values of the headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DispatchHeaders<'a> {
    pub(crate) id: &'a str,
    pub(crate) priority: &'static str,
    pub(crate) objective: Option<&'a str>,
    /// The tenant of the message; empty if it has none.
    pub(crate) tenant: &'a str,
    /// Headers that the sender of the message set.
    pub(crate) own: &'a BTreeMap<String, String>,
    pub(crate) metadata: &'a BTreeMap<String, String>,
}

// === impl DispatchHeaders ===

impl DispatchHeaders<'_> {
    /// Builds the headers. A value that is not valid in a header is left out.
    pub(crate) fn to_header_map(self) -> HeaderMap {
        let mut headers = self.sender_headers();
        put(&mut headers, &HeaderName::from_static("traceparent"), self.trace());
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(PRIORITY, HeaderValue::from_static(self.priority));
        if matches!(self.priority, "high" | "critical") {
            headers.insert(NEXUS_PRIORITY, HeaderValue::from_static("high"));
        }
        put(&mut headers, &REQUEST_ID, Some(self.id));
        let tenant = Some(self.tenant).filter(|name| !name.is_empty() && name.len() <= NAME_MAX);
        for (objective, fairness) in OBJECTIVE.iter().zip(&FAIRNESS) {
            put(&mut headers, objective, self.objective);
            put(&mut headers, fairness, tenant);
        }
        headers
    }

    /// The headers that the sender of the message set. It cannot set control headers.
    fn sender_headers(&self) -> HeaderMap {
        // The workload orders the requests of one flow only, so a sender may name it.
        let is_theirs = |name: &str| !ends_here(name) || name == WORKLOAD;
        let mut headers = HeaderMap::new();
        for (name, value) in self.own {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value))
                && is_theirs(name.as_str())
            {
                headers.insert(name, value);
            }
        }
        hop_by_hop::strip(&mut headers, |_| false);
        headers
    }

    fn trace(&self) -> Option<&str> {
        self.metadata.get("traceparent").map(String::as_str)
    }
}

fn put(headers: &mut HeaderMap, name: &HeaderName, value: Option<&str>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    fn dispatched(pairs: &[(&str, &str)], tenant: &str) -> HeaderMap {
        let (own, metadata) = (own(pairs), own(&[("traceparent", "00-1-2-01")]));
        let dispatch = DispatchHeaders {
            id: "line-7",
            priority: "best-effort",
            objective: Some("nightly"),
            tenant,
            own: &own,
            metadata: &metadata,
        };
        dispatch.to_header_map()
    }

    #[test]
    fn dispatch_headers_give_tenant_and_priority() {
        let headers = dispatched(&[], "team-a");
        for (name, value) in [
            ("x-priority", "best-effort"),
            ("x-request-id", "line-7"),
            ("x-llm-d-inference-objective", "nightly"),
            ("x-gateway-inference-objective", "nightly"),
            ("x-llm-d-inference-fairness-id", "team-a"),
            ("x-gateway-inference-fairness-id", "team-a"),
            ("traceparent", "00-1-2-01"),
            ("content-type", "application/json"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
        let none = dispatched(&[], "");
        assert!(!none.contains_key("x-llm-d-inference-fairness-id"));
        assert!(!none.contains_key("x-nexus-priority"), "it knows nothing below normal");
    }

    #[test]
    fn p02_work_above_normal_says_so_in_the_header_of_nexus_too() {
        let (own, metadata) = (BTreeMap::new(), BTreeMap::new());
        let (id, objective, tenant) = ("line-7", None, "");
        let of = |priority| {
            DispatchHeaders { id, priority, objective, tenant, own: &own, metadata: &metadata }
                .to_header_map()
        };
        assert_eq!(of("critical")["x-nexus-priority"], "high");
        assert_eq!(of("high")["x-nexus-priority"], "high");
        assert!(!of("normal").contains_key("x-nexus-priority"));
    }

    #[test]
    fn the_sender_of_a_message_cannot_override_control_headers() {
        let wanted = [
            ("X-Priority", "critical"),
            ("x-own", "kept"),
            ("x-workload-context", "{}"),
            ("connection", "close"),
            ("accept-encoding", "gzip"),
            ("x-gateway-inference-fairness-id", "vip"),
            ("bad name", "x"),
            ("x-bad", "a\nb"),
        ];
        let headers = dispatched(&wanted, "");
        assert_eq!(headers["x-priority"], "best-effort");
        assert_eq!(headers["x-own"], "kept");
        assert_eq!(headers["x-workload-context"], "{}");
        assert!(!headers.contains_key("connection") && !headers.contains_key("accept-encoding"));
        assert!(!headers.contains_key("x-gateway-inference-fairness-id"));
        assert!(!headers.contains_key("x-bad"));
    }
}
