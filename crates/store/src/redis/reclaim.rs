//! [`Store::reclaim`](crate::Store::reclaim): makes messages pending again whose lease has expired
//! or that are due.

use std::time::Duration;

use super::RedisStore;
use super::check_retries::with_retries;
use super::connection::{Durability, next};
use super::envelope::seconds;
use super::keys::Keys;
use super::pending::{self, Member, UnreadableMember};
use super::pipeline::Command;
use super::quarantine::quarantine;
use super::scripts::SCRIPTS;
use crate::Reclaimed;
use crate::error::{ErrorKind, StoreError};
use crate::moment::Moment;

/// The maximum number of messages per round, and of rounds per call.
const BATCH: usize = 100;
const ROUNDS_MAX: usize = 10;

/// How long messages of another queue are overdue before this queue takes care of them.
const ABANDONED: Duration = Duration::from_secs(300);

/// When to call again if the next due time is unknown.
const SOON: Duration = Duration::from_secs(1);

/// One round over the released messages that are due.
struct DueRound {
    found: usize,
    /// How many stay in the set, for other queues.
    left: usize,
    /// How many are now pending in this queue.
    reclaimed: u64,
}

pub(super) async fn reclaim(
    store: &RedisStore,
    queue: &str,
    now: Moment,
) -> Result<Reclaimed, StoreError> {
    let keys = store.layout.queue(queue);
    let mut reclaimed = Reclaimed::default();
    let (mut claims, mut retries, mut skipped) = (BATCH, BATCH, 0);
    let mut has_retries = true;
    for _ in 0..ROUNDS_MAX {
        if claims == BATCH {
            let (found, lost) = reclaim_expired(store, &keys, now).await?;
            (claims, reclaimed.lost) = (found, reclaimed.lost + lost);
        }
        if retries == BATCH {
            let round = reclaim_due(store, &keys, skipped, now).await;
            let Some(round) = with_retries(store, &keys, round).await? else {
                (retries, has_retries) = (0, false);
                continue;
            };
            (retries, reclaimed.due) = (round.found, reclaimed.due + round.reclaimed);
            skipped += round.left;
        }
    }
    let more = claims == BATCH || retries == BATCH;
    reclaimed.next =
        if more { Some(now) } else { next_due(store, &keys, has_retries, now).await? };
    Ok(reclaimed)
}

/// Reclaims messages whose lease has expired. Returns how many were found and how many reclaimed.
async fn reclaim_expired(
    store: &RedisStore,
    keys: &Keys,
    now: Moment,
) -> Result<(usize, u64), StoreError> {
    let command = Command::new("ZRANGEBYSCORE", &keys.index).arg("-inf").arg(seconds(now));
    let command = command.arg("LIMIT").arg(0).arg(BATCH);
    let claims: Vec<Vec<u8>> = store.connection.query(command, Durability::Primary).await?;
    if claims.is_empty() {
        return Ok((0, 0));
    }
    let command = Command::new("HMGET", &keys.claimed).arg(&claims);
    let members: Vec<Option<Vec<u8>>> =
        store.connection.query(command, Durability::Primary).await?;
    let names = [&keys.pending, &keys.claimed, &keys.owners, &keys.index];
    let mut command =
        Command::script(&SCRIPTS.reclaim, &names.map(String::as_str)).arg(seconds(now));
    for (claim, member) in claims.iter().zip(members) {
        // An unreadable message becomes pending, too: the next claim moves it to the dead letters.
        let (member, score) = match pending::decode(member.unwrap_or_default(), &keys.pending) {
            Ok(Member { text, decoded }) => (text.into_bytes(), decoded.score),
            Err(UnreadableMember { bytes, .. }) => (bytes, 0.0),
        };
        command = command.arg(claim).arg(member).arg(score);
    }
    Ok((claims.len(), store.connection.query(command, Durability::Primary).await?))
}

