//! [`Store::dead_letter`](crate::Store::dead_letter): publishes the result, and the message to the
//! topic for dead letters, then acknowledges it.

use std::collections::BTreeMap;

use super::wire::PubsubMessage;
use super::{PubSubStore, Queue, complete};
use crate::error::StoreError;
use crate::message::Outcome;
use crate::moment::Moment;
use crate::{ClaimRef, DeadLetter};

/// The attributes of a dead letter: those with which Pub/Sub itself forwards one, and the reason.
const SUBSCRIPTION: &str = "CloudPubSubDeadLetterSourceSubscription";
const PROJECT: &str = "CloudPubSubDeadLetterSourceSubscriptionProject";
const DELIVERIES: &str = "CloudPubSubDeadLetterSourceDeliveryCount";
const REASON: &str = "TidegateDeadLetterReason";
/// The longest value of an attribute, in bytes.
const VALUE_MAX: usize = 1024;

pub(super) async fn dead_letter(
    store: &PubSubStore,
    claim: ClaimRef,
    outcome: Outcome,
    now: Moment,
) -> Result<bool, StoreError> {
    store.saw(now);
    complete::end(store, claim, outcome, Some(now)).await
}

// === impl PubSubStore ===

impl PubSubStore {
    /// Publishes a message to the topic for dead letters; returns `false` if there is none.
    pub(super) async fn bury(
        &self,
        queue: &Queue,
        published: &PubsubMessage,
        letter: &DeadLetter,
    ) -> Result<bool, StoreError> {
        let Some(topic) = &self.settings.dead_letters else { return Ok(false) };
        let topic = self.settings.topic(topic);
        let id = queue.subscription.rsplit('/').next().unwrap_or_default();
        let added = [
            (SUBSCRIPTION, id.to_owned()),
            (PROJECT, self.settings.project.clone()),
            (DELIVERIES, letter.failures.to_string()),
            (REASON, shortened(&letter.why)),
        ];
        let mut attributes: BTreeMap<String, String> = published.attributes.clone();
        attributes.extend(added.map(|(name, value)| (name.to_owned(), value)));
        let message =
            PubsubMessage { data: published.data.clone(), attributes, ..PubsubMessage::default() };
        let buried = self.calls.publish(&topic, message).await;
        buried.map(|()| true).map_err(|error| error.retried(&topic))
    }
}

/// The beginning of a text, as far as an attribute has room.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(VALUE_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
