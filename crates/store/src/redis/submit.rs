//! [`Store::submit`](crate::Store::submit): adds messages that are not known yet.

use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::RedisStore;
use super::connection::{Durability, next};
use super::envelope::{self, SplitMember, deadline_secs};
use super::keys;
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use crate::Receipt;
use crate::error::{ErrorKind, StoreError};
use crate::message::{Body, Message};
use crate::moment::Moment;
use crate::token;

/// The maximum number of messages per round, and about how many bytes: other clients need the
/// server, too.
const ROUND_MAX: usize = 64;
const ROUND_BYTES_MAX: usize = 4 << 20;

/// The maximum length of a body inside its message. A longer one would be copied by every verb.
const INLINE_MAX: usize = 64 << 10;

/// The maximum time to live: Redis refuses expiry times beyond its integers.
const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How long the body and the marks of a message outlive its deadline.
pub(super) const MARK_GRACE: Duration = Duration::from_secs(600);

/// How long the sequence of a deadline outlives it.
pub(super) const SEQUENCE_GRACE: Duration = Duration::from_secs(3600);

/// How long the receipt of a message outlives its deadline.
pub(super) const RECEIPT_GRACE: Duration = Duration::from_secs(86_400);

/// An encoded message.
struct Draft {
    message: Message,
    digest: [u8; 32],
    token: String,
    member: SplitMember,
    /// The key and the bytes of the body, if it is stored apart.
    apart: Option<(String, Bytes)>,
}

/// The time to live of a key that outlives a deadline, in seconds.
pub(super) fn ttl(deadline: Moment, now: Moment, grace: Duration) -> u64 {
    deadline.since(now).min(TTL_MAX).saturating_add(grace).as_secs()
}

/// Stores messages in several rounds.
pub(super) async fn submit(
    store: &RedisStore,
    messages: Vec<Message>,
    now: Moment,
) -> Result<Vec<Receipt>, StoreError> {
    messages.iter().try_for_each(Message::check)?;
    let mut receipts = Vec::with_capacity(messages.len());
    let (mut round, mut bytes) = (Vec::new(), 0);
    for message in messages {
        let draft = Draft::new(message).await?;
        bytes += draft.bytes();
        round.push(draft);
        if round.len() >= ROUND_MAX || bytes >= ROUND_BYTES_MAX {
            receipts.extend(submit_round(store, std::mem::take(&mut round), now).await?);
            bytes = 0;
        }
    }
    receipts.extend(submit_round(store, round, now).await?);
    Ok(receipts)
}

async fn submit_round(
    store: &RedisStore,
    round: Vec<Draft>,
    now: Moment,
) -> Result<Vec<Receipt>, StoreError> {
    // Before the messages: a dispatcher must not claim a message whose body is not there yet.
    let bodies = round.iter().filter_map(|draft| draft.set_body(now)).collect();
    store.connection.run(bodies, Durability::Replicated).await?;
    let ids = round.iter().map(|draft| Command::new("GET", &keys::active(&draft.message.id)));
    let mut active = store.connection.run(ids.collect(), Durability::Primary).await?;
    let mut commands = Vec::with_capacity(round.len());
    for draft in &round {
        let is_active = next::<Option<String>>(&mut active)?.is_some();
        commands.push(draft.submit(store, now).arg(u8::from(is_active)));
    }
    let mut replies = store.connection.run(commands, Durability::Replicated).await?;
    let (mut receipts, mut marks) = (Vec::with_capacity(round.len()), Vec::new());
    for draft in &round {
        let (state, token, ended): (u8, String, bool) = next(&mut replies)?;
        let receipt = match state {
            0 => Receipt::Accepted,
            // The reply to the first attempt of this call was lost.
            1 if token == draft.token => Receipt::Accepted,
            1 => Receipt::Duplicate,
            _ => Receipt::Conflict,
        };
        receipts.push(receipt);
        draft.mark(&mut marks, receipt, (&token, ended), now);
    }
    let accepted = round.iter().zip(&receipts).filter(|(_, it)| **it == Receipt::Accepted);
    let queues: BTreeSet<&str> = accepted.map(|(draft, _)| &*draft.message.queue).collect();
    marks.extend(queues.into_iter().map(Command::publish_change));
    store.connection.run(marks, Durability::Primary).await?;
    Ok(receipts)
}

