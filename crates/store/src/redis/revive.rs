//! What comes back by itself: claims of those who died, and messages that are due again.

use std::time::Duration;

use super::RedisStore;
use super::envelope::seconds;
use super::keys::Keys;
use super::link::{Kept, next};
use super::look::{Seen, read};
use super::scripts::SCRIPTS;
use super::step::Step;
use crate::Reclaimed;
use crate::error::StoreError;
use crate::moment::Moment;

/// How many are brought back in one go, and how often one look does so.
const BATCH: usize = 100;
const ROUNDS: usize = 10;

/// How long messages of another queue may be due before we look after them.
const ABANDONED: Duration = Duration::from_secs(300);

/// When to look again if it cannot be told.
const SOON: Duration = Duration::from_secs(1);

/// Some messages that wait for another try and are due.
struct Page {
    found: usize,
    /// How many are where they were.
    left: usize,
    /// How many wait in this queue now.
    came: u64,
}

/// A moment of a score, not earlier than it.
fn moment(score: f64) -> Moment {
    // What is no number or lies before 1970 becomes zero, what lies beyond all bounds the last.
    Moment::from_millis((score * 1000.0).ceil() as u64)
}

// === impl RedisStore ===

impl RedisStore {
    /// Brings back what is due, so much at most that others get a turn.
    pub(super) async fn bring_back(
        &self,
        queue: &str,
        now: Moment,
    ) -> Result<Reclaimed, StoreError> {
        let keys = self.layout.queue(queue);
        let mut reclaimed = Reclaimed::default();
        let (mut claims, mut retries, mut passed) = (BATCH, BATCH, 0);
        for _ in 0..ROUNDS {
            if claims == BATCH {
                let (found, back) = self.reclaim(&keys, now).await?;
                (claims, reclaimed.lost) = (found, reclaimed.lost + back);
            }
            if retries == BATCH {
                let page = self.promote(&keys, passed, now).await?;
                (retries, reclaimed.due) = (page.found, reclaimed.due + page.came);
                passed += page.left;
            }
        }
        let more = claims == BATCH || retries == BATCH;
        reclaimed.next = if more { Some(now) } else { self.next(&keys, now).await? };
        Ok(reclaimed)
    }

    /// Brings back claims whose lease has run out; says how many there were and came back.
    async fn reclaim(&self, keys: &Keys, now: Moment) -> Result<(usize, u64), StoreError> {
        let step = Step::new("ZRANGEBYSCORE", &keys.index).arg("-inf").arg(seconds(now));
        let step = step.arg("LIMIT").arg(0).arg(BATCH);
        let claims: Vec<Vec<u8>> = self.link.ask(step, Kept::Here).await?;
        if claims.is_empty() {
            return Ok((0, 0));
        }
        let step = Step::new("HMGET", &keys.claimed).arg(&claims);
        let members: Vec<Option<Vec<u8>>> = self.link.ask(step, Kept::Here).await?;
        let names = [&keys.pending, &keys.claimed, &keys.owners, &keys.index];
        let mut step = Step::script(&SCRIPTS.reclaim, &names.map(String::as_str)).arg(seconds(now));
        for (claim, member) in claims.iter().zip(members) {
            // What cannot be read is found where messages wait, by whoever looks there.
            let (member, score) = match read(member.unwrap_or_default(), &keys.pending) {
                Ok(Seen { member, letter }) => (member.into_bytes(), letter.score),
                Err((member, _)) => (member, 0.0),
            };
            step = step.arg(claim).arg(member).arg(score);
        }
        Ok((claims.len(), self.link.ask(step, Kept::Here).await?))
    }

    /// Lets messages wait again that are due, after so many that are left to others.
    async fn promote(&self, keys: &Keys, passed: usize, now: Moment) -> Result<Page, StoreError> {
        let (mut homes, mut steps, mut spoilt) = (Vec::new(), Vec::new(), Vec::new());
        let due = self.retries(keys, passed, now).await?;
        let mut page = Page { found: due.len(), left: due.len(), came: 0 };
        for (member, due) in due {
            let Seen { member, letter } = match read(member, &keys.pending) {
                Ok(seen) => seen,
                Err(unreadable) => {
                    spoilt.push(unreadable);
                    continue;
                }
            };
            let home = self.home(&letter, &keys.retries, &keys.pending);
            // Whoever works on another queue looks after it, as long as there is somebody.
            if home == keys.pending || due.after(ABANDONED) <= now {
                let step = Step::script(&SCRIPTS.promote, &[&keys.retries, &home]);
                steps.push(step.arg(member).arg(letter.score));
                homes.push(home);
            }
        }
        page.left -= homes.len() + spoilt.len();
        self.spoil(keys, &keys.retries, spoilt, now).await?;
        let mut answers = self.link.run(steps, Kept::Here).await?;
        for home in homes {
            let ours: bool = next(&mut answers)?;
            page.came += u64::from(ours && home == keys.pending);
        }
        Ok(page)
    }

    /// The first messages that wait for another try and are due.
    async fn retries(
        &self,
        keys: &Keys,
        passed: usize,
        now: Moment,
    ) -> Result<Vec<(Vec<u8>, Moment)>, StoreError> {
        let step = Step::new("ZRANGEBYSCORE", &keys.retries).arg("-inf").arg(seconds(now));
        let step = step.arg("WITHSCORES").arg("LIMIT").arg(passed).arg(BATCH);
        let found: Vec<(Vec<u8>, f64)> = self.link.ask(step, Kept::Here).await?;
        Ok(found.into_iter().map(|(member, score)| (member, moment(score))).collect())
    }

    /// When the next claim runs out, or the next message is due.
    async fn next(&self, keys: &Keys, now: Moment) -> Result<Option<Moment>, StoreError> {
        let first = |set, most| Step::new("ZRANGE", set).arg(0).arg(most).arg("WITHSCORES");
        let most = if self.layout.shared_retries() { BATCH } else { 1 };
        let steps = vec![first(&keys.index, 0), first(&keys.retries, most - 1)];
        let mut answers = self.link.run(steps, Kept::Here).await?;
        let leases: Vec<(Vec<u8>, f64)> = next(&mut answers)?;
        let retries: Vec<(Vec<u8>, f64)> = next(&mut answers)?;
        let looked = retries.len();
        let ours = retries.into_iter().find(|(member, _)| {
            let seen = read(member.clone(), "");
            seen.is_ok_and(|Seen { letter, .. }| {
                self.home(&letter, &keys.retries, &keys.pending) == keys.pending
            })
        });
        // Behind many of others may be one of ours.
        let hidden = || (looked == BATCH).then(|| now.after(SOON));
        let retry = ours.map(|(_, score)| moment(score)).or_else(hidden);
        let lease = leases.first().map(|(_, score)| moment(*score));
        Ok([lease, retry].into_iter().flatten().min())
    }
}
