//! Whether the target of a queue accepts requests, for the log and the status pages.
//!
//! A refused message is released and no failure is counted, so the reason is visible only here. A
//! target at its limit accepts one request and refuses the next: that is one overload and one line
//! in the log, not one line for each message.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ServedQueue;

/// An overload ends with the first accepted request after this time without a refusal. A new reason
/// is logged at most this often.
const QUIET_PERIOD: Duration = Duration::from_secs(5);

/// The current overload of a target, if any, and its last answer.
#[derive(Debug, Default)]
pub(super) struct TargetHealth {
    overload: Mutex<Option<Overload>>,
    answered: Mutex<Option<Instant>>,
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

    /// Whether the target accepted a message in this last span of time.
    pub(super) fn answers(&self, within: Duration) -> bool {
        let answered = *lock(&self.health.answered);
        answered.is_some_and(|answered| answered.elapsed() <= within)
    }

    /// Records that the target refused a message.
    pub(super) fn refused(&self, why: String) {
        if let Some(why) = self.health.refused(why, Instant::now()) {
            let (queue, target) = (&self.queue.name, &self.target.place);
            tracing::warn!(queue, target, why, "the target refuses messages, they wait");
        }
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
        *lock(&self.answered) = Some(now);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

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
