//! Ends of claims: a result, a grave, or another try.

use super::claim::Ticket;
use super::envelope::{self, seconds};
use super::keys::{self, Keys};
use super::link::{Kept, next};
use super::look;
use super::scripts::SCRIPTS;
use super::step::Step;
use super::{RedisStore, outcome, token};
use crate::error::{ErrorKind, StoreError};
use crate::message::Outcome;
use crate::moment::Moment;
use crate::{ClaimRef, Release};

/// How long it is known that a claim has ended, in seconds: longer than anybody tries again.
const ENDED: u64 = 60;

/// How long a message is known after it has ended, in seconds.
const RECEIPT: u64 = 3600;

/// How long it is known that a result was kept apart from its queue, in seconds: longer than any
/// lease, after which somebody does the work again.
const PUSHED: u64 = 86_400;

/// Where a result goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    /// Where its message says.
    AsWished,
    OfQueue,
}

/// A claim that is to end.
struct Ending {
    held: ClaimRef,
    ticket: Ticket,
    keys: Keys,
    claim: String,
    /// Whether the result goes into a list that a script of the queue can reach.
    along: bool,
}

fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::new(ErrorKind::Broken, format!("a message cannot be written: {error}"))
}

// === impl RedisStore ===

impl RedisStore {
    /// A claim that is to end, if it is one of ours. A list that cannot be used is replaced by
    /// that of the queue: its name comes from whoever sent the message.
    fn ending(&self, held: ClaimRef, list: List) -> Option<Ending> {
        let (mut ticket, keys) = (Ticket::of(&held)?, self.layout.queue(&held.queue));
        if list == List::OfQueue {
            let route = self.layout.route(&held.queue, "");
            (ticket.list, ticket.ttl) = (route.list, route.ttl);
        }
        let along = self.layout.together(&ticket.list, &keys.owners);
        Some(Ending { claim: ticket.claim(), held, ticket, keys, along })
    }

    /// Keeps the result and forgets the message.
    pub(super) async fn end(&self, held: ClaimRef, outcome: Outcome) -> Result<bool, StoreError> {
        match self.try_end(held.clone(), outcome.clone(), List::AsWished).await {
            Err(error) if error.kind == ErrorKind::Broken => {
                self.try_end(held, outcome, List::OfQueue).await
            }
            ended => ended,
        }
    }

    async fn try_end(
        &self,
        held: ClaimRef,
        outcome: Outcome,
        list: List,
    ) -> Result<bool, StoreError> {
        let Some(ending) = self.ending(held, list) else { return Ok(false) };
        let result = ending.result(outcome)?;
        if !ending.along && !self.push(&ending, &result).await? {
            return Ok(false);
        }
        let (ended, receipt) = ending.marks();
        let Ending { held, ticket, keys, claim, along } = &ending;
        let mut names: Vec<&str> =
            vec![&keys.claimed, &keys.owners, &keys.index, &keys.deliveries, &ended, &receipt];
        names.extend(along.then_some(ticket.list.as_str()));
        let step = Step::script(&SCRIPTS.complete, &names)
            .arg(claim)
            .arg(&held.token)
            .arg(token::owner())
            .arg(ENDED)
            .arg(&ticket.token)
            .arg(RECEIPT)
            .arg(&result)
            .arg(ticket.ttl);
        let ours = self.link.ask(step, Kept::Safely).await?;
        if ours {
            self.forget(ticket, true).await;
        }
        Ok(ours)
    }

    /// Keeps the result, and the message among the dead.
    pub(super) async fn lay_to_rest(
        &self,
        held: ClaimRef,
        outcome: Outcome,
        now: Moment,
    ) -> Result<bool, StoreError> {
        let wished = (outcome.clone(), List::AsWished);
        match self.try_lay_to_rest(held.clone(), wished, now).await {
            Err(error) if error.kind == ErrorKind::Broken => {
                self.try_lay_to_rest(held, (outcome, List::OfQueue), now).await
            }
            buried => buried,
        }
    }

    async fn try_lay_to_rest(
        &self,
        held: ClaimRef,
        (outcome, list): (Outcome, List),
        now: Moment,
    ) -> Result<bool, StoreError> {
        let Some(ending) = self.ending(held, list) else { return Ok(false) };
        let failures = ending.ticket.failures.saturating_add(1);
        let reason = look::reason(&ending.ticket.id, now, &outcome.why(), failures);
        let result = ending.result(outcome)?;
        if !ending.along && !self.push(&ending, &result).await? {
            return Ok(false);
        }
        let (ended, receipt) = ending.marks();
        let Ending { held, ticket, keys, claim, along } = &ending;
        let claimed = [&keys.claimed, &keys.owners, &keys.index, &keys.deliveries];
        let graves = [&ended, &receipt, &keys.dead, &keys.reasons, &keys.corpses, &keys.count];
        let mut names: Vec<&str> = claimed.into_iter().chain(graves).map(String::as_str).collect();
        names.extend(along.then_some(ticket.list.as_str()));
        let step = Step::script(&SCRIPTS.dead_letter, &names)
            .arg(claim)
            .arg(&held.token)
            .arg(token::owner())
            .arg(ENDED)
            .arg(&ticket.token)
            .arg(reason)
            .arg(&result)
            .arg(ticket.ttl);
        if let Some(body) = &ticket.body {
            // It must be there when somebody lets the message wait again, whenever that is.
            self.link.run(vec![Step::new("PERSIST", body)], Kept::Safely).await?;
        }
        let ours = self.link.ask(step, Kept::Safely).await?;
        if ours {
            self.forget(ticket, false).await;
        }
        Ok(ours)
    }

