//! The names of all keys, and which slot of a cluster each is in.
//!
//! Names without braces are llm-d-async's own, byte for byte. In a cluster what belongs to a queue
//! must be in the slot of its name, so those names carry it in braces, as they do there. What only
//! Tidegate keeps carries it always.

use std::collections::BTreeMap;
use std::time::Duration;

use super::RedisSettings;
use crate::error::{ErrorKind, StoreError};

/// Where results go unless somebody says otherwise.
pub(super) const RESULTS: &str = "result-list";

/// Where messages wait for another try unless somebody says otherwise.
pub(super) const RETRIES: &str = "retry-sortedset";

/// Where those who claim hear that there is something new.
pub(super) const NUDGE: &str = "tidegate:nudge";

/// How the names of bodies begin that are kept apart. Nothing else may be named by a message.
const PAYLOAD: &str = "request-payload:";

const SLOTS: u16 = 16_384;

/// How keys are named, for all queues.
#[derive(Debug)]
pub(super) struct Layout {
    cluster: bool,
    results: String,
    retries: String,
    queues: BTreeMap<String, Way>,
}

/// Where the results of one queue go.
#[derive(Debug, Default)]
struct Way {
    list: Option<String>,
    ttl: Option<Duration>,
}

/// The keys of one queue.
#[derive(Debug)]
pub(super) struct Keys {
    /// Messages that wait, by deadline.
    pub(super) pending: String,
    /// Claimed messages as they are.
    pub(super) claimed: String,
    /// Who holds each claim.
    pub(super) owners: String,
    /// When each claim runs out.
    pub(super) index: String,
    /// How often each was taken.
    pub(super) deliveries: String,
    /// Messages that wait for another try.
    pub(super) retries: String,
    /// The numbers of the dead.
    pub(super) dead: String,
    /// Why each is dead.
    pub(super) reasons: String,
    /// The dead as they are.
    pub(super) corpses: String,
    /// The last number of the dead.
    pub(super) count: String,
    tag: String,
    sequence: String,
}

/// Where a result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The list.
    pub(super) list: String,
    /// For how many seconds it is kept after the last one came; zero for ever.
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

/// The part of a key that decides its slot: what is in the first braces, if anything is.
fn hash_tag(key: &str) -> &str {
    let inside = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inside.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// A name to which more can be added without leaving its slot.
fn tagged(name: &str) -> String {
    if hash_tag(name) == name { format!("{{{name}}}") } else { name.to_owned() }
}

/// Which generation of a request is under way.
pub(super) fn active(id: &str) -> String {
    format!("request-active:{id}")
}

/// Which generation of a request somebody wants cancelled.
pub(super) fn cancel(id: &str) -> String {
    format!("request-cancel:{id}")
}

/// The body of a request, apart from it.
pub(super) fn payload(id: &str, token: &str) -> String {
    format!("{PAYLOAD}{id}:{token}")
}

/// Whether a key holds a body. A message that names another one is not to be trusted: we read what
/// it names, and remove it.
pub(super) fn is_payload(key: &str) -> bool {
    key.starts_with(PAYLOAD)
}

/// Results that somebody is taking away.
pub(super) fn aside(list: &str) -> String {
    format!("{}:taken", tagged(list))
}

/// That the result of a claim was kept.
pub(super) fn pushed(list: &str, claim: &str) -> String {
    format!("{}:pushed:{claim}", tagged(list))
}

fn refuse<T>(text: String) -> Result<T, StoreError> {
    Err(StoreError::new(ErrorKind::Invalid, text))
}

// === impl Layout ===

impl Layout {
    /// The names for these settings, if they can work.
    pub(super) fn new(settings: &RedisSettings) -> Result<Self, StoreError> {
        let way = |queue: &super::RedisQueue| {
            let way = Way { list: queue.results.clone(), ttl: queue.results_ttl };
            (queue.name.clone(), way)
        };
        let layout = Self {
            cluster: settings.cluster,
            results: settings.results.clone(),
            retries: settings.retries.clone(),
            queues: settings.queues.iter().map(way).collect(),
        };
        layout.queues.keys().try_for_each(|queue| layout.check(queue))?;
        Ok(layout)
    }

    /// In a cluster, what belongs to a queue must be in one slot.
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
        let own_retries = self.cluster && self.retries == RETRIES;
        Keys {
            pending: name.to_owned(),
            claimed: format!("{base}:claimed"),
            owners: format!("{base}:claim-owners"),
            index: format!("{base}:claims-idx"),
            deliveries: format!("{tag}:deliveries"),
            retries: if own_retries { format!("{tag}:retry") } else { self.retries.clone() },
            dead: format!("{tag}:dead"),
            reasons: format!("{tag}:dead-reasons"),
            corpses: format!("{tag}:dead-members"),
            count: format!("{tag}:dead-count"),
            sequence: format!("request-seq:{base}"),
            tag,
        }
    }

    /// Where a result goes: to the list of its queue, or of its message, or of all.
    pub(super) fn route(&self, queue: &str, wish: &str) -> Route {
        let way = self.queues.get(queue);
        let list = way.and_then(|way| way.list.clone()).unwrap_or_else(|| match wish {
            "" if self.cluster && self.results == RESULTS => format!("{}:results", tagged(queue)),
            "" => self.results.clone(),
            wish => wish.to_owned(),
        });
        let ttl = way.and_then(|way| way.ttl).map_or(0, |ttl| ttl.as_secs().max(1));
        Route { list, ttl }
    }

    /// Whether retries of all queues are in one set.
    pub(super) fn shared_retries(&self) -> bool {
        !(self.cluster && self.retries == RETRIES)
    }

    /// Whether a queue was told of.
    pub(super) fn knows(&self, queue: &str) -> bool {
        self.queues.contains_key(queue)
    }

    /// Whether one script can touch both.
    pub(super) fn together(&self, one: &str, other: &str) -> bool {
        !self.cluster || slot(one) == slot(other)
    }
}

// === impl Keys ===

impl Keys {
    /// The last number among messages of one deadline, in seconds.
    pub(super) fn sequence(&self, deadline: u64) -> String {
        format!("{}:{deadline}", self.sequence)
    }

    /// That a message is known.
    pub(super) fn receipt(&self, id: &str) -> String {
        format!("{}:receipt:{id}", self.tag)
    }

    /// That a claim has ended.
    pub(super) fn ended(&self, owner: &str) -> String {
        format!("{}:ended:{owner}", self.tag)
    }
}
