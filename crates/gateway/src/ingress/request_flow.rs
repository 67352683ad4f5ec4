//! The flow of a request, by the attributes that the configuration lists.

use flow::identity::{self, Attribute, RequestAttributes};
use http::HeaderMap;

use super::headers::text;
use super::session;
use crate::config::Config;
use crate::config::settings::{Identity, SessionPart};

/// The flow of a request.
pub(super) struct RequestFlow {
    pub(super) name: String,
    pub(super) class: u32,
    /// The hash of the request's session inside its flow; 0 is none.
    pub(super) session: u32,
}

// === impl RequestFlow ===

impl RequestFlow {
    pub(super) fn of(
        identity: &Identity,
        attributes: &RequestAttributes<'_>,
        session: Option<u64>,
    ) -> Self {
        Self {
            name: identity::flow_name(&identity.parts, attributes),
            class: identity::class_of(&identity.rules, attributes),
            session: session::in_flow(&identity.session_parts, attributes, session),
        }
    }
}

/// The headers that the flow key, a flow class or a rule of bands uses.
pub(super) fn listed<'a>(config: &'a Config, headers: &'a HeaderMap) -> Vec<(&'a str, &'a str)> {
    let mut listed: Vec<(&str, &str)> = Vec::new();
    for part in used_attributes(config) {
        let Attribute::Header(name) = part else { continue };
        if listed.iter().any(|(known, _)| known == name) {
            continue;
        }
        if let Some(value) = headers.get(name).and_then(text) {
            listed.push((name, value));
        }
    }
    listed
}

/// The attributes that the configuration uses, perhaps several times.
fn used_attributes(config: &Config) -> impl Iterator<Item = &Attribute> {
    let Config { identity, band_rules, .. } = config;
    let patterns = identity.rules.iter().flat_map(|rule| &rule.patterns);
    let patterns = patterns.chain(band_rules.iter().flat_map(|rule| &rule.patterns));
    let session_parts = identity.session_parts.iter().filter_map(|part| match part {
        SessionPart::Session => None,
        SessionPart::Attribute(part) => Some(part),
    });
    identity.parts.iter().chain(session_parts).chain(patterns.map(|(part, _)| part))
}
