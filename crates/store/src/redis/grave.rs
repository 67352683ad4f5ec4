//! The dead: messages that failed too often, or that nobody can read.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::envelope::{self, Letter, Payload, deadline_secs};
use super::keys::{self, Keys, NUDGE};
use super::link::{Kept, next, said};
use super::scripts::SCRIPTS;
use super::step::Step;
use super::submit::{GRACE, RECEIPT_GRACE, SEQUENCE_GRACE, left};
use super::{RedisStore, token};
use crate::error::StoreError;
use crate::message::{BATCH_ROUTE, ENDED_WITH_BATCH};
use crate::moment::Moment;
use crate::{DeadLetter, Redriven, Selection};

/// How many of the dead are looked at in one go.
const PAGE: usize = 128;

/// Why one is dead, as it is kept.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Reason {
    id: String,
    at: u64,
    why: String,
    failures: u32,
}

/// Which of the dead, for whoever looks at many of them.
enum Wanted {
    All,
    These(BTreeSet<String>),
}

/// One of the dead as it is.
struct Corpse {
    number: u64,
    id: String,
    member: Vec<u8>,
}

// === impl RedisStore ===

impl RedisStore {
    /// The dead, oldest first.
    pub(super) async fn list_dead(
        &self,
        queue: &str,
        after: Option<u64>,
        most: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let keys = self.layout.queue(queue);
        let numbers = self.numbers(&keys, after, most).await?;
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let step = Step::new("HMGET", &keys.reasons).arg(&numbers);
        let reasons: Vec<Option<Vec<u8>>> = self.link.ask(step, Kept::Here).await?;
        let dead = numbers.into_iter().zip(reasons).map(|(number, reason)| {
            let Reason { id, at, why, failures } = Reason::of(reason);
            DeadLetter { number, id, at: Moment::from_millis(at), why, failures }
        });
        Ok(dead.collect())
    }

    async fn numbers(
        &self,
        keys: &Keys,
        after: Option<u64>,
        most: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let from = after.map_or("-inf".to_owned(), |number| format!("({number}"));
        let step = Step::new("ZRANGEBYSCORE", &keys.dead).arg(from).arg("+inf");
        self.link.ask(step.arg("LIMIT").arg(0).arg(most), Kept::Here).await
    }

    /// Some of the dead as they are, and the number after which the next are.
    async fn corpses(
        &self,
        keys: &Keys,
        after: Option<u64>,
        wanted: &Wanted,
    ) -> Result<(Vec<Corpse>, Option<u64>), StoreError> {
        let numbers = self.numbers(keys, after, PAGE).await?;
        let Some(last) = numbers.last().copied() else { return Ok((Vec::new(), None)) };
        let steps = vec![
            Step::new("HMGET", &keys.reasons).arg(&numbers),
            Step::new("HMGET", &keys.corpses).arg(&numbers),
        ];
        let mut answers = self.link.run(steps, Kept::Here).await?;
        let reasons: Vec<Option<Vec<u8>>> = next(&mut answers)?;
        let members: Vec<Option<Vec<u8>>> = next(&mut answers)?;
        let all = numbers.into_iter().zip(reasons).zip(members);
        let corpses = all.map(|((number, reason), member)| {
            let (id, member) = (Reason::of(reason).id, member.unwrap_or_default());
            Corpse { number, id, member }
        });
        Ok((corpses.filter(|corpse| wanted.has(&corpse.id)).collect(), Some(last)))
    }

    /// Lets the dead wait again.
    pub(super) async fn let_wait_again(
        &self,
        queue: &str,
        which: Selection,
        now: Moment,
    ) -> Result<Redriven, StoreError> {
        let (keys, wanted) = (self.layout.queue(queue), Wanted::from(which));
        let (mut redriven, mut after) = (Redriven::default(), None);
        loop {
            let (corpses, last) = self.corpses(&keys, after, &wanted).await?;
            for corpse in corpses {
                let waits = match revivable(&corpse, &keys) {
                    Ok(letter) => self.let_one_wait(&keys, (&corpse, &letter), now).await?,
                    Err(why) => redriven.stays(&corpse.id, why),
                };
                redriven.requeued += u64::from(waits);
            }
            if last.is_none() {
                break;
            }
            after = last;
        }
        if redriven.requeued > 0 {
            self.link.run(vec![Step::new("PUBLISH", NUDGE).arg(queue)], Kept::Here).await?;
        }
        Ok(redriven)
    }

