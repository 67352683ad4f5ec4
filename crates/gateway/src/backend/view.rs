//! What a person is shown of each backend.

use flow::{BackendId, BackendTraits, EngineReading, Span, Time};

use super::crew::Crew;
use super::health::Standing;
use super::member::{Member, Models};
use crate::config::resolved::BackendKind;

/// A backend as the admin page shows it.
#[derive(Clone, Debug)]
pub(crate) struct BackendStatus {
    pub(crate) backend: BackendId,
    /// Its configured name.
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) kind: BackendKind,
    pub(crate) ready: bool,
    /// `ready`, `starting`, `full`, `ejected 3.2 s more`, `unready: connection refused`, …
    pub(crate) state: String,
    /// The models it lists; `*` for any.
    pub(crate) models: Vec<String>,
    /// How long ago it was last checked, and what came of it.
    pub(crate) last_check: Option<(Span, String)>,
    /// How long ago its metrics were last read, and what they said.
    pub(crate) last_reading: Option<(Span, EngineReading)>,
    /// Why they could not be read the last time.
    pub(crate) scrape_error: Option<String>,
    pub(crate) traits: BackendTraits,
    /// Failed requests in a row.
    pub(crate) failures: u32,
    /// The smoothed time to the first byte of its answers.
    pub(crate) latency: Option<Span>,
}

// === impl Crew ===

impl Crew {
    pub(super) fn views(&self, now: Time) -> Vec<BackendStatus> {
        let view = |(&id, member): (&BackendId, &Member)| self.view(id, member, now);
        self.members.iter().map(view).collect()
    }

    fn view(&self, backend: BackendId, member: &Member, now: Time) -> BackendStatus {
        let standing = member.health.standing(now);
        let learnt = !matches!(member.models, Models::NotYet);
        let last_resort = self.is_last_resort(member, now);
        let state = match standing {
            Standing::Ready if !learnt => "starting: its list of models is not learnt".into(),
            Standing::Ejected(_) if last_resort => {
                format!("ready: {}, but nobody else serves its models", standing.text(now))
            }
            _ => standing.text(now),
        };
        let age = |at: Time| now.since(at);
        BackendStatus {
            backend,
            id: member.spec.id.clone(),
            url: member.spec.url.clone(),
            kind: member.spec.kind,
            ready: learnt && (standing == Standing::Ready || last_resort),
            state,
            models: member.models.names(),
            last_check: member.last_check.clone().map(|(at, said)| (age(at), said)),
            last_reading: member.last_reading.map(|(at, reading)| (age(at), reading)),
            scrape_error: member.scrape_error.clone(),
            traits: member.spec.traits,
            failures: member.health.failures(),
            latency: member.upstream.pulse.latency(),
        }
    }
}

// === impl Models ===

impl Models {
    fn names(&self) -> Vec<String> {
        match self {
            Self::NotYet => Vec::new(),
            Self::Any => vec!["*".into()],
            Self::Listed(list) => list.iter().map(|listed| listed.id.clone()).collect(),
        }
    }
}

// === impl Standing ===

impl Standing {
    pub(super) fn text(&self, now: Time) -> String {
        match self {
            Self::Ready => "ready".into(),
            Self::Down(down) => down.to_string(),
            Self::Ejected(until) => format!("ejected {:.1} s more", until.since(now).secs_f64()),
            Self::Full(_) => "full".into(),
        }
    }
}
