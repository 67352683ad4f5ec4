//! Taking messages, and holding on to them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::envelope::{Letter, Payload, seconds};
use super::keys::{self, Keys, Route};
use super::link::{Kept, next};
use super::look::Seen;
use super::scripts::SCRIPTS;
use super::step::Step;
use super::{RedisStore, token};
use crate::error::{ErrorKind, StoreError};
use crate::message::Body;
use crate::moment::Moment;
use crate::{Claim, ClaimRef, ClaimRequest, Standing};

/// The most that one claim takes, so that its bodies fit into memory.
const CLAIM: usize = 256;

/// The most that one script takes: others wait while it runs.
const SCRIPT: usize = 32;

/// The fewest that are looked at for a claim, of which some may be another tenant's.
const PAGE: usize = 32;

/// How often it is tried again when others were quicker.
const ROUNDS: usize = 3;

/// How long after its deadline a claim may last.
const GRACE: Duration = Duration::from_secs(300);

/// What is known of a claimed message without looking: the key of its [`ClaimRef`].
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Ticket {
    pub(super) id: String,
    /// Which generation of the id it is.
    pub(super) token: String,
    /// Where its result goes.
    pub(super) list: String,
    /// For how long that is kept.
    pub(super) ttl: u64,
    /// Where its body is, if apart.
    pub(super) body: Option<String>,
    /// How often it had failed before.
    pub(super) failures: u32,
}

/// A message that was taken.
struct Taken {
    letter: Letter,
    owner: String,
    count: u32,
}

/// What was found beside a message.
struct Found {
    cancelled: bool,
    body: Option<Vec<u8>>,
}

fn claim(queue: &str, taken: Taken, ticket: &Ticket, found: Found) -> Result<Claim, StoreError> {
    let Taken { letter, owner, .. } = taken;
    let mut message = letter.message;
    message.body = match letter.body {
        Payload::Inline(bytes) => Body::Bytes(bytes),
        Payload::Apart(_) => found.body.map_or(Body::Gone, |bytes| Body::Bytes(bytes.into())),
        Payload::Gone => Body::Gone,
    };
    let held = ClaimRef { queue: queue.to_owned(), key: ticket.key()?, token: owner };
    Ok(Claim { reference: held, message, failures: ticket.failures, cancelled: found.cancelled })
}

// === impl Ticket ===

impl Ticket {
    /// What a claim says about itself, if it is one of ours.
    pub(super) fn of(held: &ClaimRef) -> Option<Self> {
        serde_json::from_str(&held.key).ok()
    }

    fn new(letter: &Letter, count: u32, route: Route) -> Self {
        let body = match &letter.body {
            Payload::Apart(key) => Some(key.clone()),
            Payload::Inline(_) | Payload::Gone => None,
        };
        let (id, token) = (letter.message.id.clone(), letter.token.clone());
        let failures = letter.retries.max(count.saturating_sub(1));
        Self { id, token, list: route.list, ttl: route.ttl, body, failures }
    }

    fn key(&self) -> Result<String, StoreError> {
        serde_json::to_string(self)
            .map_err(|error| StoreError::new(ErrorKind::Broken, error.to_string()))
    }

    /// What the server knows the claim by.
    pub(super) fn claim(&self) -> String {
        if self.token.is_empty() { self.id.clone() } else { format!("{}\0{}", self.id, self.token) }
    }

    /// Asks which generation somebody wants cancelled.
    pub(super) fn cancelled(&self) -> Step {
        Step::new("GET", &keys::cancel(&self.id))
    }

    /// Whether that is this one.
    pub(super) fn is(&self, cancelled: Option<&str>) -> bool {
        !self.token.is_empty() && cancelled == Some(&self.token)
    }
}

// === impl RedisStore ===

