//! Why discovery in Kubernetes does not know the present state, in words for an operator.

use std::fmt;
use std::path::PathBuf;

use super::resource::Resource;

/// The most letters of a text of the API server.
const TEXT_MAX: usize = 300;

/// A text of the API server, as a log and a page may show it: in one line, and short.
pub(super) fn told(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(TEXT_MAX) {
        match letter {
            '"' | '\'' | '\\' => shown.push(letter),
            _ => shown.extend(letter.escape_debug()),
        }
    }
    if text.chars().nth(TEXT_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The account that a refusal of the API server names.
pub(super) fn account_in(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("User \"")?;
    let (account, _) = rest.split_once('"')?;
    Some(told(account)).filter(|account| !account.is_empty())
}

/// See the module's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The role of the service account lacks a verb (403).
    Forbidden { verb: Verb, subject: Subject, account: Option<String> },
    /// The API server does not accept the token (401).
    Unauthorized { token_file: Option<PathBuf> },
    /// The API server knows no such kind of object (404).
    UnknownKind { subject: Subject },
    /// The API server cannot be reached, or connections to it end before their time.
    Unreached(String),
    /// The API server refuses the request for another reason.
    Refused { verb: Verb, subject: Subject, status: u16, message: String },
    /// A response cannot be read.
    Unreadable { subject: Subject, problem: String },
    /// There are more objects than are followed.
    TooMany { subject: Subject, most: usize },
    /// The pool does not exist. The group is named where only one is read.
    NoPool { name: String, group: Option<&'static str>, namespace: String },
    /// The pool selects no pods, or has no port.
    UnusablePool { name: String, problem: &'static str },
    /// A target has no endpoints. It may be scaled to zero.
    NoEndpoints { source: String, namespace: String },
    /// More endpoints than a fleet may have.
    TooManyEndpoints { most: usize },
    /// Endpoints whose names no backend may have.
    UnusableIds { count: usize },
    /// A rule for model names cannot be used.
    Rewrite(String),
    /// The process cannot know where the API server is.
    NotConfigured(String),
}

/// What a trouble means for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The present state is not known.
    Failing,
    /// Some objects are left out, and the others are used.
    Incomplete,
    /// There is no endpoint.
    Empty,
}

/// What is done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Watch,
}

/// A kind of object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) plural: &'static str,
    pub(super) group: &'static str,
    pub(super) namespace: String,
}

// === impl Subject ===

impl Subject {
    pub(super) fn of(resource: &Resource, api: usize) -> Self {
        Self {
            plural: resource.kind.plural,
            group: resource.api(api).group,
            namespace: resource.namespace.clone(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plural, group, namespace } = self;
        match group.is_empty() {
            true => write!(f, "{plural} in the namespace {namespace}"),
            false => write!(f, "{plural} of {group} in the namespace {namespace}"),
        }
    }
}

// === impl Verb ===

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
        })
    }
}

// === impl Trouble ===

impl Trouble {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::NoEndpoints { .. } => Effect::Empty,
            Self::TooMany { .. }
            | Self::TooManyEndpoints { .. }
            | Self::UnusableIds { .. }
            | Self::Rewrite(_) => Effect::Incomplete,
            _ => Effect::Failing,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden { verb, subject, account } => {
                let plural = subject.plural;
                write!(
                    f,
                    "the service account may not {verb} {subject}: its role lacks the verb {verb} \
                     for {plural}"
                )?;
                account.iter().try_for_each(|account| write!(f, " (the account is {account})"))
            }
            Self::Unauthorized { token_file: Some(file) } => {
                write!(f, "the API server does not accept the token in {}", file.display())
            }
            Self::Unauthorized { token_file: None } => {
                f.write_str("the API server wants a token, and none is configured")
            }
            Self::UnknownKind { subject } => {
                write!(f, "the API server does not know {subject}: install their definition (CRD)")
            }
            Self::Unreached(problem) => f.write_str(problem),
            Self::Refused { verb, subject, status, message } => {
                write!(f, "the API server answered {status} to {verb} {subject}: {message}")
            }
            Self::Unreadable { subject, problem } => {
                write!(f, "the API server sent something unreadable about {subject}: {problem}")
            }
            Self::TooMany { subject, most } => {
                write!(f, "there are more than {most} {subject}; the further ones are not used")
            }
            Self::NoPool { name, group, namespace } => {
                write!(f, "there is no InferencePool {name}")?;
                group.iter().try_for_each(|group| write!(f, " of {group}"))?;
                write!(f, " in the namespace {namespace}")
            }
            Self::UnusablePool { name, problem } => {
                write!(f, "the InferencePool {name} {problem}")
            }
            Self::NoEndpoints { source, namespace } => {
                write!(f, "{source} finds no endpoint in the namespace {namespace}")
            }
            Self::TooManyEndpoints { most } => {
                write!(f, "there are more than {most} endpoints; the first {most} are used")
            }
            Self::UnusableIds { count } => write!(
                f,
                "{count} endpoints are left out: their names are empty, too long for the id of a \
                 backend, or have letters that an id may not have"
            ),
            Self::Rewrite(problem) => write!(f, "the InferenceModelRewrite {problem}"),
            Self::NotConfigured(problem) => f.write_str(problem),
        }
    }
}
