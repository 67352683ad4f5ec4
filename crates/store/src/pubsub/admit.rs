//! Takes what was received into the messages that this process holds.

use super::held::{HeldMessage, State};
use super::wire::{PubsubMessage, ReceivedMessage};
use super::{PubSubStore, Queue, request};
use crate::DeadLetter;
use crate::error::StoreError;
use crate::llm_d_async::unreadable;
use crate::message::Message;
use crate::moment::Moment;

/// How long an unreadable message stays with this process if it can go nowhere, in seconds.
const UNREADABLE_SECONDS: i32 = 600;

/// A received message that can be sent.
struct Readable {
    ack_id: String,
    message: Message,
    published: PubsubMessage,
    failures: u32,
}

/// Admits what was received, for the time of a lease; returns how many messages these were.
///
/// A message leaves the inbox when nothing is left to do for it, so that a caller that drops this
/// future loses none.
pub(super) async fn admit(
    store: &PubSubStore,
    queue: &Queue,
    now: Moment,
) -> Result<usize, StoreError> {
    store.saw(now);
    // Two calls at once would bury an unreadable message twice.
    let _one_at_a_time = queue.admission.lock().await;
    let arrived = queue.held().inbox.clone();
    if arrived.is_empty() {
        return Ok(0);
    }
    let count = arrived.len();
    let ack_ids: Vec<String> = arrived.iter().map(|message| message.ack_id.clone()).collect();
    let gone = store.extend(queue, &ack_ids, store.settings.lease).await?;
    if queue.held().closed {
        // They were given back meanwhile; this call may have come later at the server.
        store.extend_by(queue, &ack_ids, 0).await?;
        return Ok(0);
    }
    let lease_until = now.after(store.settings.lease);
    for message in arrived {
        let ack_id = message.ack_id.clone();
        if !gone.contains(&ack_id) {
            admit_one(store, queue, message, (lease_until, now)).await?;
        }
        queue.held().inbox.retain(|waiting| waiting.ack_id != ack_id);
    }
    Ok(count)
}

async fn admit_one(
    store: &PubSubStore,
    queue: &Queue,
    received: ReceivedMessage,
    (lease_until, now): (Moment, Moment),
) -> Result<(), StoreError> {
    let ReceivedMessage { ack_id, message, delivery_attempt } = received;
    let published = message.unwrap_or_default();
    let id = published.message_id.clone();
    if queue.held().past.has_ended(&id) {
        return store.acknowledge(queue, ack_id).await;
    }
    match request::decode(&published, &queue.name) {
        Ok(message) => {
            let deliveries = u32::try_from(delivery_attempt).unwrap_or_default();
            let failures = deliveries.saturating_sub(1);
            insert(queue, id, Readable { ack_id, message, published, failures }, lease_until);
            Ok(())
        }
        Err(error) => {
            let (own_id, begins) = unreadable::describe(&published.data);
            let why = format!("it cannot be read: {error}; it begins with {begins}");
            let own_id = own_id.unwrap_or_else(|| format!("unreadable-{id}"));
            let mut letter = DeadLetter { number: 0, id: own_id, at: now, why, failures: 0 };
            let buried = store.bury(queue, &published, &letter).await;
            if matches!(buried, Ok(true)) {
                store.acknowledge(queue, ack_id).await?;
            } else {
                // It may not be lost, must not come again at once, and must not stop the others.
                letter.why.extend(buried.err().map(|error| format!("; {error}")));
                store.extend_by(queue, &[ack_id], UNREADABLE_SECONDS).await?;
            }
            queue.held().dead.add(letter);
            Ok(())
        }
    }
}

/// Adds a message. A further delivery of one that is here already has a new `ack_id`, and the old
/// one is no longer valid.
fn insert(queue: &Queue, id: String, new: Readable, lease_until: Moment) {
    let mut held = queue.held();
    if let Some(known) = held.messages.get_mut(&id) {
        known.ack_id = new.ack_id;
        known.lease_until = lease_until;
        return;
    }
    let Readable { ack_id, message, published, failures } = new;
    let failures = failures.max(held.past.failures(&id));
    let message = HeldMessage {
        ack_id,
        message,
        published,
        failures,
        lease_until,
        state: State::Pending,
        has_result: false,
        is_buried: false,
    };
    held.messages.insert(id, message);
}
