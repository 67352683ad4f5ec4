//! Which flow a request belongs to, and which class that flow is in.
//!
//! A flow's name is made of the parts that the configuration lists, in that order. A part that the
//! request does not have is `-`, and a request that has none of them belongs to the one flow `-`:
//! nobody gains by leaving a header out. Classes are given by rules, the first that matches wins.

/// What is known of a request when its flow is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestAttributes<'a> {
    /// The model asked for.
    pub model: Option<&'a str>,
    /// The model it resolved to.
    pub target_model: Option<&'a str>,
    /// The tenant its key belongs to.
    pub tenant: Option<&'a str>,
    /// The workload id its sender gave; nothing for a generated one.
    pub workload: Option<&'a str>,
    /// The fairness id its sender gave.
    pub fairness_id: Option<&'a str>,
    /// Request headers, names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
}

/// One trait of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// The model asked for.
    Model,
    /// The model it resolved to.
    TargetModel,
    /// The tenant its key belongs to.
    Tenant,
    /// The workload id its sender gave.
    Workload,
    /// The fairness id its sender gave.
    FairnessId,
    /// A request header, its name in lower case.
    Header(String),
}

/// Flows whose traits match all these patterns are in this class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRule {
    /// Traits and the patterns they must match; `*` stands for any run of characters.
    pub patterns: Vec<(Attribute, String)>,
    /// The number of the class.
    pub class: u32,
}

/// Longest name of a flow or a workload, in bytes: what clients send is cut here.
pub const NAME_MAX: usize = 256;

const ABSENT: &str = "-";
const SEPARATOR: &str = "/";

/// The name of the flow that a request belongs to.
pub fn flow_name(parts: &[Attribute], traits: &RequestAttributes<'_>) -> String {
    let values: Vec<&str> = parts.iter().map(|part| part.of(traits).unwrap_or(ABSENT)).collect();
    if values.iter().all(|&value| value == ABSENT) {
        return ABSENT.to_owned();
    }
    let mut name = match values[..] {
        [only] => only.to_owned(),
        _ => values.iter().map(|value| escaped(value)).collect::<Vec<_>>().join(SEPARATOR),
    };
    name.truncate(name.floor_char_boundary(NAME_MAX));
    name
}

/// A part of a longer name, told apart from the separator: no two requests with different parts
/// share a name.
fn escaped(value: &str) -> String {
    value.replace('%', "%25").replace(SEPARATOR, "%2F")
}

/// The class of a request's flow: that of the first rule that matches, or 0.
pub fn class_of(rules: &[ClassRule], traits: &RequestAttributes<'_>) -> u32 {
    let matches = |rule: &&ClassRule| {
        let mut patterns = rule.patterns.iter();
        patterns.all(|(part, pattern)| part.of(traits).is_some_and(|text| glob(pattern, text)))
    };
    rules.iter().find(matches).map_or(0, |rule| rule.class)
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

// === impl Part ===

impl Attribute {
    fn of<'a>(&self, traits: &RequestAttributes<'a>) -> Option<&'a str> {
        let value = match self {
            Self::Model => traits.model,
            Self::TargetModel => traits.target_model,
            Self::Tenant => traits.tenant,
            Self::Workload => traits.workload,
            Self::FairnessId => traits.fairness_id,
            Self::Header(name) => {
                traits.headers.iter().find(|(key, _)| key == name).map(|&(_, value)| value)
            }
        };
        value.filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests;
