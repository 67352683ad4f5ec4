//! Turns for the first reviews of tokens. Any client can send unknown tokens, and each costs
//! the API server a request, so few are reviewed at once. The places go around among the addresses
//! that wait: a flood from one of them delays another by one turn, and refuses nobody else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// Reviews at once.
pub(super) const REVIEWS_MAX: usize = 8;
/// The most tokens that wait, of one address and of all.
const OWN_MAX: usize = 8;
const WAITING_MAX: usize = 256;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The name of an address, as far as one client cannot choose it.
type Source = Option<String>;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct ReviewTurns(Arc<Mutex<Turns>>);

#[derive(Debug, Default)]
struct Turns {
    running: usize,
    /// Those that wait, by address; no entry is empty.
    waiting: BTreeMap<Source, VecDeque<oneshot::Sender<Turn>>>,
    /// The addresses of `waiting`, the next one first.
    order: VecDeque<Source>,
}

/// The place of one review, which goes to the next address when it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Arc<Mutex<Turns>>);

fn lock(turns: &Mutex<Turns>) -> MutexGuard<'_, Turns> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl ReviewTurns ===

impl ReviewTurns {
    /// Waits for a turn of this address; `None` if too many tokens wait, or it takes too long.
    pub(super) async fn take(&self, source: Source) -> Option<Turn> {
        let turn = {
            let mut turns = lock(&self.0);
            if turns.running < REVIEWS_MAX {
                turns.running += 1;
                return Some(Turn(Arc::clone(&self.0)));
            }
            turns.wait(source)?
        };
        timeout(WAIT_MAX, turn).await.ok()?.ok()
    }
}

// === impl Turns ===

impl Turns {
    /// A place in the line of an address.
    fn wait(&mut self, source: Source) -> Option<oneshot::Receiver<Turn>> {
        self.forget_gone();
        let own = self.waiting.get(&source).map_or(0, VecDeque::len);
        if own >= OWN_MAX || (self.len() >= WAITING_MAX && !self.displace(own)) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.entry(source.clone()).or_default().push_back(sender);
        if own == 0 {
            self.order.push_back(source);
        }
        Some(receiver)
    }

    fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Drops those that wait no longer.
    fn forget_gone(&mut self) {
        for line in self.waiting.values_mut() {
            line.retain(|sender| !sender.is_closed());
        }
        self.waiting.retain(|_, line| !line.is_empty());
        self.order.retain(|source| self.waiting.contains_key(source));
    }

    /// Refuses the last of the address with the most, if these are more than `own` and one.
    fn displace(&mut self, own: usize) -> bool {
        let most = self.waiting.values_mut().max_by_key(|line| line.len());
        most.filter(|line| line.len() > own + 1).is_some_and(|line| line.pop_back().is_some())
    }

    /// The next that waits: of the address whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let source = self.order.pop_front()?;
        let line = self.waiting.get_mut(&source)?;
        let next = line.pop_front();
        if line.is_empty() {
            self.waiting.remove(&source);
        } else {
            self.order.push_back(source);
        }
        next
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut turns = lock(&self.0);
            let next = turns.next();
            turns.running -= usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            // One that is gone meanwhile gives its turn on, as it is dropped.
            let _ = next.send(Self(Arc::clone(&self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Source {
        Some(format!("10.0.0.{last}"))
    }

    #[tokio::test(start_paused = true)]
    async fn x05_reviews_go_around_among_addresses() {
        let turns = ReviewTurns::default();
        let mut held = Vec::new();
        for _ in 0..REVIEWS_MAX {
            held.push(turns.take(address(1)).await.unwrap());
        }
        let wait = |last| lock(&turns.0).wait(address(last));
        let mut flood: Vec<_> = (0..OWN_MAX).map(|_| wait(1).unwrap()).collect();
        assert!(wait(1).is_none(), "an address has its part");
        let mut honest = wait(2).unwrap();
        drop(held.pop());
        let first = flood[0].try_recv().unwrap();
        assert!(honest.try_recv().is_err());
        drop(flood.remove(1));
        drop(held.pop());
        let second = honest.try_recv().unwrap();
        drop((first, second, held, flood));
        assert_eq!(lock(&turns.0).running, 0, "all places are free");
        assert!(turns.take(address(3)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn x05_many_addresses_leave_a_place_to_wait() {
        let turns = ReviewTurns::default();
        let mut held = Vec::new();
        for _ in 0..REVIEWS_MAX {
            held.push(turns.take(address(1)).await.unwrap());
        }
        assert!(turns.take(address(1)).await.is_none(), "it waits for so long and no longer");
        let wait = |last| lock(&turns.0).wait(address(last));
        let flood: Vec<_> =
            (0..32).flat_map(|last| (0..OWN_MAX).map(move |_| wait(last))).collect();
        assert_eq!(flood.iter().filter(|turn| turn.is_some()).count(), WAITING_MAX);
        assert!(wait(99).is_some(), "another one loses its place");
        assert_eq!(lock(&turns.0).len(), WAITING_MAX);
        drop(held);
        drop(flood);
        assert!(turns.take(address(1)).await.is_some());
    }
}
