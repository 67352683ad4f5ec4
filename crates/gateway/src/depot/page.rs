//! What there is to see and to do about queues: the page `/dispatch`, and the dead.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::{Dead, Redriven, StoreError, Trouble, Which};

use super::Depot;
use crate::clock::moment;
use crate::dispatch::Dispatcher;
use crate::dispatch::gates::Explanation;

/// How long queues may take to be counted.
const COUNT_LIMIT: Duration = Duration::from_secs(1);
/// The most of the dead on one page.
const PAGE_MAX: usize = 1000;

/// Queues and gates.
#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    queues: Vec<QueueEntry>,
    gates: Vec<Explanation>,
    /// Why stores cannot be used.
    trouble: Vec<String>,
}

#[derive(Debug, Serialize)]
struct QueueEntry {
    name: String,
    target: String,
    gates: Vec<String>,
    weight: f64,
    pending: u64,
    retry: u64,
    claimed: u64,
    dead: u64,
    in_flight: usize,
    ends: std::collections::BTreeMap<&'static str, u64>,
}

/// A list of the dead.
#[derive(Debug, Serialize)]
pub(crate) struct Graveyard {
    queue: String,
    dead: Vec<Grave>,
    /// What to ask for the next page, where there may be one.
    next: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Grave {
    number: u64,
    id: String,
    buried_at: u64,
    failures: u32,
    why: String,
}

/// What is to be done with the dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Redrive,
    Purge,
}

/// Which of the dead are meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meant {
    queue: String,
    /// Those with these ids; without it, all of them.
    ids: Option<Vec<String>>,
}

/// What was done.
#[derive(Debug, Serialize)]
pub(crate) struct Done {
    queue: String,
    messages: u64,
    /// How many of those that were meant stay as they are.
    stay: u64,
    /// Why, for the first of them.
    why: Vec<Stays>,
}

#[derive(Debug, Serialize)]
struct Stays {
    id: String,
    why: String,
}

// === impl Depot ===

impl Depot {
    /// Everything at one look.
    pub(crate) async fn overview(&self) -> Overview {
        let counted = async {
            for dispatcher in self.dispatchers() {
                dispatcher.count().await;
            }
        };
        // What a store that is away had last is better than no page.
        let _ = tokio::time::timeout(COUNT_LIMIT, counted).await;
        let queues = self.dispatchers().flat_map(|dispatcher| {
            dispatcher.views().map(|view| {
                let depth = view.row.depth();
                QueueEntry {
                    name: view.queue.name.clone(),
                    target: view.target.to_owned(),
                    gates: view.queue.gates.clone(),
                    weight: view.queue.weight,
                    pending: depth.pending,
                    retry: depth.retry,
                    claimed: depth.claimed,
                    dead: depth.dead,
                    in_flight: view.in_flight,
                    ends: view.row.ends().collect(),
                }
            })
        });
        let queues = queues.collect();
        Overview { queues, gates: self.gates.explain(), trouble: self.troubles() }
    }

    /// A page of a queue's dead.
    pub(crate) async fn dead(
        &self,
        queue: &str,
        after: Option<u64>,
    ) -> Result<Graveyard, StoreError> {
        let dead = self.of(queue)?.store().dead(queue, after, PAGE_MAX).await?;
        let next = (dead.len() == PAGE_MAX).then(|| dead.last().map(|dead| dead.number)).flatten();
        Ok(Graveyard { queue: queue.into(), dead: dead.into_iter().map(Grave::of).collect(), next })
    }

    /// Lets some of the dead wait again, or forgets them.
    pub(crate) async fn act(&self, deed: Deed, meant: Meant) -> Result<Done, StoreError> {
        let Meant { queue, ids } = meant;
        let which = ids.map_or(Which::All, Which::Ids);
        let store = self.of(&queue)?.store();
        let Redriven { again, stay, why } = match deed {
            Deed::Redrive => store.redrive(&queue, which, moment()).await?,
            Deed::Purge => {
                let again = store.purge(&queue, which).await?;
                Redriven { again, ..Redriven::default() }
            }
        };
        let why = why.into_iter().map(|(id, why)| Stays { id, why }).collect();
        Ok(Done { queue, messages: again, stay, why })
    }

    fn of(&self, queue: &str) -> Result<&Arc<Dispatcher>, StoreError> {
        let has =
            |dispatcher: &&Arc<Dispatcher>| dispatcher.views().any(|view| view.queue.name == queue);
        self.dispatchers().find(has).ok_or_else(|| {
            let names = |dispatcher: &Arc<Dispatcher>| {
                dispatcher.views().map(|view| view.queue.name.clone()).collect::<Vec<_>>()
            };
            let known: Vec<String> = self.dispatchers().flat_map(names).collect();
            let what = format!("there is no queue {queue:?}; known are: {}", known.join(", "));
            StoreError::new(Trouble::Asked, what)
        })
    }
}

// === impl Overview ===

impl std::fmt::Display for Overview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for trouble in &self.trouble {
            writeln!(f, "the queue cannot be used: {trouble}")?;
        }
        for queue in &self.queues {
            let QueueEntry { name, target, pending, retry, claimed, dead, in_flight, .. } = queue;
            writeln!(f, "queue {name} to {target} by {}", queue.gates.join(" and "))?;
            writeln!(
                f,
                "  {pending} wait, {retry} wait for another try, {claimed} claimed \
                 ({in_flight} of them here), {dead} dead"
            )?;
            let ends: Vec<String> = queue
                .ends
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(end, count)| format!("{count} {end}"))
                .collect();
            if !ends.is_empty() {
                writeln!(f, "  so far {}", ends.join(", "))?;
            }
        }
        f.write_str(&Explanation::table(&self.gates))
    }
}

// === impl Grave ===

impl Grave {
    fn of(dead: Dead) -> Self {
        let Dead { number, id, at, why, failures } = dead;
        Self { number, id, buried_at: at.secs(), failures, why }
    }
}
