//! The page `/dispatch`: each queue and each gate at one moment.

use std::time::Duration;

use serde::Serialize;
use store::{ErrorKind, StoreError};

use super::DurableQueues;
use super::batch_folder::BatchFolder;
use crate::diagnosis::Situation;
use crate::diagnosis::situation::{
    BatchAttempts, BatchQueueState, BatchWork, GateCondition, StoreTrouble,
};
use crate::dispatch::QueueView;
use crate::gates::GateStatus;
use crate::observe::dispatch::{AttemptCounts, QueueMetrics};

/// The time limit for counting the queues.
const COUNT_LIMIT: Duration = Duration::from_secs(1);
/// All queues and gates.
#[derive(Debug, Serialize)]
pub(crate) struct DispatchStatus {
    queues: Vec<QueueStatus>,
    gates: Vec<GateStatus>,
    /// The errors of stores that are unavailable.
    trouble: Vec<String>,
}

#[derive(Debug, Serialize)]
struct QueueStatus {
    name: String,
    target: String,
    gates: Vec<String>,
    weight: f64,
    /// Message counts; `None` while the store is unavailable.
    pending: Option<u64>,
    retry: Option<u64>,
    claimed: Option<u64>,
    dead: Option<u64>,
    /// Whether these are all messages, rather than those that this process holds.
    counts_all: bool,
    in_flight: usize,
    ends: std::collections::BTreeMap<&'static str, u64>,
    /// Why it cannot be used: the error of its store, or of its own data.
    trouble: Option<String>,
    /// Why messages that wait for a retry cannot be kept apart.
    retries_trouble: Option<String>,
    /// Why its target refuses requests.
    overload: Option<String>,
}

// === impl DurableQueues ===

impl DurableQueues {
    /// The current state of all queues and gates.
    pub(crate) async fn status(&self) -> DispatchStatus {
        let folder_error = self.folder.as_ref().and_then(|folder| folder.error());
        let (mut queues, mut trouble) = (Vec::new(), Vec::from_iter(folder_error));
        for dispatcher in self.dispatchers() {
            let counted = within(COUNT_LIMIT, dispatcher.count()).await;
            let error = counted.as_ref().err().map(ToString::to_string);
            // The first error of the store says more than a timeout of this count.
            let why = dispatcher.store_error().or(error);
            let whole = dispatcher.store().counts_all();
            let entry = |view: QueueView<'_>| {
                let why = why.clone().or(view.trouble.clone());
                QueueStatus::of(view, (counted.is_ok() && why.is_none(), whole), why)
            };
            queues.extend(dispatcher.views().map(entry));
            trouble.extend(why.clone());
        }
        DispatchStatus { queues, gates: self.gates.status(), trouble }
    }
}

impl BatchWork for DurableQueues {
    /// Counts are those of the last renewal of leases: a page must not wait for a store.
    fn describe(&self, situation: &mut Situation) {
        situation.stores.extend(self.folder.as_ref().and_then(|folder| folder_trouble(folder)));
        if let Some(shared) = &self.shared {
            let error = shared.dispatcher.store_error();
            let named = |error| StoreTrouble::new(shared.store.section(), error);
            situation.stores.extend(error.map(named));
        }
        for dispatcher in self.dispatchers() {
            situation.batch_queues.extend(dispatcher.views().map(BatchQueueState::from));
        }
        situation.gates.extend(self.gates.status().into_iter().map(GateCondition::from));
    }
}

/// The result of a call, or an error if it takes too long.
pub(super) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let timed_out = |_| Err(StoreError::new(ErrorKind::Unavailable, "the store does not respond"));
    tokio::time::timeout(limit, answer).await.unwrap_or_else(timed_out)
}

fn folder_trouble(folder: &BatchFolder) -> Option<StoreTrouble> {
    let of_store = || folder.dispatcher().and_then(|dispatcher| dispatcher.store_error());
    let full = || folder.batches().and_then(|batches| batches.disk_error());
    let trouble = match folder.error().or_else(of_store) {
        Some(error) => StoreTrouble::new("batch.folder", error),
        None => StoreTrouble::full("batch.folder", full()?),
    };
    Some(trouble.at(folder.path()))
}

