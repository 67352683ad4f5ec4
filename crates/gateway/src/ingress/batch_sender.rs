//! The client that submits work for later, such as a batch. The requests of that work belong to the
//! flow of the client, although the client does not send them itself.

use std::collections::BTreeMap;

use flow::identity::{self, Attribute, NAME_MAX, RequestAttributes};
use http::HeaderMap;

use super::caller::Caller;
use super::headers::{ControlHeaders, WORKLOAD, text};
use super::workload::{HEADER_MAX, WorkloadContext};
use crate::config::settings::{Config, Identity};

/// The client as its later requests need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The tenant, by whom the queue of the work is shared; empty if the client names none.
    pub(crate) tenant: String,
    /// The headers from which the flow of a request follows, and the limit of its band.
    pub(crate) headers: BTreeMap<String, String>,
}

// === impl Sender ===

impl Sender {
    /// Reads the headers of the client. Its tenant is that of its key, if it has one.
    pub(crate) fn of(config: &Config, headers: &HeaderMap, caller: Option<&Caller>) -> Self {
        let controls = ControlHeaders::of(headers);
        let kept = kept_headers(config, headers, &controls);
        let tenant = match controls.fairness_id() {
            _ if caller.is_some() => caller.map(|it| it.tenant.name.clone()).unwrap_or_default(),
            Some(id) if id.len() <= NAME_MAX => id.to_owned(),
            Some(_) => String::new(),
            None => team(&config.identity, &controls, &kept),
        };
        Self { tenant, headers: kept }
    }
}

fn kept_headers(
    config: &Config,
    headers: &HeaderMap,
    controls: &ControlHeaders<'_>,
) -> BTreeMap<String, String> {
    // Such work has the band of its queue, which a rule may limit.
    let mut kept: BTreeMap<String, String> = super::listed(config, headers)
        .into_iter()
        .filter(|(name, _)| !is_credential(name))
        .map(|(name, value)| (name.to_owned(), beginning(value).to_owned()))
        .collect();
    let workload = controls.workload.and_then(text);
    if let Some(workload) = workload.filter(|value| value.len() <= HEADER_MAX) {
        kept.insert(WORKLOAD.to_owned(), workload.to_owned());
    }
    kept
}

/// The tenant of a client without a fairness id: the parts of its flow that are not models. If a
/// fairness id is itself such a part, it must stay absent from the requests.
fn team(
    identity: &Identity,
    controls: &ControlHeaders<'_>,
    kept: &BTreeMap<String, String>,
) -> String {
    let patterns = identity.rules.iter().flat_map(|rule| &rule.patterns).map(|(part, _)| part);
    if identity.parts.iter().chain(patterns).any(|part| *part == Attribute::FairnessId) {
        return String::new();
    }
    let of_client = |part: &&Attribute| matches!(part, Attribute::Workload | Attribute::Header(_));
    let parts: Vec<Attribute> = identity.parts.iter().filter(of_client).cloned().collect();
    let workload = WorkloadContext::of(controls.workload);
    let headers: Vec<(&str, &str)> =
        kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let traits = RequestAttributes {
        workload: workload.name.given(),
        headers: &headers,
        ..RequestAttributes::default()
    };
    match identity::flow_name(&parts, &traits) {
        none if none == identity::ABSENT => String::new(),
        name => name,
    }
}

/// What is kept of a long value: more than the name of a flow has, so the flow stays the same.
fn beginning(value: &str) -> &str {
    &value[..value.floor_char_boundary(HEADER_MAX)]
}

/// Whether a header is a secret, which must not stay on disk for the life of a batch.
fn is_credential(name: &str) -> bool {
    matches!(name, "authorization" | "proxy-authorization" | "cookie" | "api-key" | "x-api-key")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "{\"workload_id\":\"etl\",\"criticality\":2}";

    fn sender(parts: &[Attribute], headers: &[(&'static str, &str)]) -> Sender {
        let identity = Identity { parts: parts.to_vec(), ..Identity::default() };
        let config = Config { identity, ..Config::default() };
        let pairs = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
        });
        Sender::of(&config, &pairs.collect(), None)
    }

    fn header(name: &str) -> Attribute {
        Attribute::Header(name.into())
    }

    #[test]
    fn d10_a_sender_keeps_the_headers_of_its_flow_and_no_credentials() {
        let parts = [Attribute::Model, header("x-team"), header("authorization")];
        let sent = [
            ("x-team", "lab"),
            ("authorization", "Bearer k"),
            ("x-other", "1"),
            (WORKLOAD, CONTEXT),
        ];
        let Sender { tenant, headers } = sender(&parts, &sent);
        let kept: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value)).collect();
        assert_eq!(kept, [("x-team", &"lab".to_owned()), (WORKLOAD, &CONTEXT.to_owned())]);
        assert_eq!(tenant, "lab/-", "as in the name of the flow, without the model");
    }

    #[test]
    fn d10_a_long_value_is_cut_and_names_the_same_flow() {
        let long = "t".repeat(5000);
        let Sender { tenant, headers } = sender(&[header("x-team")], &[("x-team", &long)]);
        assert_eq!(headers["x-team"].len(), HEADER_MAX);
        assert_eq!(tenant, long[..NAME_MAX]);
    }

    #[test]
    fn d08_the_tenant_is_the_fairness_id_or_the_team() {
        let fairness = ("x-llm-d-inference-fairness-id", "alice");
        let team = ("x-team", "lab");
        assert_eq!(sender(&[header("x-team")], &[team]).tenant, "lab");
        assert_eq!(sender(&[header("x-team")], &[team, fairness]).tenant, "alice");
        assert_eq!(sender(&[Attribute::Workload], &[(WORKLOAD, CONTEXT)]).tenant, "etl");
        assert_eq!(sender(&[Attribute::Model], &[team]).tenant, "");
        assert_eq!(sender(&[header("x-team")], &[]).tenant, "");
        let both = [header("x-team"), Attribute::FairnessId];
        assert_eq!(sender(&both, &[team]).tenant, "", "the requests have no fairness id either");
    }
}
