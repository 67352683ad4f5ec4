//! Whether the target of a queue accepts requests, for the log and the status pages, and for which
//! models it has answered.
//!
//! A refused message is released and no failure is counted, so the reason is visible only here. A
//! target at its limit accepts one request and refuses the next: that is one overload and one line
//! in the log, not one line for each message.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ServedQueue;

/// An overload ends with the first accepted request after this time without a refusal. A new reason
/// is logged at most this often.
const QUIET_PERIOD: Duration = Duration::from_secs(5);

/// The most models whose last answers are remembered.
const MODELS_MAX: usize = 1024;

/// The current overload of a target, if any.
#[derive(Debug, Default)]
pub(super) struct TargetHealth {
    overload: Mutex<Option<Overload>>,
}

/// What each target did with messages for each model: the messages of all queues count, because a
/// queue may have none that its target can answer. The models of one target may be served by
/// different machines, so an answer for one proves nothing about another.
#[derive(Debug, Default)]
pub(super) struct TargetAnswers(Mutex<BTreeMap<(String, String), ModelAnswers>>);

/// What a target did with messages for a model.
#[derive(Debug)]
struct ModelAnswers {
    answered: Option<Instant>,
    failing: Failing,
    last: Instant,
}

/// The messages that have failed since the last answer.
#[derive(Debug, PartialEq, Eq)]
enum Failing {
    None,
    /// One message, by its queue and id.
    One(String, String),
    Several,
}

/// A target that refuses requests.
#[derive(Debug)]
struct Overload {
    why: String,
    /// The times of the last refusal and of the last line in the log.
    refused: Instant,
    logged: Instant,
}

// === impl ServedQueue ===

impl ServedQueue {
    /// Records that the target accepted a message.
    pub(super) fn accepted(&self) {
        if self.health.accepted(Instant::now()) {
            let (queue, target) = (&self.queue.name, &self.target.place);
            tracing::info!(queue, target, "the target accepts messages again");
        }
    }

    /// Records that the target refused a message.
    pub(super) fn refused(&self, why: String) {
        if let Some(why) = self.health.refused(why, Instant::now()) {
            let (queue, target) = (&self.queue.name, &self.target.place);
            tracing::warn!(queue, target, why, "the target refuses messages, they wait");
        }
    }
}

// === impl TargetAnswers ===

impl TargetAnswers {
    /// Records an answer for a model.
    pub(super) fn note(&self, target: &str, model: &str) {
        self.with(target, model, |answers| {
            (answers.answered, answers.failing) = (Some(answers.last), Failing::None);
        });
    }

    /// Whether a target answered for a model in this last span of time.
    pub(super) fn has(&self, target: &str, model: &str, within: Duration) -> bool {
        let answers = lock(&self.0);
        let known = answers.get(&(target.to_owned(), model.to_owned()));
        let last = known.and_then(|known| known.answered);
        last.is_some_and(|last| last.elapsed() <= within)
    }

    /// Records a failure of a message. Returns whether no other message for the model has failed
    /// since the last answer: otherwise the target may be what fails.
    pub(super) fn fails_alone(
        &self,
        (target, model): (&str, &str),
        (queue, id): (&str, &str),
    ) -> bool {
        let own = Failing::One(queue.to_owned(), id.to_owned());
        self.with(target, model, |answers| {
            let is_alone = answers.failing == Failing::None || answers.failing == own;
            answers.failing = if is_alone { own } else { Failing::Several };
            is_alone
        })
    }

    fn with<T>(&self, target: &str, model: &str, act: impl FnOnce(&mut ModelAnswers) -> T) -> T {
        let (mut all, now) = (lock(&self.0), Instant::now());
        let key = (target.to_owned(), model.to_owned());
        if all.len() >= MODELS_MAX && !all.contains_key(&key) {
            let oldest = all.iter().min_by_key(|(_, known)| known.last).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        let new = ModelAnswers { answered: None, failing: Failing::None, last: now };
        let known = all.entry(key).or_insert(new);
        known.last = now;
        act(known)
    }
}

// === impl TargetHealth ===

impl TargetHealth {
    /// Why the target refuses requests, while it does.
    pub(super) fn why(&self) -> Option<String> {
        self.state().as_ref().map(|overload| overload.why.clone())
    }

    /// Records an accepted message; returns whether an overload ended.
    fn accepted(&self, now: Instant) -> bool {
        let mut state = self.state();
        let ended = state.as_ref().is_some_and(|overload| now - overload.refused >= QUIET_PERIOD);
        if ended {
            *state = None;
        }
        ended
    }

    /// Records a refused message; returns the reason if it is to be logged.
    fn refused(&self, why: String, now: Instant) -> Option<String> {
        let mut state = self.state();
        let logged = match &*state {
            Some(before) if before.why == why || now - before.logged < QUIET_PERIOD => {
                before.logged
            }
            _ => now,
        };
        *state = Some(Overload { why: why.clone(), refused: now, logged });
        (logged == now).then_some(why)
    }

    fn state(&self) -> MutexGuard<'_, Option<Overload>> {
        lock(&self.overload)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n05_a_message_fails_alone_until_another_one_fails() {
        let answers = TargetAnswers::default();
        let fails = |model: &str, id: &str| answers.fails_alone(("t", model), ("q", id));
        assert!(fails("m", "a") && fails("m", "a") && fails("other", "b"));
        assert!(!fails("m", "b") && !fails("m", "a"), "the target may be what fails");
        answers.note("t", "m");
        assert!(answers.has("t", "m", QUIET_PERIOD) && !answers.has("t", "other", QUIET_PERIOD));
        assert!(fails("m", "b") && !fails("m", "a"));
        (0..2 * MODELS_MAX).for_each(|number| answers.note("t", &number.to_string()));
        assert_eq!(lock(&answers.0).len(), MODELS_MAX);
    }

    #[test]
    fn an_overload_is_logged_once_and_so_is_its_end() {
        let (health, start) = (TargetHealth::default(), Instant::now());
        let at = |secs: u64| start + Duration::from_secs(secs);
        assert!(!health.accepted(at(0)), "there was no overload");
        assert_eq!(health.refused("503".into(), at(1)).as_deref(), Some("503"));
        assert_eq!(health.refused("503".into(), at(2)), None);
        assert!(!health.accepted(at(3)), "one accepted message is no recovery");
        assert_eq!(health.refused("429".into(), at(4)), None, "not one line for each message");
        assert_eq!(health.why().as_deref(), Some("429"), "the pages show the last reason");
        assert_eq!(health.refused("refused".into(), at(9)).as_deref(), Some("refused"));
        assert!(health.accepted(at(14)));
        assert!(!health.accepted(at(15)), "once");
        assert_eq!(health.why(), None);
        assert_eq!(health.refused("503".into(), at(16)).as_deref(), Some("503"));
    }
}
