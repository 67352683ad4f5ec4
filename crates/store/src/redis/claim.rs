//! [`Store::claim`](crate::Store::claim): claims the first messages of a lane.

use std::collections::BTreeSet;
use std::time::Duration;

use super::RedisStore;
use super::claimed_message::ClaimedMessage;
use super::connection::{Durability, next};
use super::envelope::{DecodedMessage, Payload, seconds};
use super::keys::{Keys, ResultRoute};
use super::pending::{Member, WINDOW, peek};
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use crate::error::StoreError;
use crate::message::Body;
use crate::moment::Moment;
use crate::{Claim, ClaimRef, ClaimRequest, token};

/// The maximum number of messages per call, so that their bodies fit into memory.
const CLAIM_MAX: usize = 256;

/// The maximum number of messages per script: other clients wait while it runs.
const SCRIPT_MAX: usize = 32;

/// The minimum number of messages to look at: some of them may belong to other tenants.
const PEEK_MIN: usize = 32;

/// The maximum number of attempts when other dispatchers were faster.
const ATTEMPTS_MAX: usize = 3;

/// How long after its deadline the lease of a message may last.
const LEASE_GRACE: Duration = Duration::from_secs(300);

/// A message that was claimed.
struct ClaimedMember {
    decoded: DecodedMessage,
    owner: String,
    /// How often the message was claimed, this time included.
    deliveries: u32,
}

/// The keys beside a message.
struct Extras {
    cancelled: bool,
    body: Option<Vec<u8>>,
}

pub(super) async fn claim(
    store: &RedisStore,
    request: ClaimRequest,
    now: Moment,
) -> Result<Vec<Claim>, StoreError> {
    let (keys, limit) = (store.layout.queue(&request.queue), request.limit.min(CLAIM_MAX));
    let mut claimed = Vec::new();
    for _ in 0..ATTEMPTS_MAX {
        let chosen = choose(store, &keys, (&request.tenant, limit - claimed.len()), now).await?;
        let wanted = chosen.len();
        let won = claim_chosen(store, &keys, chosen, (request.until, now)).await?;
        let raced = won.len() < wanted;
        claimed.extend(won);
        if !raced || claimed.len() >= limit {
            break;
        }
    }
    complete_claims(store, &request.queue, claimed).await
}

/// The first pending messages of a tenant inside the window.
async fn choose(
    store: &RedisStore,
    keys: &Keys,
    (tenant, limit): (&str, usize),
    now: Moment,
) -> Result<Vec<Member>, StoreError> {
    let (mut chosen, mut claim_keys, mut from) = (Vec::new(), BTreeSet::new(), 0);
    while chosen.len() < limit && from < WINDOW {
        let to = (from + (limit - chosen.len()).max(PEEK_MIN)).min(WINDOW);
        let members = peek(store, keys, from..to, now).await?;
        if members.is_empty() {
            break;
        }
        from += members.len();
        let of_tenant =
            members.into_iter().filter(|member| member.decoded.message.tenant == tenant);
        // Two messages with one claim key would share one claim.
        let new = of_tenant.filter(|member| claim_keys.insert(member.decoded.claim_key()));
        chosen.extend(new);
    }
    chosen.truncate(limit);
    Ok(chosen)
}

/// Claims the chosen messages that no other dispatcher has claimed since.
async fn claim_chosen(
    store: &RedisStore,
    keys: &Keys,
    chosen: Vec<Member>,
    (until, now): (Moment, Moment),
) -> Result<Vec<ClaimedMember>, StoreError> {
    let names = [&keys.pending, &keys.claimed, &keys.owners, &keys.index, &keys.deliveries];
    let mut claimed = Vec::with_capacity(chosen.len());
    let mut chosen = chosen.into_iter().peekable();
    while chosen.peek().is_some() {
        let part: Vec<(Member, String)> =
            chosen.by_ref().take(SCRIPT_MAX).map(|member| (member, token::owner())).collect();
        let mut command = Command::script(&SCRIPTS.claim, &names.map(String::as_str));
        for (Member { text, decoded }, owner) in &part {
            let expires = until.min(decoded.message.deadline.max(now).after(LEASE_GRACE));
            // Without a generation another message may have the same claim key.
            let exclusive = u8::from(decoded.token.is_empty());
            command = command.arg(decoded.claim_key()).arg(text).arg(owner);
            command = command.arg(seconds(expires)).arg(exclusive);
        }
        let counts: Vec<u32> = store.connection.query(command, Durability::Primary).await?;
        let won = part.into_iter().zip(counts).filter(|(_, deliveries)| *deliveries > 0);
        claimed.extend(won.map(|((member, owner), deliveries)| ClaimedMember {
            decoded: member.decoded,
            owner,
            deliveries,
        }));
    }
    Ok(claimed)
}

/// Reads the bodies and cancellations of claimed messages.
async fn complete_claims(
    store: &RedisStore,
    queue: &str,
    claimed: Vec<ClaimedMember>,
) -> Result<Vec<Claim>, StoreError> {
    let messages: Vec<ClaimedMessage> =
        claimed.iter().map(|member| member.describe(store, queue)).collect();
    let extras = read_extras(store, &messages).await?;
    let claims = claimed.into_iter().zip(&messages).zip(extras);
    claims.map(|((member, message), extras)| member.claim(queue, message, extras)).collect()
}

/// A body of another type counts as absent.
async fn read_extras(
    store: &RedisStore,
    messages: &[ClaimedMessage],
) -> Result<Vec<Extras>, StoreError> {
    let mut commands = Vec::new();
    for message in messages {
        commands.push(message.read_cancelled());
        commands.extend(message.body.as_ref().map(|key| Command::new("MGET", key)));
    }
    let mut replies = store.connection.run(commands, Durability::Primary).await?;
    let extras = messages.iter().map(|message| {
        let cancelled = message.is_cancelled(&mut replies)?;
        let (body,) = match &message.body {
            Some(_) => next(&mut replies)?,
            None => (None,),
        };
        Ok(Extras { cancelled, body })
    });
    extras.collect()
}

// === impl ClaimedMember ===

impl ClaimedMember {
    fn describe(&self, store: &RedisStore, queue: &str) -> ClaimedMessage {
        let named = &self.decoded.message.route;
        let route = match self.decoded.resolved_ttl {
            Some(ttl) if !store.layout.is_own(queue, named) => {
                ResultRoute { list: named.clone(), ttl }
            }
            _ => store.layout.route(queue, named),
        };
        ClaimedMessage::new(&self.decoded, self.deliveries, route)
    }

    fn claim(
        self,
        queue: &str,
        claimed: &ClaimedMessage,
        extras: Extras,
    ) -> Result<Claim, StoreError> {
        let mut message = self.decoded.message;
        message.body = match self.decoded.body {
            Payload::Inline(bytes) => Body::Bytes(bytes),
            Payload::Apart(_) => extras.body.map_or(Body::Gone, |bytes| Body::Bytes(bytes.into())),
            Payload::Gone => Body::Gone,
        };
        let queue = queue.to_owned();
        let reference = ClaimRef { queue, key: claimed.encode()?, token: self.owner };
        let (failures, cancelled) = (claimed.failures, extras.cancelled);
        Ok(Claim { reference, message, failures, cancelled })
    }
}
