//! One finding: what is wrong, the figures that show it, and what to do.

use std::collections::BTreeMap;

use serde::Serialize;

/// The document that explains each finding, under a heading with its id.
const RUNBOOK: &str = "docs/RUNBOOK.md";

/// A finding that is kept says so after this time, unless it has another.
const PAST_SECS: f64 = 3.0;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// There is no finding.
    #[default]
    Ok,
    /// All works as it is configured, and an operator may want to know it.
    Note,
    /// Requests are served, but some fail or wait longer than they could, or soon will.
    Warning,
    /// More requests fail than are served, those of a model wait in vain, or a store is unusable.
    Trouble,
}

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StatusFinding {
    /// The rule.
    pub(crate) id: &'static str,
    pub(crate) level: Level,
    /// The backend, flow, gate or queue that it is about.
    pub(crate) subject: Option<String>,
    pub(crate) text: String,
    /// For how long it has been found, or was found if it is over.
    pub(crate) since_seconds: f64,
    pub(crate) evidence: BTreeMap<&'static str, f64>,
    pub(crate) advice: String,
    pub(crate) runbook: String,
    /// How long ago it was first found.
    #[serde(skip)]
    pub(super) began_secs: f64,
    /// It is reported when it has lasted for so long: a state of a moment is no finding.
    #[serde(skip)]
    pub(super) lasting_secs: f64,
    /// It stays for so long after it was last found: a state that comes and goes is one finding.
    #[serde(skip)]
    pub(super) kept_secs: f64,
    /// What is said in that time; how long ago it was last found follows.
    #[serde(skip)]
    pub(super) past: String,
    /// It is said in the past only after this time: a state that comes and goes needs one text.
    #[serde(skip)]
    pub(super) past_after_secs: f64,
    /// What shows it, where several figures may.
    #[serde(skip)]
    pub(super) shown_by: Option<&'static str>,
    /// Whether it is kept and was not found of late.
    #[serde(skip)]
    pub(super) is_past: bool,
    /// Its place among findings of its level: causes come before their consequences.
    #[serde(skip)]
    pub(super) order: usize,
}

/// A finding that holds no more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EndedFinding {
    pub(crate) id: &'static str,
    pub(crate) level: Level,
    pub(crate) subject: Option<String>,
    /// As it was last found.
    pub(crate) text: String,
    pub(crate) lasted_seconds: f64,
    pub(crate) ended_seconds_ago: f64,
    pub(crate) advice: String,
    pub(crate) runbook: String,
}

// === impl StatusFinding ===

impl StatusFinding {
    pub(super) fn new(id: &'static str, level: Level, text: String) -> Self {
        Self {
            id,
            level,
            subject: None,
            text,
            since_seconds: 0.0,
            evidence: BTreeMap::new(),
            advice: String::new(),
            runbook: format!("{RUNBOOK}#{id}"),
            began_secs: 0.0,
            lasting_secs: 0.0,
            kept_secs: 0.0,
            past: String::new(),
            past_after_secs: PAST_SECS,
            shown_by: None,
            is_past: false,
            order: 0,
        }
    }

    pub(super) fn about(mut self, subject: &str) -> Self {
        self.subject = Some(subject.to_owned());
        self
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    pub(super) fn figure(mut self, name: &'static str, value: impl Into<f64>) -> Self {
        let value = value.into();
        self.evidence.insert(name, (value * 1e3).round() / 1e3);
        self
    }

    pub(super) fn lasting(mut self, secs: f64) -> Self {
        self.lasting_secs = secs;
        self
    }

    pub(super) fn kept(mut self, secs: f64, past: String) -> Self {
        (self.kept_secs, self.past) = (secs, past);
        self
    }

    pub(super) fn shown_by(mut self, figure: &'static str) -> Self {
        self.shown_by = Some(figure);
        self
    }

    /// For a text that would contradict the figures beside it.
    pub(super) fn past_at_once(mut self) -> Self {
        self.past_after_secs = 0.0;
        self
    }
}

// === impl EndedFinding ===

impl EndedFinding {
    pub(super) fn of(finding: StatusFinding, lasted_seconds: f64) -> Self {
        let StatusFinding { id, level, subject, text, advice, runbook, .. } = finding;
        let ended_seconds_ago = 0.0;
        Self { id, level, subject, text, lasted_seconds, ended_seconds_ago, advice, runbook }
    }

    pub(super) fn is_about(&self, finding: &StatusFinding) -> bool {
        self.id == finding.id && self.subject == finding.subject
    }
}