impl RedisStore {
    /// Takes messages of one lane.
    pub(super) async fn take(
        &self,
        want: ClaimRequest,
        now: Moment,
    ) -> Result<Vec<Claim>, StoreError> {
        let (keys, most) = (self.layout.queue(&want.queue), want.limit.min(CLAIM));
        let mut taken = Vec::new();
        for _ in 0..ROUNDS {
            let chosen = self.choose(&keys, &want.tenant, most - taken.len(), now).await?;
            let wanted = chosen.len();
            let got = self.grab(&keys, chosen, want.until, now).await?;
            let raced = got.len() < wanted;
            taken.extend(got);
            if !raced || taken.len() >= most {
                break;
            }
        }
        self.open(&want.queue, taken).await
    }

    /// The first messages of a tenant. Those after the window are not seen.
    async fn choose(
        &self,
        keys: &Keys,
        tenant: &str,
        most: usize,
        now: Moment,
    ) -> Result<Vec<Seen>, StoreError> {
        let (mut chosen, mut names, mut from) = (Vec::new(), BTreeSet::new(), 0);
        while chosen.len() < most && from < Self::WINDOW {
            let to = (from + (most - chosen.len()).max(PAGE)).min(Self::WINDOW);
            let seen = self.peek(keys, from..to, now).await?;
            if seen.is_empty() {
                break;
            }
            from += seen.len();
            let of_tenant = seen.into_iter().filter(|seen| seen.letter.message.tenant == tenant);
            // Two of one name would be one claim.
            let new = of_tenant.filter(|seen| names.insert(seen.letter.claim()));
            chosen.extend(new);
        }
        chosen.truncate(most);
        Ok(chosen)
    }

    /// Takes what nobody else has taken since.
    async fn grab(
        &self,
        keys: &Keys,
        chosen: Vec<Seen>,
        until: Moment,
        now: Moment,
    ) -> Result<Vec<Taken>, StoreError> {
        let names = [&keys.pending, &keys.claimed, &keys.owners, &keys.index, &keys.deliveries];
        let mut taken = Vec::with_capacity(chosen.len());
        let mut chosen = chosen.into_iter().peekable();
        while chosen.peek().is_some() {
            let part: Vec<(Seen, String)> =
                chosen.by_ref().take(SCRIPT).map(|seen| (seen, token::owner())).collect();
            let mut step = Step::script(&SCRIPTS.claim, &names.map(String::as_str));
            for (seen, owner) in &part {
                let deadline = seen.letter.message.deadline;
                let ends = until.min(deadline.max(now).after(GRACE));
                // Without a generation another message may have the same name.
                let alone = u8::from(seen.letter.token.is_empty());
                let claim = seen.letter.claim();
                step = step.arg(claim).arg(&seen.member).arg(owner).arg(seconds(ends)).arg(alone);
            }
            let counts: Vec<u32> = self.link.ask(step, Kept::Here).await?;
            let won = part.into_iter().zip(counts).filter(|(_, count)| *count > 0);
            taken.extend(won.map(|((seen, owner), count)| Taken {
                letter: seen.letter,
                owner,
                count,
            }));
        }
        Ok(taken)
    }

    /// Fetches what else belongs to messages that were taken.
    async fn open(&self, queue: &str, taken: Vec<Taken>) -> Result<Vec<Claim>, StoreError> {
        let opened: Vec<(Taken, Ticket)> = taken
            .into_iter()
            .map(|taken| {
                let ticket = self.ticket(queue, &taken);
                (taken, ticket)
            })
            .collect();
        let found = match self.fetch(&opened).await {
            // The keys of one message may be unusable: that is no affair of the others.
            Err(error) if error.kind == ErrorKind::Broken => self.fetch_each(&opened).await,
            found => found?,
        };
        let claims = opened.into_iter().zip(found);
        claims.map(|((taken, ticket), found)| claim(queue, taken, &ticket, found)).collect()
    }