    /// Keeps a result in a list that is in another slot than the queue. `false` when the claim was
    /// lost.
    async fn push(&self, ending: &Ending, result: &str) -> Result<bool, StoreError> {
        let Ending { held, ticket, keys, claim, .. } = ending;
        let step = Step::new("HGET", &keys.owners).arg(claim);
        let owner: Option<String> = self.link.ask(step, Kept::Here).await?;
        if owner.as_ref() != Some(&held.token) {
            return Ok(false);
        }
        // Without a generation the next message of that id is not this one.
        let name = if ticket.token.is_empty() { &held.token } else { claim };
        let mark = keys::pushed(&ticket.list, name);
        let step = Step::script(&SCRIPTS.push, &[&ticket.list, &mark])
            .arg(result)
            .arg(ticket.ttl)
            .arg(PUSHED);
        self.link.ask::<bool>(step, Kept::Safely).await?;
        Ok(true)
    }

    /// Removes what went with a message that has ended. What stays runs out by itself, so that
    /// nobody needs to hear of a failure.
    async fn forget(&self, ticket: &Ticket, body: bool) {
        let mut steps = Vec::new();
        if !ticket.token.is_empty() {
            for mark in [keys::active(&ticket.id), keys::cancel(&ticket.id)] {
                steps.push(Step::script(&SCRIPTS.forget, &[&mark]).arg(&ticket.token));
            }
        }
        let body = ticket.body.as_ref().filter(|_| body);
        steps.extend(body.map(|key| Step::new("DEL", key)));
        _ = self.link.run(steps, Kept::Here).await;
    }

    /// Gives a message back, now or for later.
    pub(super) async fn give_back(
        &self,
        held: ClaimRef,
        back: Release,
        now: Moment,
    ) -> Result<bool, StoreError> {
        let Some(ending) = self.ending(held, List::AsWished) else { return Ok(false) };
        let (ended, _) = ending.marks();
        let Ending { held, ticket, keys, claim, .. } = &ending;
        let steps = vec![
            Step::new("HGET", &keys.owners).arg(claim),
            Step::new("HGET", &keys.claimed).arg(claim),
            ticket.cancelled(),
        ];
        let mut answers = self.link.run(steps, Kept::Here).await?;
        let owner: Option<String> = next(&mut answers)?;
        let member: Option<String> = next(&mut answers)?;
        let cancelled: Option<String> = next(&mut answers)?;
        let Some(member) = member.filter(|_| owner.as_ref() == Some(&held.token)) else {
            return Ok(false);
        };
        let letter = envelope::read(&member, &held.queue).map_err(|why| {
            StoreError::new(ErrorKind::Broken, format!("a claimed message: {why}"))
        })?;
        let member =
            envelope::again(&member, &held.queue, back.failed).map_err(|error| broken(&error))?;
        // Whoever wants it cancelled does not want to wait until it is due.
        let later = back.due > now && !ticket.is(cancelled.as_deref());
        let (target, score) =
            if later { (&keys.retries, seconds(back.due)) } else { (&keys.pending, letter.score) };
        let names = [&keys.claimed, &keys.owners, &keys.index, &keys.deliveries, &ended, target];
        let step = Step::script(&SCRIPTS.release, &names.map(String::as_str))
            .arg(claim)
            .arg(&held.token)
            .arg(token::owner())
            .arg(ENDED)
            .arg(member)
            .arg(score)
            .arg(u8::from(back.failed));
        let nudge = Step::new("PUBLISH", keys::NUDGE).arg(&held.queue);
        next(&mut self.link.run(vec![step, nudge], Kept::Here).await?)
    }
}

// === impl Ending ===

impl Ending {
    fn result(&self, outcome: Outcome) -> Result<String, StoreError> {
        outcome::write(outcome.stored(&self.ticket.id), &self.ticket.token)
            .map_err(|error| broken(&error))
    }

    /// The keys that say that the claim has ended, and that the message is known.
    fn marks(&self) -> (String, String) {
        (self.keys.ended(&self.held.token), self.keys.receipt(&self.ticket.id))
    }
}
