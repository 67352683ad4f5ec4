//! Checks the topics and subscriptions at the start. A queue without its own subscription or topic
//! stops alone, so that is an error only if it is so of every queue.

use super::{PubSubStore, Queue};
use crate::error::{ErrorKind, StoreError};

// === impl PubSubStore ===

impl PubSubStore {
    /// Fails if a shared topic does not exist, or if no queue can be used; returns cautions about
    /// the others. What the account may not read counts as there: receiving and publishing do not
    /// need it.
    pub async fn check_server(&self) -> Result<Vec<String>, StoreError> {
        let (mut cautions, mut unusable) = (Vec::new(), Vec::new());
        for queue in self.queues.values() {
            match self.check_resources(queue).await {
                Ok(caution) => cautions.extend(caution),
                Err(error) if error.kind == ErrorKind::Invalid => unusable.push(error),
                Err(error) => return Err(error),
            }
        }
        if unusable.len() == self.queues.len() && !unusable.is_empty() {
            return Err(unusable.swap_remove(0));
        }
        cautions
            .extend(unusable.into_iter().map(|error| format!("a queue cannot be used: {error}")));
        let shared = [Some(&self.settings.results), self.settings.dead_letters.as_ref()];
        for topic in shared.into_iter().flatten().map(|id| self.settings.topic(id)) {
            self.calls.topic(&topic).await.map_err(|error| error.about(&topic))?;
        }
        Ok(cautions)
    }

    /// Checks what a queue has for itself; returns a caution about it.
    async fn check_resources(&self, queue: &Queue) -> Result<Option<String>, StoreError> {
        let name = &queue.subscription;
        let found = self.calls.subscription(name).await.map_err(|error| error.about(name))?;
        if let Some(topic) = &queue.results {
            self.calls.topic(topic).await.map_err(|error| error.about(topic))?;
        }
        let is_without_policy = found.is_some_and(|found| found.dead_letter_policy.is_none());
        Ok(is_without_policy.then(|| {
            format!(
                "{name} has no dead-letter policy, so Pub/Sub does not count deliveries: a message \
                 that ends every dispatcher is sent until its deadline"
            )
        }))
    }
}