/// A body that can be part of its message: one JSON object without surrounding whitespace.
fn inline(body: &Bytes) -> Option<&RawValue> {
    if body.len() > INLINE_MAX || body.first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice::<&RawValue>(body).ok().filter(|raw| raw.get().len() == body.len())
}

/// Reads a part of a file: other machines cannot read it.
async fn load(file: PathBuf, offset: u64, length: u64) -> Result<Bytes, StoreError> {
    let shown = file.display().to_string();
    let read = move || {
        let mut file = std::fs::File::open(file)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes)?;
        let whole = bytes.len() as u64 == length;
        if whole { Ok(bytes) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
    };
    let read = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other);
    read.and_then(|read| read).map(Bytes::from).map_err(|error| {
        StoreError::new(ErrorKind::Broken, format!("the body in {shown} cannot be read: {error}"))
            .caused_by(error)
    })
}

// === impl Draft ===

impl Draft {
    async fn new(message: Message) -> Result<Self, StoreError> {
        message.check()?;
        let body = match &message.body {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Slice { file, offset, length } => load(file.clone(), *offset, *length).await?,
            Body::Gone => Bytes::new(),
        };
        let token = token::request();
        let key = keys::payload(&message.id, &token);
        let inline = inline(&body).ok_or(key.as_str());
        let is_apart = inline.is_err();
        let member = envelope::encode(&message, &token, inline).map_err(|error| {
            let text = format!("the message {:?} cannot be written: {error}", message.id);
            StoreError::new(ErrorKind::Invalid, text).caused_by(error)
        })?;
        let apart = is_apart.then_some((key, body));
        Ok(Self { digest: message.digest(), message, token, member, apart })
    }

    fn bytes(&self) -> usize {
        let apart = self.apart.as_ref().map_or(0, |(_, body)| body.len());
        self.member.before.len() + self.member.after.len() + apart
    }

    fn ttl(&self, now: Moment, grace: Duration) -> u64 {
        ttl(self.message.deadline, now, grace)
    }

    /// Stores a body that is stored apart.
    fn set_body(&self, now: Moment) -> Option<Command> {
        let (key, body) = self.apart.as_ref()?;
        let command = Command::new("SET", key).arg(&body[..]);
        Some(command.arg("EX").arg(self.ttl(now, MARK_GRACE)))
    }

    /// Runs the script, without its last argument.
    fn submit(&self, store: &RedisStore, now: Moment) -> Command {
        let Self { message, digest, token, member, .. } = self;
        let keys = store.layout.queue(&message.queue);
        let deadline = deadline_secs(message.deadline);
        let (sequence, receipt) = (keys.sequence(deadline), keys.receipt(&message.id));
        Command::script(&SCRIPTS.submit, &[&sequence, &keys.pending, &receipt])
            .arg(&digest[..])
            .arg(token)
            .arg(&member.before)
            .arg(&member.after)
            .arg(deadline)
            .arg(self.ttl(now, SEQUENCE_GRACE))
            .arg(self.ttl(now, RECEIPT_GRACE))
    }

    /// Adds the commands that mark the generation `token` of the id as active. When they do not
    /// run, the next submission of the message repairs it.
    fn mark(
        &self,
        marks: &mut Vec<Command>,
        receipt: Receipt,
        (token, ended): (&str, bool),
        now: Moment,
    ) {
        let id = &self.message.id;
        if receipt == Receipt::Accepted {
            marks.push(Command::new("DEL", &keys::cancel(id)));
        } else if let Some((key, _)) = &self.apart {
            marks.push(Command::new("DEL", key));
        }
        if receipt != Receipt::Conflict && !ended {
            let active = Command::new("SET", &keys::active(id)).arg(token);
            marks.push(active.arg("EX").arg(self.ttl(now, MARK_GRACE)));
        }
    }
}
