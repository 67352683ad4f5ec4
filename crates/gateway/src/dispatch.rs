//! The dispatcher: durable batch work, sent as the gates allow.
//!
//! One loop claims messages, by the fair turns of queues and tenants and only as many as the gates
//! and the workers have room for (`pump`). Each claimed message is one task that sends it and
//! keeps what comes back (`flight`); what an answer means is `verdict`. Beside them claims are
//! renewed, cancellations heard and lost ones let go (`tend`). `gates` say how much may go, and
//! `target` whether it is taken where it goes.

mod flight;
pub(crate) mod gates;
mod pump;
mod target;
mod tend;
mod verdict;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::{ClaimRef, Store};
use tokio::sync::{Notify, oneshot, watch};

use crate::config::resolved::dispatch::{Dispatch, Queue};
use crate::ingress::headers::fresh_id;
use crate::observe::dispatch::{Board, Row};
use crate::upstream::client::{BaseUrl, Client};
use gates::{Gates, Way};
use target::Condition;
use verdict::Backoff;

/// A dispatcher and what it has under way.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    /// A name that no other dispatcher has.
    name: String,
    store: Arc<dyn Store>,
    gates: Arc<Gates>,
    settings: Dispatch,
    lines: Vec<Line>,
    client: Arc<Client>,
    board: Arc<Board>,
    /// The messages that are claimed.
    held: Mutex<BTreeMap<ClaimRef, Whereabouts>>,
    /// Why the store cannot be used, while that is so.
    trouble: Mutex<Option<String>>,
    /// Somebody has ended: there is room.
    freed: Notify,
    closing: watch::Sender<bool>,
}

/// A queue, where its messages go, and what lets them.
#[derive(Debug)]
struct Line {
    queue: Queue,
    target: BaseUrl,
    way: Way,
    row: Arc<Row>,
    condition: Condition,
}

/// What the pages show of a queue.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) target: &'a str,
    pub(crate) row: &'a Row,
    pub(crate) in_flight: usize,
    /// Why the target takes nothing more, while that is so.
    pub(crate) overload: Option<String>,
}

/// What a message under way is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// Somebody wants it cancelled.
    Cancelled,
    /// It is somebody else's now.
    Lost,
    /// It goes back at once: this is the end.
    HandBack,
}

/// Where a claimed message is, and how it hears that it must end.
#[derive(Debug)]
enum Whereabouts {
    /// Before a gate: what it was told is kept until somebody looks.
    AtGate(Option<Word>),
    /// Under way, unless it was told already.
    UnderWay(Option<oneshot::Sender<Word>>),
}

/// What a dispatcher is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) settings: Dispatch,
    pub(crate) client: Arc<Client>,
    pub(crate) board: Arc<Board>,
    /// Where messages go of queues that name no target.
    pub(crate) own: Option<BaseUrl>,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Puts it together; the text says what does not fit.
    pub(crate) fn new(parts: Parts) -> Result<Arc<Self>, String> {
        let Parts { store, gates, settings, client, board, own } = parts;
        let line = |queue: &Queue| {
            let target = match (&queue.target, &own) {
                (Some(url), _) => BaseUrl::parse(url)
                    .map_err(|why| format!("the target of queue {:?}: {why}", queue.name))?,
                (None, Some(own)) => own.clone(),
                (None, None) => return Err(format!("the queue {:?} has no target", queue.name)),
            };
            let way = gates.named(&queue.gates)?;
            let row = board.row(&queue.name);
            let condition = Condition::default();
            Ok(Line { queue: queue.clone(), target, way, row, condition })
        };
        let lines: Result<Vec<Line>, String> = settings.queues.iter().map(line).collect();
        let lines = lines?;
        if lines.is_empty() {
            return Err("there is no queue: name one in [[dispatch.queues]] or by --queue".into());
        }
        Ok(Arc::new(Self {
            name: fresh_id(),
            store,
            gates,
            settings,
            lines,
            client,
            board,
            held: Mutex::default(),
            trouble: Mutex::default(),
            freed: Notify::new(),
            closing: watch::Sender::new(false),
        }))
    }

    /// The store itself, for those who look after the dead.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What the pages show of each queue.
    pub(crate) fn views(&self) -> impl Iterator<Item = View<'_>> {
        let mut in_flight: BTreeMap<String, usize> = BTreeMap::new();
        for held in self.held().keys() {
            *in_flight.entry(held.queue.clone()).or_default() += 1;
        }
        self.lines.iter().map(move |line| View {
            queue: &line.queue,
            target: &line.target.place,
            row: &line.row,
            in_flight: in_flight.get(&line.queue.name).copied().unwrap_or(0),
            overload: line.condition.why(),
        })
    }

    /// The store cannot be used yet.
    pub(crate) fn is_in_trouble(&self, why: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why the store cannot be used, if it cannot.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<ClaimRef, Whereabouts>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, held: &ClaimRef, word: Word) {
        match self.held().get_mut(held) {
            Some(Whereabouts::AtGate(told)) => {
                *told = Some(word);
                self.freed.notify_one();
            }
            Some(Whereabouts::UnderWay(tell)) => {
                if let Some(tell) = tell.take() {
                    // One that has ended meanwhile need not hear it.
                    let _ = tell.send(word);
                }
            }
            None => {}
        }
    }

    /// What a message before a gate was told.
    fn told(&self, held: &ClaimRef) -> Option<Word> {
        match self.held().get(held) {
            Some(Whereabouts::AtGate(told)) => *told,
            _ => None,
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff { first: self.settings.backoff, longest: self.settings.backoff_max }
    }

    fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Resolves when the end begins.
    async fn closed(&self) {
        // A sender that is gone means the same.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}
