//! The claim loop: claims as many messages as may go now, in fair order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flow::{LaneScheduler, Weight};
use store::{Claim, ClaimRequest, Lane, StoreError};
use tokio::time::Instant;

use super::message_size::MessageSize;
use super::target::lock;
use super::{Dispatcher, ServedQueue, StopReason};
use crate::clock::moment;
use crate::gates::GatePermit;
use crate::task;

/// The most messages claimed in one call of the store.
const CLAIM_MAX: usize = 64;
/// The longest pause between two looks at the store: producers of a shared store send no
/// notification.
const REST_MAX: Duration = Duration::from_secs(1);
/// The pause after an error of the store.
const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// The longest time between two searches for expired claims.
const RECLAIM_MAX: Duration = Duration::from_secs(5);

/// The time limit of a shutdown with no claims while the store is unavailable.
const SHUTDOWN_MIN: Duration = Duration::from_millis(500);
/// The time limit of every shutdown.
const SHUTDOWN_MAX: Duration = Duration::from_secs(4);

/// The state of the loop between two iterations.
#[derive(Debug)]
struct ClaimLoop {
    dispatcher: Arc<Dispatcher>,
    /// The fair order of queues, and of the tenants in each queue.
    queue_turns: LaneScheduler<usize>,
    tenant_turns: Vec<LaneScheduler<String>>,
    /// For each queue, a claimed message that its gates do not allow yet, and its size.
    waiting_at_gate: Vec<Option<(Claim, MessageSize)>>,
    /// The time of the next search for expired claims.
    reclaim_at: Instant,
}

/// The number of messages to claim from one lane.
#[derive(Debug)]
struct LaneClaim {
    at: usize,
    tenant: String,
    most: usize,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Sends messages until `closing` resolves, then releases all claims.
    pub(crate) async fn run(self: Arc<Self>, closing: impl Future<Output = ()> + Send + 'static) {
        let told = Arc::clone(&self);
        task::spawn(async move {
            closing.await;
            told.closing.send_replace(true);
        });
        tokio::select! {
            () = Arc::clone(&self).work() => {}
            () = self.overdue() => {
                let messages = self.claims().len();
                if !self.has_nothing_to_lose() {
                    tracing::warn!(messages, "the shutdown took too long; messages that were \
                                              not released are pending when their lease expires");
                }
            }
        }
    }

    async fn work(self: Arc<Self>) {
        self.join().await;
        task::spawn(Arc::clone(&self).keep_leases());
        ClaimLoop::new(Arc::clone(&self)).run().await;
        self.release_all().await;
        // What is not given back comes to other dispatchers when its lease ends.
        let _ = tokio::time::timeout(SHUTDOWN_MIN, self.store.close()).await;
        // Without this call, the other dispatchers notice after a while.
        let _ = tokio::time::timeout(SHUTDOWN_MIN, self.leave()).await;
    }

    /// Resolves when the shutdown has taken too long.
    async fn overdue(&self) {
        self.closed().await;
        tokio::time::sleep(SHUTDOWN_MIN).await;
        if !self.has_nothing_to_lose() {
            tokio::time::sleep(SHUTDOWN_MAX - SHUTDOWN_MIN).await;
        }
    }

    /// Whether the store is unavailable while no message is claimed.
    fn has_nothing_to_lose(&self) -> bool {
        self.claims().is_empty() && self.store_error().is_some()
    }
}

// === impl ClaimLoop ===

impl ClaimLoop {
    fn new(dispatcher: Arc<Dispatcher>) -> Self {
        let count = dispatcher.queues.len();
        Self {
            dispatcher,
            queue_turns: LaneScheduler::default(),
            tenant_turns: (0..count).map(|_| LaneScheduler::default()).collect(),
            waiting_at_gate: (0..count).map(|_| None).collect(),
            reclaim_at: Instant::now(),
        }
    }

