//! Since when each finding holds, and the findings that have ended.
//!
//! Some states come and go, such as a gate that batch work itself closes. A finding about such a
//! state is kept for a time after it was last found. A finding that has ended is listed for some
//! minutes: the load may stop before an operator looks, and the cause must not vanish with it.

use std::collections::{BTreeMap, VecDeque};

use flow::{Span, Time};

use super::Level;
use super::finding::{EndedFinding, StatusFinding};
use super::sentence::span;
use super::trends::round;

/// The most findings that are shown.
const FINDINGS_MAX: usize = 100;
/// For how long ended findings are listed, and how many at most.
const ENDED_KEPT: Span = Span::from_secs(600);
const ENDED_MAX: usize = 20;

/// A rule and its subject.
type Key = (&'static str, Option<String>);

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct FindingMemory {
    known: BTreeMap<Key, KnownFinding>,
    /// The last first.
    ended: VecDeque<(Time, EndedFinding)>,
}

/// A finding that was found at the last look, or a moment before.
#[derive(Debug)]
struct KnownFinding {
    first: Time,
    last: Time,
    finding: StatusFinding,
}

/// Rules about backends come before those about their consequences. What is over comes after what
/// holds, and only notes come after both.
pub(super) fn sort(findings: &mut [StatusFinding]) {
    findings.sort_by_key(|finding| {
        let is_note = finding.level == Level::Note;
        let past = finding.is_past && !is_note;
        (is_note, past, std::cmp::Reverse(finding.level), finding.order)
    });
}

// === impl FindingMemory ===

impl FindingMemory {
    /// Whether a finding was shown at the last look.
    pub(super) fn shows(&self, id: &'static str, subject: &str) -> bool {
        let known = self.known.get(&(id, Some(subject.to_owned())));
        known.is_some_and(KnownFinding::is_shown)
    }

    /// What showed a finding when it was last found.
    pub(super) fn shown_by(&self, id: &'static str, subject: &str) -> Option<&'static str> {
        self.known.get(&(id, Some(subject.to_owned())))?.finding.shown_by
    }

    /// Whether a finding is shown, or ended after this time.
    pub(super) fn had(&self, id: &'static str, subject: &str, since: Time) -> bool {
        let same =
            |ended: &EndedFinding| ended.id == id && ended.subject.as_deref() == Some(subject);
        let lately = |(at, ended): &(Time, EndedFinding)| *at > since && same(ended);
        self.shows(id, subject) || self.ended.iter().any(lately)
    }

    /// Tells the past of findings that are kept by what has become of their subject.
    pub(super) fn retell(&mut self, past: impl Fn(&StatusFinding) -> Option<String>) {
        for known in self.known.values_mut() {
            if let Some(past) = past(&known.finding) {
                known.finding.past = past;
            }
        }
    }

    /// Adds since when each finding holds, leaves out those of a moment, and sorts the rest.
    pub(super) fn date(&mut self, found: Vec<StatusFinding>, now: Time) -> Vec<StatusFinding> {
        for finding in found {
            let key = (finding.id, finding.subject.clone());
            let first = self.known.get(&key).map_or(now, |known| known.first);
            self.known.insert(key, KnownFinding { first, last: now, finding });
        }
        self.end(now);
        let mut shown: Vec<StatusFinding> =
            self.known.values().filter(|known| known.is_shown()).map(|k| k.at(now)).collect();
        sort(&mut shown);
        shown.truncate(FINDINGS_MAX);
        shown
    }

    /// The findings that have ended, the last first.
    pub(super) fn recent(&self, now: Time) -> Vec<EndedFinding> {
        let entry = |(at, ended): &(Time, EndedFinding)| {
            let ended_seconds_ago = round(now.since(*at).secs_f64());
            EndedFinding { ended_seconds_ago, ..ended.clone() }
        };
        self.ended.iter().map(entry).collect()
    }

    /// Takes findings that have ended over to their list.
    fn end(&mut self, now: Time) {
        let over = |known: &KnownFinding| {
            now.since(known.last) > Span::from_secs_f64(known.finding.kept_secs)
        };
        for (_, known) in self.known.extract_if(.., |_, known| over(known)) {
            let is_news = known.is_shown() && known.finding.level > Level::Note;
            let same = |ended: &EndedFinding| ended.is_about(&known.finding);
            self.ended.retain(|(_, ended)| !is_news || !same(ended));
            if is_news {
                // It was shown for a while longer, as something that was over.
                let lasted = round(known.last.since(known.first).secs_f64());
                self.ended.push_front((known.last, EndedFinding::of(known.finding, lasted)));
            }
        }
        self.forget_ended(now);
    }

    /// Drops findings that ended long ago, and those that are shown again.
    fn forget_ended(&mut self, now: Time) {
        let known = &self.known;
        self.ended.retain(|(at, ended)| {
            let again = known.get(&(ended.id, ended.subject.clone()));
            now.since(*at) <= ENDED_KEPT && !again.is_some_and(KnownFinding::is_shown)
        });
        self.ended.truncate(ENDED_MAX);
    }
}

// === impl KnownFinding ===

impl KnownFinding {
    /// Whether it has lasted long enough.
    fn is_shown(&self) -> bool {
        self.last.since(self.first).secs_f64() >= self.finding.lasting_secs
    }

    fn at(&self, now: Time) -> StatusFinding {
        let began_secs = now.since(self.first).secs_f64();
        let since_seconds = round(began_secs);
        let finding = StatusFinding { since_seconds, began_secs, ..self.finding.clone() };
        let ago = now.since(self.last).secs_f64();
        if ago <= finding.past_after_secs {
            return finding;
        }
        // Its figures are those of the past, and what is over is no trouble.
        let text = format!("{} {} ago", finding.past, span(ago));
        let level = finding.level.min(Level::Warning);
        let since_seconds = round(self.last.since(self.first).secs_f64());
        let evidence = BTreeMap::new();
        StatusFinding { text, level, since_seconds, evidence, is_past: true, ..finding }
    }
}
