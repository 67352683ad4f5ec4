//! The dead letters that this process made, for its operator. Pub/Sub has the messages themselves,
//! in the topic for dead letters.

use std::collections::VecDeque;

use crate::DeadLetter;

/// The most dead letters that are remembered: the latest.
const REMEMBERED_MAX: usize = 1000;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    letters: VecDeque<DeadLetter>,
    last: u64,
}

// === impl DeadLetters ===

impl DeadLetters {
    /// Remembers a dead letter; its number is given here.
    pub(super) fn add(&mut self, letter: DeadLetter) {
        self.last += 1;
        self.letters.push_back(DeadLetter { number: self.last, ..letter });
        if self.letters.len() > REMEMBERED_MAX {
            self.letters.pop_front();
        }
    }

    /// The number of dead letters since the start of the process.
    pub(super) fn count(&self) -> u64 {
        self.last
    }

    /// Those after the one with the number `after`, oldest first.
    pub(super) fn list(&self, after: Option<u64>, limit: usize) -> Vec<DeadLetter> {
        let is_later = |letter: &&DeadLetter| after.is_none_or(|after| letter.number > after);
        self.letters.iter().filter(is_later).take(limit).cloned().collect()
    }
}