    async fn run(mut self) {
        let dispatcher = Arc::clone(&self.dispatcher);
        let mut look = true;
        while !dispatcher.is_closing() {
            // Taken before the iteration, so that a change during it ends the pause below.
            let changed = dispatcher.store.changed();
            let started = match self.run_once(look).await {
                Ok(started) => started,
                Err(error) => {
                    self.store_failed(&error);
                    tokio::time::sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            self.store_recovered();
            if started > 0 {
                continue;
            }
            let due = moment_left(dispatcher.next_due.load(Ordering::Relaxed));
            let rest = self.reclaim_at.min(Instant::now() + due.min(REST_MAX));
            look = tokio::select! {
                () = changed => true,
                () = dispatcher.gates.changed() => false,
                () = dispatcher.freed.notified() => false,
                () = dispatcher.closed() => false,
                () = tokio::time::sleep_until(rest) => true,
            };
        }
    }

    /// Sends all messages that may go now and returns their number. If the gates are closed, it
    /// reads the store only if the store may have changed: some gates notify often, and a read
    /// costs more than a notification.
    async fn run_once(&mut self, look: bool) -> Result<usize, StoreError> {
        self.reclaim().await?;
        let mut started = self.send_waiting_at_gates();
        // To plan without a free worker would tell the scheduler that no queue waits.
        if self.free_workers() == 0 || !(look || self.has_room()) {
            return Ok(started);
        }
        let mut lanes = self.lanes().await?;
        self.yield_to_earlier(&lanes).await;
        self.dispatcher.restrain(&mut lanes);
        for turn in self.plan(&lanes) {
            started += self.claim(turn).await?;
        }
        Ok(started)
    }

    async fn reclaim(&mut self) -> Result<(), StoreError> {
        let dispatcher = Arc::clone(&self.dispatcher);
        let next_due = &dispatcher.next_due;
        if Instant::now() < self.reclaim_at
            && !moment_left(next_due.load(Ordering::Relaxed)).is_zero()
        {
            return Ok(());
        }
        // Messages that are released during this call are due later, or found by it.
        next_due.store(u64::MAX, Ordering::Relaxed);
        let mut pause = RECLAIM_MAX;
        for served in &dispatcher.queues {
            if !dispatcher.is_usable(served).await? {
                continue;
            }
            let now = moment();
            let reclaimed = dispatcher.store.reclaim(&served.queue.name, now).await;
            let Some(reclaimed) = dispatcher.of_queue(served, reclaimed).await? else { continue };
            served.metrics.reclaimed(reclaimed.lost);
            if reclaimed.lost > 0 {
                let queue = &served.queue.name;
                tracing::warn!(
                    queue,
                    claims = reclaimed.lost,
                    "leases expired, the messages are pending again"
                );
            }
            if let Some(next) = reclaimed.next {
                // The minimum prevents a busy loop on a lease that expires during this call.
                pause = pause.min(next.since(now).max(Duration::from_millis(10)));
            }
        }
        self.reclaim_at = Instant::now() + pause;
        Ok(())
    }

    /// Sends the messages that waited for a gate, before any other message of their queue.
    fn send_waiting_at_gates(&mut self) -> usize {
        let dispatcher = Arc::clone(&self.dispatcher);
        let mut started = 0;
        for (at, served) in dispatcher.queues.iter().enumerate() {
            let Some((mut claim, size)) = self.waiting_at_gate[at].take() else { continue };
            match dispatcher.stop_reason(&claim.reference) {
                Some(StopReason::Lost) => {
                    dispatcher.untrack(&claim.reference);
                    continue;
                }
                Some(StopReason::Cancelled) => claim.cancelled = true,
                Some(StopReason::Release) | None => {}
            }
            match self.acquire(served, &claim, size) {
                Ok(permit) => {
                    dispatcher.start(at, claim, permit);
                    started += 1;
                }
                Err(()) => self.waiting_at_gate[at] = Some((claim, size)),
            }
        }
        started
    }

    /// Whether the gates of some queue allow a message.
    fn has_room(&self) -> bool {
        let mut queues = self.dispatcher.queues.iter().zip(&self.waiting_at_gate);
        queues.any(|(served, waiting_at_gate)| {
            waiting_at_gate.is_none() && self.dispatcher.gates.room(&served.gates) > 0
        })
    }

    /// The lanes of each queue.
    async fn lanes(&self) -> Result<Vec<(usize, Vec<Lane>)>, StoreError> {
        let mut all = Vec::new();
        for (at, served) in self.dispatcher.queues.iter().enumerate() {
            if !self.dispatcher.is_usable(served).await? {
                continue;
            }
            let lanes = self.dispatcher.store.lanes(&served.queue.name, moment()).await;
            let lanes = self.dispatcher.of_queue(served, lanes).await?;
            all.extend(lanes.filter(|lanes| !lanes.is_empty()).map(|lanes| (at, lanes)));
        }
        Ok(all)
    }

    /// Releases a message that waits for a gate if a message with an earlier deadline arrived.
    async fn yield_to_earlier(&mut self, lanes: &[(usize, Vec<Lane>)]) {
        for (at, lanes) in lanes {
            let Some((claim, _)) = &self.waiting_at_gate[*at] else { continue };
            let earlier = |lane: &Lane| lane.deadline < claim.message.deadline;
            if lanes.iter().any(earlier)
                && let Some((claim, _)) = self.waiting_at_gate[*at].take()
            {
                self.dispatcher.release_unsent(claim.reference).await;
            }
        }
    }

    /// The number of messages to claim from each lane: fair among queues, then among tenants.
    fn plan(&mut self, lanes: &[(usize, Vec<Lane>)]) -> Vec<LaneClaim> {
        let dispatcher = Arc::clone(&self.dispatcher);
        let queues = &dispatcher.queues;
        let waiting = lanes.iter().map(|(at, lanes)| {
            let waiting: u64 = lanes.iter().map(|lane| lane.waiting).sum();
            // No message overtakes one of its queue that waits for a gate.
            let room = match self.waiting_at_gate[*at] {
                Some(_) => 0,
                None => dispatcher.gates.room(&queues[*at].gates),
            };
            (*at, weight(queues[*at].queue.weight), count(waiting.min(room)))
        });
        let turns = self.queue_turns.plan(waiting, self.free_workers().min(CLAIM_MAX));
        let mut plan = Vec::new();
        for (at, lanes) in lanes {
            let Some((_, most)) = turns.iter().find(|(turn, _)| turn == at) else {
                plan.extend(expired(*at, lanes));
                continue;
            };
            let waiting = lanes.iter().map(|lane| {
                let weight = queues[*at].tenant_weight(&lane.tenant);
                (lane.tenant.clone(), weight, count(lane.waiting))
            });
            let turns = self.tenant_turns[*at].plan(waiting, *most);
            plan.extend(turns.into_iter().map(|(tenant, most)| LaneClaim {
                at: *at,
                tenant,
                most,
            }));
        }
        plan
    }

    /// Claims messages of one lane and sends those that the gates allow; returns their number.
    async fn claim(&mut self, turn: LaneClaim) -> Result<usize, StoreError> {
        let LaneClaim { at, tenant, most } = turn;
        let dispatcher = Arc::clone(&self.dispatcher);
        let served = &dispatcher.queues[at];
        let until = moment().after(dispatcher.settings.lease);
        let request = ClaimRequest {
            queue: served.queue.name.clone(),
            tenant: tenant.clone(),
            limit: most,
            until,
        };
        let mut started = 0;
        let claims = dispatcher.store.claim(request, moment()).await;
        for claim in dispatcher.of_queue(served, claims).await?.into_iter().flatten() {
            dispatcher.track(&claim.reference);
            let size = served.measure(&claim.message).await;
            match self.acquire(served, &claim, size) {
                Ok(permit) => {
                    self.charge((at, &tenant), permit.as_ref());
                    dispatcher.start(at, claim, permit);
                    started += 1;
                }
                Err(()) if self.waiting_at_gate[at].is_none() => {
                    self.waiting_at_gate[at] = Some((claim, size))
                }
                Err(()) => dispatcher.release_unsent(claim.reference).await,
            }
        }
        Ok(started)
    }

    /// Charges the queue and the tenant for a message, unless nothing is sent for it.
    fn charge(&mut self, (at, tenant): (usize, &String), permit: Option<&GatePermit>) {
        if permit.is_some() {
            let served = &self.dispatcher.queues[at];
            self.queue_turns.charge(&at, weight(served.queue.weight));
            self.tenant_turns[at].charge(tenant, served.tenant_weight(tenant));
        }
    }

    /// Acquires the gates for a message. An expired or cancelled message needs none, because
    /// nothing is sent for it.
    fn acquire(
        &self,
        served: &ServedQueue,
        claim: &Claim,
        size: MessageSize,
    ) -> Result<Option<GatePermit>, ()> {
        if claim.cancelled || claim.message.deadline <= moment() {
            return Ok(None);
        }
        let size = served.size_at_gates(size);
        self.dispatcher.gates.try_acquire(&served.gates, size).map(Some).map_err(drop)
    }

    fn free_workers(&self) -> usize {
        self.dispatcher.settings.workers.saturating_sub(self.dispatcher.claims().len())
    }

    fn store_failed(&self, error: &StoreError) {
        let mut store_error = lock(&self.dispatcher.store_error);
        if store_error.replace(error.to_string()).is_none() {
            tracing::error!(%error, "the store is unavailable, trying again");
        }
    }

    fn store_recovered(&self) {
        if lock(&self.dispatcher.store_error).take().is_some() {
            tracing::info!("the store is available again");
        }
    }
}

// === impl ServedQueue ===

impl ServedQueue {
    fn tenant_weight(&self, tenant: &str) -> Weight {
        let configured = self.queue.tenants.iter().find(|(name, _)| name == tenant);
        weight(configured.map_or(1.0, |(_, weight)| *weight))
    }
}

/// Claims for expired messages, which get their result although the gates are closed: the first of
/// each lane, one at a time.
fn expired(at: usize, lanes: &[Lane]) -> impl Iterator<Item = LaneClaim> {
    let now = moment();
    let expired = lanes.iter().filter(move |lane| lane.deadline <= now);
    expired.map(move |lane| LaneClaim { at, tenant: lane.tenant.clone(), most: 1 })
}

/// The time until a moment in milliseconds since 1970.
fn moment_left(millis: u64) -> Duration {
    Duration::from_millis(millis.saturating_sub(moment().millis()))
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The configuration has checked the weights.
fn weight(weight: f64) -> Weight {
    Weight::new(weight).unwrap_or(Weight::ONE)
}
