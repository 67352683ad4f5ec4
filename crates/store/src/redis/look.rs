//! What can be seen without taking it: who waits, how many there are, and how the server is set.

use std::ops::Range;

use super::RedisStore;
use super::envelope::{self, Letter};
use super::keys::Keys;
use super::link::{Kept, Link, next};
use super::scrap;
use super::scripts::SCRIPTS;
use super::step::Step;
use crate::error::{ErrorKind, StoreError};
use crate::moment::Moment;
use crate::{Depth, Lane};

/// How many retries of all queues are looked at to count those of one.
const RETRIES_COUNTED: u64 = 4096;

/// A message that waits.
pub(super) struct Seen {
    pub(super) member: String,
    pub(super) letter: Letter,
}

/// What of the server's settings may lose messages. One that is of another kind than it was said to
/// be is an error.
pub(super) async fn cautions(link: &Link) -> Result<Vec<String>, StoreError> {
    let info: Result<String, StoreError> = link.ask(Step::new("INFO", "all"), Kept::Here).await;
    let info = match info {
        Ok(info) => info,
        Err(error) if error.kind == ErrorKind::Unavailable => return Err(error),
        // A user who may not ask is not told.
        Err(_) => return Ok(Vec::new()),
    };
    let field = |name: &str| {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(field, _)| *field == name).map(|(_, value)| value.trim()).next()
    };
    // Redis and Valkey call it differently.
    let mode = field("redis_mode").or_else(|| field("server_mode"));
    if !link.cluster() && mode == Some("cluster") {
        let text = "this Redis is a cluster, which must be said: cluster = true";
        return Err(StoreError::new(ErrorKind::Invalid, text));
    }
    let mut cautions = Vec::new();
    if field("aof_enabled") == Some("0") {
        cautions.push(
            "Redis keeps no log of writes (appendonly no): what was accepted since its last \
             snapshot is lost when it ends"
                .to_owned(),
        );
    }
    let (limit, policy) = (field("maxmemory"), field("maxmemory_policy"));
    if limit.is_some_and(|limit| limit != "0") && policy.is_some_and(|name| name != "noeviction") {
        cautions.push(format!(
            "Redis throws keys away when its memory is full (maxmemory-policy {}), messages among \
             them: set noeviction",
            policy.unwrap_or_default()
        ));
    }
    Ok(cautions)
}

/// Why one of the dead is there.
pub(super) fn reason(id: &str, now: Moment, why: &str, failures: u32) -> String {
    let at = now.millis();
    serde_json::json!({ "id": id, "at": at, "why": why, "failures": failures }).to_string()
}

// === impl RedisStore ===

impl RedisStore {
    /// How many of those that wait are looked at, from the earliest deadline on.
    pub(super) const WINDOW: usize = 512;

    /// Messages that wait, from one place on. Those that cannot be read go to the dead.
    pub(super) async fn peek(
        &self,
        keys: &Keys,
        places: Range<usize>,
        now: Moment,
    ) -> Result<Vec<Seen>, StoreError> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let step = Step::new("ZRANGE", &keys.pending).arg(places.start).arg(places.end - 1);
        let members: Vec<Vec<u8>> = self.link.ask(step, Kept::Here).await?;
        let (mut seen, mut spoilt) = (Vec::with_capacity(members.len()), Vec::new());
        for member in members {
            match read(member, &keys.pending) {
                Ok(letter) => seen.push(letter),
                Err((member, why)) => spoilt.push((member, why)),
            }
        }
        self.spoil(keys, &keys.pending, spoilt, now).await?;
        Ok(seen)
    }

    /// Lays what cannot be read among the dead.
    pub(super) async fn spoil(
        &self,
        keys: &Keys,
        from: &str,
        spoilt: Vec<(Vec<u8>, String)>,
        now: Moment,
    ) -> Result<(), StoreError> {
        let names = [from, &keys.dead, &keys.reasons, &keys.corpses, &keys.count];
        let steps = spoilt.into_iter().map(|(member, why)| {
            let (id, begins) = scrap::of(&member);
            let id = id.unwrap_or_else(|| format!("unreadable-{}", super::token::owner()));
            let why = format!("it cannot be read: {why}; it begins with {begins}");
            let reason = reason(&id, now, &why, 0);
            Step::script(&SCRIPTS.spoil, &names).arg(member).arg(reason)
        });
        self.link.run(steps.collect(), Kept::Safely).await?;
        Ok(())
    }

    /// Whose messages wait among the first of a queue.
    pub(super) async fn look_for_lanes(
        &self,
        queue: &str,
        now: Moment,
    ) -> Result<Vec<Lane>, StoreError> {
        let mut lanes: Vec<Lane> = Vec::new();
        for seen in self.peek(&self.layout.queue(queue), 0..Self::WINDOW, now).await? {
            let message = seen.letter.message;
            match lanes.iter_mut().find(|lane| lane.tenant == message.tenant) {
                Some(lane) => lane.waiting += 1,
                None => {
                    let (tenant, deadline) = (message.tenant, message.deadline);
                    lanes.push(Lane { tenant, waiting: 1, deadline });
                }
            }
        }
        Ok(lanes)
    }

    /// How much of what a queue has.
    pub(super) async fn count(&self, queue: &str) -> Result<Depth, StoreError> {
        let keys = self.layout.queue(queue);
        let steps = vec![
            Step::new("ZCARD", &keys.pending),
            Step::new("ZCARD", &keys.retries),
            Step::new("ZCARD", &keys.index),
            Step::new("ZCARD", &keys.dead),
        ];
        let mut answers = self.link.run(steps, Kept::Here).await?;
        let pending = next(&mut answers)?;
        let mut retry: u64 = next(&mut answers)?;
        let (claimed, dead) = (next(&mut answers)?, next(&mut answers)?);
        if retry > 0 && self.layout.shared_retries() {
            retry = self.count_retries(&keys, retry).await?;
        }
        Ok(Depth { pending, retry, claimed, dead })
    }

    /// How many of the retries of all queues are those of one: exactly, or by the first of them.
    async fn count_retries(&self, keys: &Keys, all: u64) -> Result<u64, StoreError> {
        let step = Step::new("ZRANGE", &keys.retries).arg(0).arg(RETRIES_COUNTED - 1);
        let members: Vec<Vec<u8>> = self.link.ask(step, Kept::Here).await?;
        let looked = members.len() as u64;
        let ours = members.into_iter().filter_map(|member| read(member, "").ok());
        let ours = ours
            .filter(|seen| self.home(&seen.letter, &keys.retries, &keys.pending) == keys.pending);
        let ours = ours.count() as u64;
        Ok(if looked < RETRIES_COUNTED { ours } else { ours * all / looked })
    }

    /// The queue of a message that waits in this set for another try, which some queue has found.
    pub(super) fn home(&self, letter: &Letter, retries: &str, here: &str) -> String {
        let known = Some(&letter.queue_id).filter(|name| self.layout.knows(name));
        let named = Some(&letter.origin).filter(|name| !name.is_empty()).or(known);
        let reached = named.filter(|name| self.layout.together(retries, name));
        reached.map_or(here, String::as_str).to_owned()
    }
}

/// A message that lies somewhere, or why it is none.
pub(super) fn read(member: Vec<u8>, queue: &str) -> Result<Seen, (Vec<u8>, String)> {
    let member = String::from_utf8(member)
        .map_err(|error| (error.into_bytes(), "it is not UTF-8".to_owned()))?;
    match envelope::read(&member, queue) {
        Ok(letter) => Ok(Seen { member, letter }),
        Err(why) => Err((member.into_bytes(), why)),
    }
}
