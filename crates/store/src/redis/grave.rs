//! The dead: messages that failed too often, or that nobody can read.

use serde::Deserialize;

use super::envelope::{self, Payload, deadline_secs};
use super::keys::{self, Keys, NUDGE};
use super::link::{Kept, next};
use super::scripts::SCRIPTS;
use super::step::Step;
use super::submit::{GRACE, RECEIPT_GRACE, SEQUENCE_GRACE, left};
use super::{RedisStore, token};
use crate::error::StoreError;
use crate::message::BATCH_ROUTE;
use crate::moment::Moment;
use crate::{Dead, Which};

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
    ) -> Result<Vec<Dead>, StoreError> {
        let keys = self.layout.queue(queue);
        let numbers = self.numbers(&keys, after, most).await?;
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let step = Step::new("HMGET", &keys.reasons).arg(&numbers);
        let reasons: Vec<Option<Vec<u8>>> = self.link.ask(step, Kept::Here).await?;
        let dead = numbers.into_iter().zip(reasons).map(|(number, reason)| {
            let Reason { id, at, why, failures } = Reason::of(reason);
            Dead { number, id, at: Moment::from_millis(at), why, failures }
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
        which: &Which,
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
        let wanted = corpses.filter(|corpse| match which {
            Which::All => true,
            Which::Ids(ids) => ids.contains(&corpse.id),
        });
        Ok((wanted.collect(), Some(last)))
    }

    /// Lets the dead wait again.
    pub(super) async fn let_wait_again(
        &self,
        queue: &str,
        which: Which,
        now: Moment,
    ) -> Result<u64, StoreError> {
        let keys = self.layout.queue(queue);
        let (mut count, mut after) = (0, None);
        loop {
            let (corpses, last) = self.corpses(&keys, after, &which).await?;
            for corpse in corpses {
                count += u64::from(self.let_one_wait(&keys, &corpse, now).await?);
            }
            if last.is_none() {
                break;
            }
            after = last;
        }
        if count > 0 {
            self.link.run(vec![Step::new("PUBLISH", NUDGE).arg(queue)], Kept::Here).await?;
        }
        Ok(count)
    }

    async fn let_one_wait(
        &self,
        keys: &Keys,
        corpse: &Corpse,
        now: Moment,
    ) -> Result<bool, StoreError> {
        let text = String::from_utf8_lossy(&corpse.member);
        let Ok(letter) = envelope::read(&text, &keys.pending) else {
            // It would be back at once.
            return Ok(false);
        };
        if letter.message.route.starts_with(BATCH_ROUTE) {
            return Ok(false);
        }
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
    pub(super) async fn forget_dead(&self, queue: &str, which: Which) -> Result<u64, StoreError> {
        let keys = self.layout.queue(queue);
        let (mut count, mut after) = (0, None);
        loop {
            let (corpses, last) = self.corpses(&keys, after, &which).await?;
            let steps = corpses.iter().flat_map(|corpse| purge(corpse, &keys)).collect();
            self.link.run(steps, Kept::Safely).await?;
            count += corpses.len() as u64;
            if last.is_none() {
                return Ok(count);
            }
            after = last;
        }
    }
}

/// What removes one of the dead, and what went with it.
fn purge(corpse: &Corpse, keys: &Keys) -> Vec<Step> {
    let letter = envelope::read(&String::from_utf8_lossy(&corpse.member), &keys.pending).ok();
    let token = letter.as_ref().map_or("", |letter| letter.token.as_str());
    let receipt = keys.receipt(&corpse.id);
    let names = [&keys.dead, &keys.reasons, &keys.corpses, &receipt];
    let step = Step::script(&SCRIPTS.purge, &names.map(String::as_str));
    let mut steps = vec![step.arg(corpse.number).arg(token)];
    if let Some(Payload::Apart(body)) = letter.map(|letter| letter.body) {
        steps.push(Step::new("DEL", &body));
    }
    steps
}

// === impl Reason ===

impl Reason {
    /// What is kept, if it can be read.
    fn of(text: Option<Vec<u8>>) -> Self {
        serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default()
    }
}