// === impl DispatchStatus ===

impl std::fmt::Display for DispatchStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for trouble in &self.trouble {
            writeln!(f, "store unavailable: {trouble}")?;
        }
        for queue in &self.queues {
            write!(f, "{queue}")?;
        }
        f.write_str(&GateStatus::table(&self.gates))
    }
}

// === impl QueueStatus ===

impl QueueStatus {
    fn of(
        view: QueueView<'_>,
        (counted, counts_all): (bool, bool),
        trouble: Option<String>,
    ) -> Self {
        let depth = view.metrics.depth();
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
            counts_all,
            in_flight: view.in_flight,
            ends: view.metrics.ends().collect(),
            trouble,
            retries_trouble: view.retries_trouble,
            overload: view.overload,
        }
    }

    fn counts(&self) -> String {
        let in_flight = self.in_flight;
        match [self.pending, self.retry, self.claimed, self.dead] {
            [Some(pending), Some(retry), Some(_), Some(dead)] if !self.counts_all => format!(
                "{pending} pending here, {retry} waiting for a retry, {in_flight} in flight, \
                 {dead} dead letters since the start; the store does not count the others"
            ),
            [Some(pending), Some(retry), Some(claimed), Some(dead)] => format!(
                "{pending} pending, {retry} waiting for a retry, {claimed} claimed \
                 ({in_flight} by this process), {dead} dead letters"
            ),
            _ => format!("counts unknown, {in_flight} claimed by this process"),
        }
    }
}

impl std::fmt::Display for QueueStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, target, .. } = self;
        writeln!(f, "queue {name}: target {target}, gates {}", self.gates.join(", "))?;
        writeln!(f, "  {}", self.counts())?;
        if let Some(why) = &self.trouble {
            writeln!(f, "  nothing is sent: {why}")?;
        }
        if let Some(why) = &self.retries_trouble {
            writeln!(f, "  messages wait for their retry in their claims: {why}")?;
        }
        if let Some(why) = &self.overload {
            writeln!(f, "  the target refuses requests: {why}")?;
        }
        let ends = self.ends.iter().filter(|(_, count)| **count > 0);
        let ends: Vec<String> = ends.map(|(end, count)| format!("{count} {end}")).collect();
        if !ends.is_empty() {
            writeln!(f, "  total: {}", ends.join(", "))?;
        }
        Ok(())
    }
}

// === impl BatchQueueState ===

impl From<QueueView<'_>> for BatchQueueState {
    fn from(view: QueueView<'_>) -> Self {
        let depth = view.metrics.depth();
        Self {
            name: view.queue.name.clone(),
            gates: view.queue.gates.clone(),
            pending: depth.pending,
            retry: depth.retry,
            in_flight: view.in_flight,
            dead: depth.dead,
            ended: view.metrics.ends().map(|(_, count)| count).sum(),
            ended_lately: 0,
            attempts: BatchAttempts::from(view.metrics),
            attempts_last_minute: BatchAttempts::default(),
            overload: view.overload,
            trouble: view.trouble,
            retries_trouble: view.retries_trouble,
        }
    }
}

// === impl BatchAttempts ===

impl From<&QueueMetrics> for BatchAttempts {
    fn from(metrics: &QueueMetrics) -> Self {
        let AttemptCounts { served, failed } = metrics.attempt_counts();
        let dead = metrics.dead_letters();
        Self { served, failed, dead }
    }
}

// === impl GateCondition ===

impl From<GateStatus> for GateCondition {
    fn from(gate: GateStatus) -> Self {
        Self {
            name: gate.name,
            kind: gate.kind,
            implied: gate.implied,
            open: gate.open,
            spent: gate.spent,
            stale: gate.stale,
            state: gate.state,
            source: gate.source,
            value: gate.value,
            threshold: gate.threshold,
            in_flight: gate.in_flight,
            left: gate.left,
            age_seconds: gate.age_seconds,
        }
    }
}
