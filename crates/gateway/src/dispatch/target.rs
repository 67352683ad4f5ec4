//! Whether a queue's target takes what is sent to it, for the log and the pages.
//!
//! Messages that were not taken go back and nothing is counted against them, so whoever wonders why
//! nothing goes finds the reason here. A target at its limit takes one and refuses the next: that
//! is one overload and one line in the log, not one for each message.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Line;

/// A target that has refused nothing for so long is well again with the next good answer; another
/// reason is told no more often than this.
const CALM: Duration = Duration::from_secs(5);

/// How a target stands.
#[derive(Debug, Default)]
pub(super) struct Condition(Mutex<Option<Overload>>);

/// A target that takes nothing more.
#[derive(Debug)]
struct Overload {
    why: String,
    /// When it last refused something, and when that was last told.
    refused: Instant,
    told: Instant,
}

// === impl Line ===

impl Line {
    /// Its target has taken a message.
    pub(super) fn took(&self) {
        if self.condition.took(Instant::now()) {
            let (queue, target) = (&self.queue.name, &self.target.place);
            tracing::info!(queue, target, "the target takes messages again");
        }
    }

    /// Its target has not taken a message.
    pub(super) fn refused(&self, why: String) {
        if let Some(why) = self.condition.refused(why, Instant::now()) {
            let (queue, target) = (&self.queue.name, &self.target.place);
            tracing::warn!(queue, target, why, "the target takes no more, messages wait");
        }
    }
}

// === impl Condition ===

impl Condition {
    /// Why the target takes nothing more, while that is so.
    pub(super) fn why(&self) -> Option<String> {
        self.state().as_ref().map(|overload| overload.why.clone())
    }

    /// Something was taken; says whether that is worth a line.
    fn took(&self, now: Instant) -> bool {
        let mut state = self.state();
        let calm = state.as_ref().is_some_and(|overload| now - overload.refused >= CALM);
        if calm {
            *state = None;
        }
        calm
    }

    /// Something was not taken; gives the reason back if it is worth a line.
    fn refused(&self, why: String, now: Instant) -> Option<String> {
        let mut state = self.state();
        let told = match &*state {
            Some(before) if before.why == why || now - before.told < CALM => before.told,
            _ => now,
        };
        *state = Some(Overload { why: why.clone(), refused: now, told });
        (told == now).then_some(why)
    }

    fn state(&self) -> MutexGuard<'_, Option<Overload>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overload_is_told_once_and_so_is_its_end() {
        let (condition, start) = (Condition::default(), Instant::now());
        let at = |secs: u64| start + Duration::from_secs(secs);
        assert!(!condition.took(at(0)), "it was well");
        assert_eq!(condition.refused("503".into(), at(1)).as_deref(), Some("503"));
        assert_eq!(condition.refused("503".into(), at(2)), None);
        assert!(!condition.took(at(3)), "one in between is no recovery");
        assert_eq!(condition.refused("429".into(), at(4)), None, "not one line for each message");
        assert_eq!(condition.why().as_deref(), Some("429"), "the pages show the last");
        assert_eq!(condition.refused("refused".into(), at(9)).as_deref(), Some("refused"));
        assert!(condition.took(at(14)));
        assert!(!condition.took(at(15)), "once");
        assert_eq!(condition.why(), None);
        assert_eq!(condition.refused("503".into(), at(16)).as_deref(), Some("503"));
    }
}