    async fn fetch(&self, opened: &[(Taken, Ticket)]) -> Result<Vec<Found>, StoreError> {
        let mut steps = Vec::new();
        for (_, ticket) in opened {
            steps.push(ticket.cancelled());
            steps.extend(ticket.body.as_ref().map(|key| Step::new("GET", key)));
        }
        let mut answers = self.link.run(steps, Kept::Here).await?;
        let found = opened.iter().map(|(_, ticket)| {
            let cancelled: Option<String> = next(&mut answers)?;
            let body = match &ticket.body {
                Some(_) => next(&mut answers)?,
                None => None,
            };
            Ok(Found { cancelled: ticket.is(cancelled.as_deref()), body })
        });
        found.collect()
    }

    /// The same one by one. Of what cannot be read there is nothing.
    async fn fetch_each(&self, opened: &[(Taken, Ticket)]) -> Vec<Found> {
        let mut all = Vec::with_capacity(opened.len());
        for (_, ticket) in opened {
            let cancelled: Option<String> =
                self.link.ask(ticket.cancelled(), Kept::Here).await.unwrap_or_default();
            let body = match &ticket.body {
                Some(key) => self.link.ask(Step::new("GET", key), Kept::Here).await,
                None => Ok(None),
            };
            let cancelled = ticket.is(cancelled.as_deref());
            all.push(Found { cancelled, body: body.unwrap_or_default() });
        }
        all
    }

    fn ticket(&self, queue: &str, Taken { letter, count, .. }: &Taken) -> Ticket {
        let wish = &letter.message.route;
        let route = match letter.fixed_ttl {
            Some(ttl) => Route { list: wish.clone(), ttl },
            None => self.layout.route(queue, wish),
        };
        Ticket::new(letter, *count, route)
    }

    /// How claims stand, which are held longer if that is wanted.
    pub(super) async fn check_claims(
        &self,
        held: Vec<ClaimRef>,
        until: Option<Moment>,
    ) -> Result<Vec<Standing>, StoreError> {
        let tickets: Vec<Option<Ticket>> = held.iter().map(Ticket::of).collect();
        let mut steps = Vec::new();
        for (held, ticket) in held.iter().zip(&tickets) {
            let Some(ticket) = ticket else { continue };
            let (keys, claim) = (self.layout.queue(&held.queue), ticket.claim());
            steps.push(match until {
                Some(until) => Step::script(&SCRIPTS.renew, &[&keys.owners, &keys.index])
                    .arg(claim)
                    .arg(&held.token)
                    .arg(seconds(until)),
                None => Step::new("HGET", &keys.owners).arg(claim),
            });
            steps.push(ticket.cancelled());
        }
        let mut answers = self.link.run(steps, Kept::Here).await?;
        let standings = held.iter().zip(&tickets).map(|(held, ticket)| {
            let Some(ticket) = ticket else { return Ok(Standing::Lost) };
            let ours = match until {
                Some(_) => next::<bool>(&mut answers)?,
                None => next::<Option<String>>(&mut answers)?.as_ref() == Some(&held.token),
            };
            let cancelled: Option<String> = next(&mut answers)?;
            Ok(match (ours, ticket.is(cancelled.as_deref())) {
                (false, _) => Standing::Lost,
                (true, true) => Standing::Cancelled,
                (true, false) => Standing::Held,
            })
        });
        standings.collect()
    }

    /// Wants a message cancelled in the generation that is under way.
    pub(super) async fn mark_cancelled(&self, id: &str) -> Result<bool, StoreError> {
        /// How long the wish is kept, in seconds: seven days, as llm-d-async does.
        const LIFE: u64 = 604_800;
        let step = Step::new("GET", &keys::active(id));
        let Some(token) = self.link.ask::<Option<String>>(step, Kept::Here).await? else {
            return Ok(false);
        };
        let step = Step::new("SET", &keys::cancel(id)).arg(token).arg("EX").arg(LIFE);
        let nudge = Step::new("PUBLISH", keys::NUDGE).arg("");
        self.link.run(vec![step, nudge], Kept::Safely).await?;
        Ok(true)
    }
}
