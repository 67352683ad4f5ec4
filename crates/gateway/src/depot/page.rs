//! What there is to see and to do about queues: the page `/dispatch`, and the dead.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::{DeadLetter, ErrorKind, Redriven, Selection, Store, StoreError};

use super::Depot;
use crate::clock::moment;
use crate::config::BATCH_QUEUE;
use crate::dispatch::gates::Explanation;
use crate::dispatch::{Dispatcher, View};

/// How long queues may take to be counted.
const COUNT_LIMIT: Duration = Duration::from_secs(1);
/// How long a store may take to say that it is there before anything is asked of its dead. What is
/// asked then may take longer: half of it done would be worse.
const WAKE_LIMIT: Duration = Duration::from_secs(2);
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
    /// How many there are; nothing while the store cannot say.
    pending: Option<u64>,
    retry: Option<u64>,
    claimed: Option<u64>,
    dead: Option<u64>,
    in_flight: usize,
    ends: std::collections::BTreeMap<&'static str, u64>,
    /// Why its store cannot be used.
    trouble: Option<String>,
    /// Why its target takes nothing more.
    overload: Option<String>,
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
        let closed = self.folder.as_ref().and_then(|folder| folder.trouble());
        let (mut queues, mut trouble) = (Vec::new(), Vec::from_iter(closed));
        for dispatcher in self.dispatchers() {
            let counted = within(COUNT_LIMIT, dispatcher.count()).await;
            let error = counted.as_ref().err().map(ToString::to_string);
            // What was found before is worth more than that nothing is found now.
            let why = dispatcher.trouble().or(error);
            let entry = |view| QueueEntry::of(view, counted.is_ok(), why.clone());
            queues.extend(dispatcher.views().map(entry));
            trouble.extend(why.clone());
        }
        Overview { queues, gates: self.gates.explain(), trouble }
    }

    /// A page of a queue's dead.
    pub(crate) async fn dead(
        &self,
        queue: &str,
        after: Option<u64>,
    ) -> Result<Graveyard, StoreError> {
        let dead = self.awake(queue).await?.dead_letters(queue, after, PAGE_MAX).await?;
        let next = (dead.len() == PAGE_MAX).then(|| dead.last().map(|dead| dead.number)).flatten();
        Ok(Graveyard { queue: queue.into(), dead: dead.into_iter().map(Grave::of).collect(), next })
    }

    /// Lets some of the dead wait again, or forgets them.
    pub(crate) async fn act(&self, deed: Deed, meant: Meant) -> Result<Done, StoreError> {
        let Meant { queue, ids } = meant;
        let which = ids.map_or(Selection::All, Selection::Ids);
        let store = self.awake(&queue).await?;
        let Redriven { requeued, skipped, reasons } = match deed {
            Deed::Redrive => store.redrive(&queue, which, moment()).await?,
            Deed::Purge => {
                let requeued = store.purge(&queue, which).await?;
                Redriven { requeued, ..Redriven::default() }
            }
        };
        let why = reasons.into_iter().map(|(id, why)| Stays { id, why }).collect();
        Ok(Done { queue, messages: requeued, stay: skipped, why })
    }

    /// The store of a queue, which answers.
    async fn awake(&self, queue: &str) -> Result<&Arc<dyn Store>, StoreError> {
        let store = self.of(queue)?.store();
        within(WAKE_LIMIT, store.depth(queue)).await.map(|_| store)
    }

    fn of(&self, queue: &str) -> Result<&Arc<Dispatcher>, StoreError> {
        let has =
            |dispatcher: &&Arc<Dispatcher>| dispatcher.views().any(|view| view.queue.name == queue);
        self.dispatchers().find(has).ok_or_else(|| {
            let closed = self.folder.as_ref().filter(|_| queue == BATCH_QUEUE);
            if let Some(why) = closed.and_then(|folder| folder.trouble()) {
                return StoreError::new(ErrorKind::Unavailable, why);
            }
            let known = self.queues().join(", ");
            let what = format!("there is no queue {queue:?}; known are: {known}");
            StoreError::new(ErrorKind::Invalid, what)
        })
    }
}

/// What a store says, if it says it in time.
async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let silent = |_| Err(StoreError::new(ErrorKind::Unavailable, "the store does not answer"));
    tokio::time::timeout(limit, answer).await.unwrap_or_else(silent)
}

// === impl Overview ===

impl std::fmt::Display for Overview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for trouble in &self.trouble {
            writeln!(f, "the queue cannot be used: {trouble}")?;
        }
        for queue in &self.queues {
            write!(f, "{queue}")?;
        }
        f.write_str(&Explanation::table(&self.gates))
    }
}

// === impl QueueEntry ===

impl QueueEntry {
    fn of(view: View<'_>, counted: bool, trouble: Option<String>) -> Self {
        let depth = view.row.depth();
        let known = |count: u64| counted.then_some(count);
        Self {
            name: view.queue.name.clone(),
            target: view.target.to_owned(),
            gates: view.queue.gates.clone(),
            weight: view.queue.weight,
            pending: known(depth.pending),
            retry: known(depth.retry),
            claimed: known(depth.claimed),
            dead: known(depth.dead),
            in_flight: view.in_flight,
            ends: view.row.ends().collect(),
            trouble,
            overload: view.overload,
        }
    }
}

impl std::fmt::Display for QueueEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, target, in_flight, .. } = self;
        writeln!(f, "queue {name} to {target} by {}", self.gates.join(" and "))?;
        match [self.pending, self.retry, self.claimed, self.dead] {
            [Some(pending), Some(retry), Some(claimed), Some(dead)] => writeln!(
                f,
                "  {pending} wait, {retry} wait for another try, {claimed} claimed \
                 ({in_flight} of them here), {dead} dead"
            )?,
            _ => writeln!(f, "  nobody knows how many wait, {in_flight} are under way here")?,
        }
        if self.trouble.is_some() {
            writeln!(f, "  nothing goes while its store cannot be used, whatever the gates say")?;
        }
        if let Some(why) = &self.overload {
            writeln!(f, "  its target takes no more: {why}")?;
        }
        let ends = self.ends.iter().filter(|(_, count)| **count > 0);
        let ends: Vec<String> = ends.map(|(end, count)| format!("{count} {end}")).collect();
        if !ends.is_empty() {
            writeln!(f, "  so far {}", ends.join(", "))?;
        }
        Ok(())
    }
}

// === impl Grave ===

impl Grave {
    fn of(dead: DeadLetter) -> Self {
        let DeadLetter { number, id, at, why, failures } = dead;
        Self { number, id, buried_at: at.secs(), failures, why }
    }
}
