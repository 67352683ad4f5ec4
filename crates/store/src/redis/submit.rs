//! Keeping messages.

use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::envelope::{self, Halves, deadline_secs};
use super::keys::{self, NUDGE};
use super::link::{Kept, next};
use super::scripts::SCRIPTS;
use super::step::Step;
use super::{RedisStore, token};
use crate::Receipt;
use crate::error::{ErrorKind, StoreError};
use crate::message::{Body, Message};
use crate::moment::Moment;

/// The most messages that go in one round, and about how many bytes: others want the server, too.
const ROUND: usize = 64;
const ROUND_BYTES: usize = 4 << 20;

/// The longest body that stays in its message. A longer one would be copied at every step of it.
const INLINE_MAX: usize = 64 << 10;

/// As long as anything lives; Redis refuses what lies beyond its numbers.
const EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How long what goes with a message outlives its deadline.
pub(super) const GRACE: Duration = Duration::from_secs(600);

/// How long the numbers of a deadline outlive it.
pub(super) const SEQUENCE_GRACE: Duration = Duration::from_secs(3600);

/// How long a message is known after its deadline.
pub(super) const RECEIPT_GRACE: Duration = Duration::from_secs(86_400);

/// A message on its way.
struct Draft {
    message: Message,
    digest: [u8; 32],
    token: String,
    halves: Halves,
    /// Its body, if that is kept under a key of its own.
    apart: Option<(String, Bytes)>,
}

/// How many seconds are left until a deadline, and some more.
pub(super) fn left(deadline: Moment, now: Moment, grace: Duration) -> u64 {
    deadline.since(now).min(EVER).saturating_add(grace).as_secs()
}

/// A body that can stand in a message as it is: one JSON object and nothing around it.
fn inline(body: &Bytes) -> Option<&RawValue> {
    if body.len() > INLINE_MAX || body.first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice::<&RawValue>(body).ok().filter(|raw| raw.get().len() == body.len())
}

/// A part of a file, which others cannot reach.
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
        let apart = inline.is_err();
        let halves = envelope::write(&message, &token, inline).map_err(|error| {
            let text = format!("the message {:?} cannot be written: {error}", message.id);
            StoreError::new(ErrorKind::Invalid, text)
        })?;
        let apart = apart.then_some((key, body));
        Ok(Self { digest: message.digest(), message, token, halves, apart })
    }

    fn bytes(&self) -> usize {
        let apart = self.apart.as_ref().map_or(0, |(_, body)| body.len());
        self.halves.before.len() + self.halves.after.len() + apart
    }
}

// === impl RedisStore ===

impl RedisStore {
    /// Keeps messages, some at a time.
    pub(super) async fn keep(
        &self,
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
            if round.len() >= ROUND || bytes >= ROUND_BYTES {
                receipts.extend(self.keep_round(std::mem::take(&mut round), now).await?);
                bytes = 0;
            }
        }
        receipts.extend(self.keep_round(round, now).await?);
        Ok(receipts)
    }

    async fn keep_round(&self, round: Vec<Draft>, now: Moment) -> Result<Vec<Receipt>, StoreError> {
        let apart = round.iter().filter_map(|draft| {
            let (key, body) = draft.apart.as_ref()?;
            let life = left(draft.message.deadline, now, GRACE);
            Some(Step::new("SET", key).arg(&body[..]).arg("EX").arg(life))
        });
        // Before the messages: nobody may find one whose body is not there yet.
        self.link.run(apart.collect(), Kept::Safely).await?;
        let ids = round.iter().map(|draft| Step::new("GET", &keys::active(&draft.message.id)));
        let mut active = self.link.run(ids.collect(), Kept::Here).await?;
        let mut steps = Vec::with_capacity(round.len());
        for draft in &round {
            let under_way = next::<Option<String>>(&mut active)?.is_some();
            steps.push(self.submission(draft, now).arg(u8::from(under_way)));
        }
        let mut answers = self.link.run(steps, Kept::Safely).await?;
        let (mut receipts, mut marks) = (Vec::with_capacity(round.len()), Vec::new());
        for draft in &round {
            let (state, token, ended): (u8, String, bool) = next(&mut answers)?;
            let receipt = match state {
                0 => Receipt::Accepted,
                // Ours, and the answer to the first try was lost.
                1 if token == draft.token => Receipt::Accepted,
                1 => Receipt::Duplicate,
                _ => Receipt::Conflict,
            };
            receipts.push(receipt);
            mark(&mut marks, draft, receipt, (&token, ended), now);
        }
        let accepted =
            round.iter().zip(&receipts).filter(|(_, receipt)| **receipt == Receipt::Accepted);
        let queues: BTreeSet<&str> = accepted.map(|(draft, _)| &*draft.message.queue).collect();
        marks.extend(queues.into_iter().map(|queue| Step::new("PUBLISH", NUDGE).arg(queue)));
        self.link.run(marks, Kept::Here).await?;
        Ok(receipts)
    }

    fn submission(&self, draft: &Draft, now: Moment) -> Step {
        let Draft { message, digest, token, halves, .. } = draft;
        let (keys, deadline) = (self.layout.queue(&message.queue), deadline_secs(message.deadline));
        let life = |grace| left(message.deadline, now, grace);
        let (sequence, receipt) = (keys.sequence(deadline), keys.receipt(&message.id));
        Step::script(&SCRIPTS.submit, &[&sequence, &keys.pending, &receipt])
            .arg(&digest[..])
            .arg(token)
            .arg(&halves.before)
            .arg(&halves.after)
            .arg(deadline)
            .arg(life(SEQUENCE_GRACE))
            .arg(life(RECEIPT_GRACE))
    }
}

/// What else is to be written about a message: that its id is under way, in which generation.
/// Whoever submits it again repairs that, if we do not come to it.
fn mark(
    marks: &mut Vec<Step>,
    draft: &Draft,
    receipt: Receipt,
    (token, ended): (&str, bool),
    now: Moment,
) {
    let id = &draft.message.id;
    if receipt == Receipt::Accepted {
        marks.push(Step::new("DEL", &keys::cancel(id)));
    } else if let Some((key, _)) = &draft.apart {
        marks.push(Step::new("DEL", key));
    }
    if receipt != Receipt::Conflict && !ended {
        let life = left(draft.message.deadline, now, GRACE);
        marks.push(Step::new("SET", &keys::active(id)).arg(token).arg("EX").arg(life));
    }
}