/// Makes released messages pending that are due, after `skipped` messages of other queues.
async fn reclaim_due(
    store: &RedisStore,
    keys: &Keys,
    skipped: usize,
    now: Moment,
) -> Result<DueRound, StoreError> {
    let (mut own, mut abandoned, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    let due = read_due(store, keys, skipped, now).await?;
    let mut round = DueRound { found: due.len(), left: due.len(), reclaimed: 0 };
    for (member, due) in due {
        let Member { text, decoded } = match pending::decode(member, &keys.pending) {
            Ok(member) => member,
            Err(error) => {
                unreadable.push(error);
                continue;
            }
        };
        let home = store.layout.home_queue(&decoded, keys);
        // The dispatchers of another queue take care of its messages, unless it has none.
        let command = || {
            let command = Command::script(&SCRIPTS.reclaim_due, &[&keys.retries, &home]);
            command.arg(text).arg(decoded.score)
        };
        if home == keys.pending {
            own.push(command());
        } else if due.after(ABANDONED) <= now {
            abandoned.push(command());
        }
    }
    round.left -= own.len() + unreadable.len();
    quarantine(store, keys, (&keys.retries, unreadable), now).await?;
    let moved = own.len();
    let mut replies = store.connection.run(own, Durability::Primary).await?;
    for _ in 0..moved {
        round.reclaimed += u64::from(next::<bool>(&mut replies)?);
    }
    for command in abandoned {
        // A queue whose keys cannot be used must not stop this one; its messages stay.
        match store.connection.query::<bool>(command, Durability::Primary).await {
            Ok(_) => round.left -= 1,
            Err(error) if error.kind == ErrorKind::Broken => {}
            Err(error) => return Err(error),
        }
    }
    Ok(round)
}

/// The first released messages that are due.
async fn read_due(
    store: &RedisStore,
    keys: &Keys,
    skipped: usize,
    now: Moment,
) -> Result<Vec<(Vec<u8>, Moment)>, StoreError> {
    let command = Command::new("ZRANGEBYSCORE", &keys.retries).arg("-inf").arg(seconds(now));
    let command = command.arg("WITHSCORES").arg("LIMIT").arg(skipped).arg(BATCH);
    let found: Vec<(Vec<u8>, f64)> = store.connection.query(command, Durability::Primary).await?;
    Ok(found.into_iter().map(|(member, score)| (member, moment(score))).collect())
}

/// When the next lease expires or the next released message is due.
async fn next_due(
    store: &RedisStore,
    keys: &Keys,
    has_retries: bool,
    now: Moment,
) -> Result<Option<Moment>, StoreError> {
    let first = |set, last| Command::new("ZRANGE", set).arg(0).arg(last).arg("WITHSCORES");
    let examined_max = if store.layout.has_shared_retries() { BATCH } else { 1 };
    let retries = has_retries.then(|| first(&keys.retries, examined_max - 1));
    let commands = [first(&keys.index, 0)].into_iter().chain(retries).collect();
    let mut replies = store.connection.run(commands, Durability::Primary).await?;
    let leases: Vec<(Vec<u8>, f64)> = next(&mut replies)?;
    let retries: Vec<(Vec<u8>, f64)> = if has_retries { next(&mut replies)? } else { Vec::new() };
    let examined = retries.len();
    let own = retries.into_iter().find(|(member, _)| {
        pending::decode(member.clone(), "")
            .is_ok_and(|member| store.layout.home_queue(&member.decoded, keys) == keys.pending)
    });
    // Messages of this queue may follow the examined messages of others.
    let hidden = || (examined == BATCH).then(|| now.after(SOON));
    let retry = own.map(|(_, score)| moment(score)).or_else(hidden);
    let lease = leases.first().map(|(_, score)| moment(*score));
    Ok([lease, retry].into_iter().flatten().min())
}

/// The moment of a score, rounded up.
fn moment(score: f64) -> Moment {
    // The cast saturates: NaN and negative scores are the epoch, infinity is the last moment.
    Moment::from_millis((score * 1000.0).ceil() as u64)
}
