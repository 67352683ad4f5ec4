//! The names of all keys, and the cluster slot of each.
//!
//! Names without braces are llm-d-async's own, byte for byte. In a cluster all keys of a queue must
//! be in the slot of its name, so these names contain it in braces, as llm-d-async's do there. The
//! keys that only Tidegate uses always contain it in braces.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::settings::{RedisQueue, RedisSettings};
use crate::error::{ErrorKind, StoreError};

/// The default list for results.
pub(super) const RESULTS: &str = "result-list";

/// The default set of released messages.
pub(super) const RETRIES: &str = "retry-sortedset";

/// The channel that tells dispatchers of changes.
pub(super) const NUDGE: &str = "tidegate:nudge";

/// The prefix of the keys of bodies. A message may name no other key.
const PAYLOAD: &str = "request-payload:";
const ACTIVE: &str = "request-active:";
const CANCEL: &str = "request-cancel:";
const SEQUENCE: &str = "request-seq:";

const SLOTS: u16 = 16_384;

/// How keys are named, for all queues.
#[derive(Debug)]
pub(super) struct Layout {
    cluster: bool,
    results: String,
    retries: String,
    queues: BTreeMap<String, QueueRoute>,
    /// The keys of all queues.
    own: BTreeSet<String>,
}

/// The configured route of the results of a queue.
#[derive(Debug, Default)]
struct QueueRoute {
    list: Option<String>,
    ttl: Option<Duration>,
}

/// The keys of one queue.
#[derive(Debug)]
pub(super) struct Keys {
    /// Pending messages, by deadline.
    pub(super) pending: String,
    /// Claimed messages.
    pub(super) claimed: String,
    /// The owner token of each claim.
    pub(super) owners: String,
    /// When the lease of each claim expires.
    pub(super) index: String,
    /// How often each message was claimed.
    pub(super) deliveries: String,
    /// Released messages that are not due yet.
    pub(super) retries: String,
    /// The numbers of the dead letters.
    pub(super) dead: String,
    /// The reason of each dead letter.
    pub(super) dead_reasons: String,
    /// The messages of the dead letters.
    pub(super) dead_members: String,
    /// The last number of a dead letter.
    pub(super) dead_count: String,
    tag: String,
    sequence: String,
}

/// Where a result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResultRoute {
    /// The list.
    pub(super) list: String,
    /// How many seconds the list is kept after its last result; zero means for ever.
    pub(super) ttl: u64,
}

/// The slot of a key.
pub(super) fn slot(key: &str) -> u16 {
    let crc = hash_tag(key).bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    });
    crc % SLOTS
}