    async fn let_one_wait(
        &self,
        keys: &Keys,
        (corpse, letter): (&Corpse, &Letter),
        now: Moment,
    ) -> Result<bool, StoreError> {
        let text = String::from_utf8_lossy(&corpse.member);
        let deadline = now.after(letter.message.deadline.since(letter.message.created));
        let token = token::request();
        let Ok(halves) = envelope::anew(&text, &token, (now, deadline)) else { return Ok(false) };
        let (id, secs) = (&letter.message.id, deadline_secs(deadline));
        let (sequence, receipt) = (keys.sequence(secs), keys.receipt(id));
        let names = [&keys.dead, &keys.reasons, &keys.corpses, &sequence, &keys.pending, &receipt];
        let life = |grace| left(deadline, now, grace);
        let step = Step::script(&SCRIPTS.redrive, &names.map(String::as_str))
            .arg(corpse.number)
            .arg(&halves.before)
            .arg(&halves.after)
            .arg(secs)
            .arg(life(SEQUENCE_GRACE))
            .arg(&letter.token)
            .arg(&token)
            .arg(life(RECEIPT_GRACE));
        if !self.link.ask::<bool>(step, Kept::Safely).await? {
            return Ok(false);
        }
        let mut marks =
            vec![Step::new("SET", &keys::active(id)).arg(&token).arg("EX").arg(life(GRACE))];
        if let Payload::Apart(body) = &letter.body {
            marks.push(Step::new("EXPIRE", body).arg(life(GRACE)));
        }
        self.link.run(marks, Kept::Here).await?;
        Ok(true)
    }

    /// Forgets the dead.
    pub(super) async fn forget_dead(
        &self,
        queue: &str,
        which: Selection,
    ) -> Result<u64, StoreError> {
        let (keys, wanted) = (self.layout.queue(queue), Wanted::from(which));
        let (mut count, mut after) = (0, None);
        loop {
            let (corpses, last) = self.corpses(&keys, after, &wanted).await?;
            count += self.forget_these(&keys, &corpses).await?;
            if last.is_none() {
                return Ok(count);
            }
            after = last;
        }
    }

    /// Forgets some of the dead with their bodies; says how many were still there: somebody else
    /// may have been quicker, perhaps to let one wait again.
    async fn forget_these(&self, keys: &Keys, corpses: &[Corpse]) -> Result<u64, StoreError> {
        let (graves, bodies): (Vec<Step>, Vec<Option<Step>>) =
            corpses.iter().map(|corpse| purge(corpse, keys)).unzip();
        let (mut count, mut left) = (0, Vec::new());
        for (gone, body) in self.link.run(graves, Kept::Safely).await?.zip(bodies) {
            if said::<bool>(gone)? {
                count += 1;
                left.extend(body);
            }
        }
        self.link.run(left, Kept::Safely).await?;
        Ok(count)
    }
}

/// The message that one of the dead is, or why it cannot wait again.
fn revivable(corpse: &Corpse, keys: &Keys) -> Result<Letter, String> {
    let text = String::from_utf8_lossy(&corpse.member);
    // It would be back at once.
    let letter = envelope::read(&text, &keys.pending)
        .map_err(|why| format!("it cannot be read: {why}; purge it, and submit it mended"))?;
    match letter.message.route.starts_with(BATCH_ROUTE) {
        true => Err(ENDED_WITH_BATCH.into()),
        false => Ok(letter),
    }
}

/// What removes one of the dead, and the body that was kept apart from it.
fn purge(corpse: &Corpse, keys: &Keys) -> (Step, Option<Step>) {
    let letter = envelope::read(&String::from_utf8_lossy(&corpse.member), &keys.pending).ok();
    let token = letter.as_ref().map_or("", |letter| letter.token.as_str());
    let receipt = keys.receipt(&corpse.id);
    let names = [&keys.dead, &keys.reasons, &keys.corpses, &receipt];
    let step = Step::script(&SCRIPTS.purge, &names.map(String::as_str));
    let body = match letter.as_ref().map(|letter| &letter.body) {
        Some(Payload::Apart(body)) => Some(Step::new("DEL", body)),
        _ => None,
    };
    (step.arg(corpse.number).arg(token), body)
}

// === impl Wanted ===

impl Wanted {
    fn has(&self, id: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(ids) => ids.contains(id),
        }
    }
}

impl From<Selection> for Wanted {
    fn from(which: Selection) -> Self {
        match which {
            Selection::All => Self::All,
            Selection::Ids(ids) => Self::These(ids.into_iter().collect()),
        }
    }
}

// === impl Reason ===

impl Reason {
    /// What is kept, if it can be read.
    fn of(text: Option<Vec<u8>>) -> Self {
        serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default()
    }
}
