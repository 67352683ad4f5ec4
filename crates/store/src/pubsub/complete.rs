//! [`Store::complete`](crate::Store::complete): publishes the result, then acknowledges the
//! message.
//!
//! These are two calls. A process that ends between them leaves a message that has its result; it
//! is delivered again, and has two. A failed call is repeated alone: a result that is published is
//! not published again.

use super::held::{HeldMessage, State};
use super::wire::PubsubMessage;
use super::{PubSubStore, Queue};
use crate::error::{ErrorKind, StoreError};
use crate::llm_d_async::result_record;
use crate::message::Outcome;
use crate::moment::Moment;
use crate::{ClaimRef, DeadLetter};

/// The largest message that Pub/Sub takes, less some room for its other fields.
const RESULT_MAX: usize = 10_000_000 - (64 << 10);

pub(super) async fn complete(
    store: &PubSubStore,
    claim: ClaimRef,
    outcome: Outcome,
) -> Result<bool, StoreError> {
    end(store, claim, outcome, None).await
}

/// Ends a message, as a dead letter of this moment if one is given.
pub(super) async fn end(
    store: &PubSubStore,
    claim: ClaimRef,
    outcome: Outcome,
    dead_at: Option<Moment>,
) -> Result<bool, StoreError> {
    let Some(queue) = store.queue(&claim.queue) else { return Ok(false) };
    let ending = {
        let mut held = queue.held();
        let Some(claimed) = held.claimed(&claim) else { return Ok(false) };
        claimed.state = State::Ending(claim.token.clone());
        claimed.clone()
    };
    let letter = dead_at.map(|at| DeadLetter {
        number: 0,
        id: ending.message.id.clone(),
        at,
        why: outcome.why(),
        failures: ending.failures.saturating_add(1),
    });
    let ended = publish_and_acknowledge(store, queue, (&ending, &claim), outcome, &letter).await;
    let mut held = queue.held();
    if let Err(error) = ended {
        // The caller tries again.
        if let Some(owned) = held.owned(&claim) {
            owned.state = State::Claimed(claim.token);
        }
        return Err(error);
    }
    held.messages.remove(&claim.key);
    held.past.ended(&claim.key);
    if let Some(letter) = letter {
        held.dead.add(letter);
    }
    drop(held);
    queue.demand.notify_one();
    Ok(true)
}

async fn publish_and_acknowledge(
    store: &PubSubStore,
    queue: &Queue,
    (ending, claim): (&HeldMessage, &ClaimRef),
    outcome: Outcome,
    letter: &Option<DeadLetter>,
) -> Result<(), StoreError> {
    if !ending.has_result {
        publish(store, queue, ending, outcome).await?;
        note(queue, claim, |owned| owned.has_result = true);
    }
    if let Some(letter) = letter
        && !ending.is_buried
    {
        store.bury(queue, &ending.published, letter).await?;
        note(queue, claim, |owned| owned.is_buried = true);
    }
    // A further delivery may have come meanwhile.
    let ack_id = queue.held().owned(claim).map(|owned| owned.ack_id.clone());
    store.acknowledge(queue, ack_id.unwrap_or_else(|| ending.ack_id.clone())).await
}

/// Notes a step of the end, so that it is not repeated.
fn note(queue: &Queue, claim: &ClaimRef, step: impl FnOnce(&mut HeldMessage)) {
    if let Some(owned) = queue.held().owned(claim) {
        step(owned);
    }
}

/// Publishes a result to the topic of the queue, or to that of the message if the queue has none.
async fn publish(
    store: &PubSubStore,
    queue: &Queue,
    ending: &HeldMessage,
    outcome: Outcome,
) -> Result<(), StoreError> {
    let id = &ending.message.id;
    let mut data = encode(outcome, id)?;
    if data.len() > RESULT_MAX {
        let text = format!("the result has {} bytes, more than Pub/Sub takes", data.len());
        data = encode(Outcome::failed(Outcome::FAILED, text), id)?;
    }
    let result = PubsubMessage { data: data.into(), ..PubsubMessage::default() };
    let default = store.settings.topic(&store.settings.results);
    let own = match (&queue.results, ending.message.route.as_str()) {
        (Some(results), _) => results.clone(),
        (None, named) => store.settings.own_topic(named).unwrap_or_else(|| default.clone()),
    };
    match store.calls.publish(&own, result.clone()).await {
        // A producer that names a topic which does not exist, or none, must not stop a worker.
        Err(error) if !error.is_transient() && queue.results.is_none() && own != default => {
            store.calls.publish(&default, result).await.map_err(|error| error.retried(&default))
        }
        published => published.map_err(|error| error.retried(&own)),
    }
}

fn encode(outcome: Outcome, id: &str) -> Result<String, StoreError> {
    result_record::encode(outcome.stored(id), "")
        .map_err(|error| StoreError::new(ErrorKind::Broken, error.to_string()).caused_by(error))
}
