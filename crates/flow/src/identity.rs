//! The identity of a request: its flow, and the class of the flow.
//!
//! The name of a flow consists of the request's attributes that the configuration lists, in that
//! order. A missing attribute is `-`, and all requests without any of them share the flow `-`: a
//! client gains nothing by leaving a header out. The first class rule that matches gives the class.

/// The attributes of a request from which its flow is derived.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestAttributes<'a> {
    /// The requested model.
    pub model: Option<&'a str>,
    /// The model that the requested name resolved to.
    pub target_model: Option<&'a str>,
    /// The tenant of its API key.
    pub tenant: Option<&'a str>,
    /// The workload id that the client gave; `None` for a generated id.
    pub workload: Option<&'a str>,
    /// The fairness id that the client gave.
    pub fairness_id: Option<&'a str>,
    /// The address of the client.
    pub address: Option<&'a str>,
    /// Request headers, names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
}

/// One attribute of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// The requested model.
    Model,
    /// The model that the requested name resolved to.
    TargetModel,
    /// The tenant of its API key.
    Tenant,
    /// The workload id that the client gave.
    Workload,
    /// The fairness id that the client gave.
    FairnessId,
    /// The address of the client.
    Address,
    /// A request header, its name in lower case.
    Header(String),
}

/// The flow of a request whose attributes match all these patterns is in this class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRule {
    /// Attributes and the patterns they must match; `*` stands for any run of characters.
    pub patterns: Vec<(Attribute, String)>,
    /// The number of the class.
    pub class: u32,
}

/// The longest name of a flow or a workload, in bytes; longer names are cut.
pub const NAME_MAX: usize = 256;

/// The name of a part that a request does not have, and of the flow of requests that have none.
pub const ABSENT: &str = "-";
const SEPARATOR: &str = "/";

/// The name of the flow that a request belongs to.
pub fn flow_name(parts: &[Attribute], traits: &RequestAttributes<'_>) -> String {
    let value = |part: &Attribute| part.of(traits).unwrap_or(ABSENT);
    let mut name = match parts {
        [only] => value(only).to_owned(),
        _ if parts.iter().all(|part| value(part) == ABSENT) => ABSENT.to_owned(),
        _ => parts.iter().map(|part| escaped(value(part))).collect::<Vec<_>>().join(SEPARATOR),
    };
    name.truncate(name.floor_char_boundary(NAME_MAX));
    name
}

/// Escapes the separator in one part of a longer name: requests with different attributes never
/// share a name.
fn escaped(value: &str) -> String {
    value.replace('%', "%25").replace(SEPARATOR, "%2F")
}

/// The class of a request's flow: the class of the first rule that matches, or 0.
pub fn class_of(rules: &[ClassRule], traits: &RequestAttributes<'_>) -> u32 {
    let found = rules.iter().find(|rule| matches(&rule.patterns, traits));
    found.map_or(0, |rule| rule.class)
}

/// Whether a request has all these attributes, each matching its pattern.
pub fn matches(patterns: &[(Attribute, String)], traits: &RequestAttributes<'_>) -> bool {
    let mut patterns = patterns.iter();
    patterns.all(|(part, pattern)| part.of(traits).is_some_and(|text| glob(pattern, text)))
}

/// Whether `text` matches `pattern`, in which `*` stands for any run of characters.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

// === impl Attribute ===

impl Attribute {
    /// Its value in a request, if that has one.
    pub fn of<'a>(&self, traits: &RequestAttributes<'a>) -> Option<&'a str> {
        let value = match self {
            Self::Model => traits.model,
            Self::TargetModel => traits.target_model,
            Self::Tenant => traits.tenant,
            Self::Workload => traits.workload,
            Self::FairnessId => traits.fairness_id,
            Self::Address => traits.address,
            Self::Header(name) => {
                traits.headers.iter().find(|(key, _)| key == name).map(|&(_, value)| value)
            }
        };
        value.filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests;
