//! Checks the topics and subscriptions at the start.

use super::PubSubStore;
use crate::error::StoreError;

// === impl PubSubStore ===

impl PubSubStore {
    /// Fails if a topic or a subscription does not exist; returns cautions about the others. What
    /// the account may not read counts as there: receiving and publishing do not need it.
    pub async fn check_server(&self) -> Result<Vec<String>, StoreError> {
        let mut cautions = Vec::new();
        for queue in self.queues.values() {
            let name = &queue.subscription;
            let found = self.calls.subscription(name).await.map_err(|error| error.about(name))?;
            if found.is_some_and(|found| found.dead_letter_policy.is_none()) {
                cautions.push(format!(
                    "{name} has no dead-letter policy, so Pub/Sub does not count deliveries: a \
                     message that ends every dispatcher is sent until its deadline"
                ));
            }
        }
        let own = self.queues.values().filter_map(|queue| queue.results.clone());
        let ids = [Some(&self.settings.results), self.settings.dead_letters.as_ref()];
        let shared = ids.into_iter().flatten().map(|id| self.settings.topic(id));
        for topic in own.chain(shared) {
            self.calls.topic(&topic).await.map_err(|error| error.about(&topic))?;
        }
        Ok(cautions)
    }
}