/// The part of a key that determines its slot: the text in the first braces, if there is any.
fn hash_tag(key: &str) -> &str {
    let inside = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inside.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// A name that stays in its slot when a suffix is added.
fn tagged(name: &str) -> String {
    if hash_tag(name) == name { format!("{{{name}}}") } else { name.to_owned() }
}

/// The field of a claim in the hashes of its queue. The token is empty for a producer that makes
/// none.
pub(super) fn claim(id: &str, token: &str) -> String {
    if token.is_empty() { id.to_owned() } else { format!("{id}\0{token}") }
}

/// The key with the active generation of a request.
pub(super) fn active(id: &str) -> String {
    format!("{ACTIVE}{id}")
}

/// The key with the cancelled generation of a request.
pub(super) fn cancel(id: &str) -> String {
    format!("{CANCEL}{id}")
}

/// The key of a body that is stored apart from its message.
pub(super) fn payload(id: &str, token: &str) -> String {
    format!("{PAYLOAD}{id}:{token}")
}

/// Whether a key is that of a body. The engine reads and deletes the key that a message names, so a
/// message that names another key must not be trusted.
pub(super) fn is_payload(key: &str) -> bool {
    key.starts_with(PAYLOAD)
}

/// The results that a consumer is taking.
pub(super) fn taken(list: &str) -> String {
    format!("{}:taken", tagged(list))
}

/// The mark that the result of a claim is stored.
pub(super) fn pushed(list: &str, claim: &str) -> String {
    format!("{}:pushed:{claim}", tagged(list))
}

fn refuse<T>(text: String) -> Result<T, StoreError> {
    Err(StoreError::new(ErrorKind::Invalid, text))
}

// === impl Layout ===

impl Layout {
    /// The names for these settings. An error says which setting cannot work in a cluster.
    pub(super) fn new(settings: &RedisSettings) -> Result<Self, StoreError> {
        let route = |queue: &RedisQueue| {
            let route = QueueRoute { list: queue.results.clone(), ttl: queue.results_ttl };
            (queue.name.clone(), route)
        };
        let mut layout = Self {
            cluster: settings.cluster,
            results: settings.results.clone(),
            retries: settings.retries.clone(),
            queues: settings.queues.iter().map(route).collect(),
            own: BTreeSet::new(),
        };
        layout.own = layout.queues.keys().flat_map(|name| layout.queue(name).all()).collect();
        layout.queues.keys().try_for_each(|queue| layout.check(queue))?;
        Ok(layout)
    }

    /// Checks that all keys of a queue are in one slot.
    fn check(&self, queue: &str) -> Result<(), StoreError> {
        if !self.cluster {
            return Ok(());
        }
        let tag = tagged(queue);
        if slot(&tag) != slot(queue) {
            return refuse(format!(
                "queue {queue:?}: in a cluster a name must not have \"}}\" in it, except as in \
                 \"{{tag}}name\""
            ));
        }
        let list = self.route(queue, "").list;
        if slot(&list) != slot(queue) {
            return refuse(format!(
                "queue {queue:?}: its results go to {list:?}, which is in another slot of the \
                 cluster; call it \"{tag}:results\", or leave it out"
            ));
        }
        let retries = self.queue(queue).retries;
        if slot(&retries) != slot(queue) {
            return refuse(format!(
                "queue {queue:?}: its retries go to {retries:?}, which is in another slot of the \
                 cluster; leave that out, and each queue has its own, here \"{tag}:retry\""
            ));
        }
        Ok(())
    }

    /// The keys of a queue.
    pub(super) fn queue(&self, name: &str) -> Keys {
        let tag = tagged(name);
        let base = if self.cluster { tag.clone() } else { name.to_owned() };
        let shared = self.has_shared_retries();
        Keys {
            pending: name.to_owned(),
            claimed: format!("{base}:claimed"),
            owners: format!("{base}:claim-owners"),
            index: format!("{base}:claims-idx"),
            deliveries: format!("{tag}:deliveries"),
            retries: if shared { self.retries.clone() } else { format!("{tag}:retry") },
            dead: format!("{tag}:dead"),
            dead_reasons: format!("{tag}:dead-reasons"),
            dead_members: format!("{tag}:dead-members"),
            dead_count: format!("{tag}:dead-count"),
            sequence: format!("{SEQUENCE}{base}"),
            tag,
        }
    }

    /// Where a result goes: to the list of its queue, else of its message, else of the settings.
    pub(super) fn route(&self, queue: &str, named: &str) -> ResultRoute {
        let route = self.queues.get(queue);
        let named = if self.is_own(queue, named) { "" } else { named };
        let list = route.and_then(|route| route.list.clone()).unwrap_or_else(|| match named {
            "" if self.cluster && self.results == RESULTS => format!("{}:results", tagged(queue)),
            "" => self.results.clone(),
            named => named.to_owned(),
        });
        let ttl = route.and_then(|route| route.ttl).map_or(0, |ttl| ttl.as_secs().max(1));
        ResultRoute { list, ttl }
    }

    /// Whether a key belongs to this queue or to another one that is configured. A producer may
    /// name any list for its results, and a list in the place of a queue would end the queue.
    pub(super) fn is_own(&self, queue: &str, key: &str) -> bool {
        let prefixes = [PAYLOAD, ACTIVE, CANCEL, SEQUENCE];
        let is_prefixed = || prefixes.iter().any(|prefix| key.starts_with(prefix));
        let is_of_queue = || self.queue(queue).all().iter().any(|own| own == key);
        !key.is_empty() && (self.own.contains(key) || is_prefixed() || is_of_queue())
    }

    /// Whether all queues share one set of released messages.
    pub(super) fn has_shared_retries(&self) -> bool {
        !(self.cluster && self.retries == RETRIES)
    }

    /// Whether a queue is configured.
    pub(super) fn knows(&self, queue: &str) -> bool {
        self.queues.contains_key(queue)
    }

    /// Whether one script can use both keys.
    pub(super) fn is_same_slot(&self, one: &str, other: &str) -> bool {
        !self.cluster || slot(one) == slot(other)
    }
}

// === impl Keys ===

impl Keys {
    /// All keys of the queue, with fixed names.
    fn all(self) -> [String; 11] {
        [
            self.pending,
            self.claimed,
            self.owners,
            self.index,
            self.deliveries,
            self.retries,
            self.dead,
            self.dead_reasons,
            self.dead_members,
            self.dead_count,
            self.sequence,
        ]
    }

    /// The last sequence number among the messages of one deadline, in seconds.
    pub(super) fn sequence(&self, deadline: u64) -> String {
        format!("{}:{deadline}", self.sequence)
    }

    /// The receipt of a message.
    pub(super) fn receipt(&self, id: &str) -> String {
        format!("{}:receipt:{id}", self.tag)
    }

    /// The mark that a claim has ended.
    pub(super) fn ended(&self, owner: &str) -> String {
        format!("{}:ended:{owner}", self.tag)
    }
}
