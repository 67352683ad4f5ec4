//! The messages of a subscription that this process holds.
//!
//! ```text
//! inbox ─admit─▶ pending ─claim─▶ claimed ─▶ ending ─▶ acknowledged
//!                   ▲                │
//!                   └── due ◀── waiting (released)
//! ```
//!
//! Each is on loan until `lease_until`. After that Pub/Sub delivers it again, to anybody.

use std::collections::BTreeMap;

use super::dead_letters::DeadLetters;
use super::past::Past;
use super::wire::{PubsubMessage, ReceivedMessage};
use crate::error::StoreError;
use crate::message::Message;
use crate::moment::Moment;
use crate::{ClaimRef, Depth, Lane};

/// How many messages wait here at least, so that some are there when there is room for them.
const AHEAD_MIN: usize = 8;
/// The most messages that wait here, and the bytes after which no more are received.
const AHEAD_MAX: usize = 256;
const HELD_MAX: usize = 1024;
const BYTES_MAX: usize = 64 << 20;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// What was received and is not admitted yet.
    pub(super) inbox: Vec<ReceivedMessage>,
    /// Why nothing can be received, while that is so.
    pub(super) trouble: Option<StoreError>,
    /// Whether this process wants no more messages.
    pub(super) closed: bool,
    pub(super) messages: BTreeMap<String, HeldMessage>,
    pub(super) past: Past,
    pub(super) dead: DeadLetters,
}

/// A message on loan, under its id in Pub/Sub.
#[derive(Clone, Debug)]
pub(super) struct HeldMessage {
    /// The id of the latest delivery.
    pub(super) ack_id: String,
    pub(super) message: Message,
    /// The same as it was published.
    pub(super) published: PubsubMessage,
    pub(super) failures: u32,
    pub(super) lease_until: Moment,
    pub(super) state: State,
    /// Whether its result is published, and whether it is in the topic for dead letters.
    pub(super) has_result: bool,
    pub(super) is_buried: bool,
}

/// The state of a message that is on loan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    /// Released, to be pending at this moment.
    Waiting(Moment),
    /// Claimed with this token.
    Claimed(String),
    /// Claimed, and on its way to its end.
    Ending(String),
}

/// The place of a message among the pending ones: by deadline, then in the order of publication.
/// The ids of Pub/Sub are numbers as text; a shorter one is less.
type Place<'a> = (Moment, Option<(i64, i32)>, usize, &'a str);

// === impl Held ===

impl Held {
    /// How many more messages to receive. Half of what this process has waits here while the other
    /// half is claimed; a process that does little takes little from the others.
    pub(super) fn wanted(&self) -> usize {
        let bytes = self.messages.values().map(|held| held.published.data.len()).sum::<usize>();
        if self.closed || bytes >= BYTES_MAX {
            return 0;
        }
        let Depth { pending, retry, claimed, .. } = self.depth();
        let [pending, waiting, claimed] =
            [pending, retry, claimed].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let pending = pending.saturating_add(self.inbox.len());
        let ahead = claimed.clamp(AHEAD_MIN, AHEAD_MAX).saturating_sub(pending);
        ahead.min(HELD_MAX.saturating_sub(pending.saturating_add(waiting)))
    }

    /// Takes no more messages, and forgets those that no claim holds; returns their deliveries.
    pub(super) fn close(&mut self) -> Vec<String> {
        self.closed = true;
        let inbox = std::mem::take(&mut self.inbox).into_iter();
        let mut ack_ids: Vec<String> = inbox.map(|message| message.ack_id).collect();
        self.messages.retain(|_, held| {
            let is_claimed = held.is_claimed();
            ack_ids.extend((!is_claimed).then(|| held.ack_id.clone()));
            is_claimed
        });
        ack_ids
    }

    /// The messages by state. `dead` are the dead letters that this process made.
    pub(super) fn depth(&self) -> Depth {
        let mut depth = Depth { dead: self.dead.count(), ..Depth::default() };
        for held in self.messages.values() {
            match held.state {
                State::Pending => depth.pending += 1,
                State::Waiting(_) => depth.retry += 1,
                State::Claimed(_) | State::Ending(_) => depth.claimed += 1,
            }
        }
        depth
    }

    /// The pending messages of each tenant.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let mut lanes: BTreeMap<&str, Lane> = BTreeMap::new();
        for held in self.messages.values().filter(|held| held.state == State::Pending) {
            let (tenant, deadline) = (&held.message.tenant, held.message.deadline);
            let new = || Lane { tenant: tenant.clone(), waiting: 0, deadline };
            let lane = lanes.entry(tenant).or_insert_with(new);
            lane.waiting += 1;
            lane.deadline = lane.deadline.min(deadline);
        }
        lanes.into_values().collect()
    }

    /// The first pending messages of a tenant.
    pub(super) fn first(&self, tenant: &str, limit: usize) -> Vec<String> {
        let of_tenant = |(_, held): &(&String, &HeldMessage)| {
            held.state == State::Pending && held.message.tenant == tenant
        };
        let mut found: Vec<(Place<'_>, &String)> =
            self.messages.iter().filter(of_tenant).map(|(id, held)| (held.place(id), id)).collect();
        found.sort_unstable();
        found.into_iter().take(limit).map(|(_, id)| id.clone()).collect()
    }

    /// The message of a claim, if the claim holds it.
    pub(super) fn claimed(&mut self, claim: &ClaimRef) -> Option<&mut HeldMessage> {
        let found = self.messages.get_mut(&claim.key);
        found.filter(|held| held.state == State::Claimed(claim.token.clone()))
    }

    /// The same, also if the message is on its way to its end.
    pub(super) fn owned(&mut self, claim: &ClaimRef) -> Option<&mut HeldMessage> {
        self.messages.get_mut(&claim.key).filter(|held| match &held.state {
            State::Claimed(token) | State::Ending(token) => *token == claim.token,
            State::Pending | State::Waiting(_) => false,
        })
    }

    /// Forgets a message that Pub/Sub delivers again, and remembers how often it failed.
    pub(super) fn lose(&mut self, id: &str) {
        if let Some(held) = self.messages.remove(id) {
            // A message that ends every dispatcher must end, too.
            self.past.failed(id, held.failures.saturating_add(u32::from(held.is_claimed())));
            if held.has_result {
                self.past.ended(id);
            }
        }
    }
}

// === impl HeldMessage ===

impl HeldMessage {
    fn place<'a>(&self, id: &'a str) -> Place<'a> {
        let published = self.published.publish_time.map(|time| (time.seconds, time.nanos));
        (self.message.deadline, published, id.len(), id)
    }

    /// Whether a claim holds the message.
    pub(super) fn is_claimed(&self) -> bool {
        matches!(self.state, State::Claimed(_) | State::Ending(_))
    }
}
