//! The settings of the engine.

use std::time::Duration;

/// The project, its topics and its subscriptions. A topic or a subscription is its id, or its whole
/// name (`projects/…/topics/…`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PubSubSettings {
    /// The id of the project.
    pub project: String,
    /// The topic for results, unless the queue or the message names another.
    pub results: String,
    /// The topic for dead letters. Without one, a dead letter has its result and ends.
    pub dead_letters: Option<String>,
    /// How long a message stays with this process unless it says that it still has it, at most ten
    /// minutes.
    pub lease: Duration,
    /// The subscriptions to receive from.
    pub queues: Vec<PubSubQueue>,
}

/// A subscription, and where its results go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PubSubQueue {
    /// The subscription, which is the name of the queue.
    pub name: String,
    /// The topic for its results. It takes precedence over the topic that a message names.
    pub results: Option<String>,
}

// === impl PubSubSettings ===

impl PubSubSettings {
    /// The whole name of a topic.
    pub(super) fn topic(&self, id: &str) -> String {
        self.resource("topics", id)
    }

    /// The whole name of a topic that a message names; `None` without one, and if it belongs to
    /// another project: a producer may not direct this account's writing there.
    pub(super) fn own_topic(&self, named: &str) -> Option<String> {
        let of_project = self.topic("");
        let is_own = !named.starts_with("projects/") || named.starts_with(&of_project);
        (is_own && !named.is_empty()).then(|| self.topic(named))
    }

    /// The whole name of a subscription.
    pub(super) fn subscription(&self, id: &str) -> String {
        self.resource("subscriptions", id)
    }

    fn resource(&self, kind: &str, id: &str) -> String {
        match id.starts_with("projects/") {
            true => id.to_owned(),
            false => format!("projects/{}/{kind}/{id}", self.project),
        }
    }
}
