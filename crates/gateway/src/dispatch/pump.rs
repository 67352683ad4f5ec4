//! The loop that claims: as many messages as may go now, by fair turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::{LaneScheduler, Weight};
use store::{Claim, ClaimRequest, Lane, StoreError};
use tokio::time::Instant;

use super::gates::Pass;
use super::{Dispatcher, Line, Word};
use crate::clock::moment;
use crate::task;

/// The most messages that are claimed in one step.
const CLAIM_MAX: usize = 64;
/// How long it rests at most: what others put into a shared store may come without a word.
const REST_MAX: Duration = Duration::from_secs(1);
/// How long it rests when the store has failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);
/// What comes back is looked for at least this often.
const REVIVE_MAX: Duration = Duration::from_secs(5);

/// How long the end may take when there is nothing to hand back and nobody to tell.
const PARTING: Duration = Duration::from_millis(500);
/// How long the end may take, all in all.
const END_LIMIT: Duration = Duration::from_secs(4);

/// What the loop remembers from one round to the next.
#[derive(Debug)]
struct Pump {
    dispatcher: Arc<Dispatcher>,
    /// Whose turn it is, among queues and then among the tenants of each.
    queues: LaneScheduler<usize>,
    tenants: Vec<LaneScheduler<String>>,
    /// Of each queue, a message that was claimed and does not fit through its gates yet.
    at_gate: Vec<Option<Claim>>,
    /// When to look for what comes back.
    revive_at: Instant,
}

/// So many of one lane.
#[derive(Debug)]
struct Turn {
    at: usize,
    tenant: String,
    most: usize,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Sends for as long as it is let, then hands everything back.
    pub(crate) async fn run(self: Arc<Self>, closing: impl Future<Output = ()> + Send + 'static) {
        let told = Arc::clone(&self);
        task::spawn(async move {
            closing.await;
            told.closing.send_replace(true);
        });
        tokio::select! {
            () = Arc::clone(&self).work() => {}
            () = self.overdue() => {
                let messages = self.held().len();
                if !self.has_nothing_to_lose() {
                    tracing::warn!(messages, "the end took too long; what is not handed back \
                                              comes back when its lease has run out");
                }
            }
        }
    }

    async fn work(self: Arc<Self>) {
        self.join().await;
        task::spawn(Arc::clone(&self).tend());
        Pump::new(Arc::clone(&self)).run().await;
        self.hand_back().await;
        // The others count it out by themselves after a while.
        let _ = tokio::time::timeout(PARTING, self.leave()).await;
    }

    /// Resolves when the end has taken too long, whatever it is that waits for the store.
    async fn overdue(&self) {
        self.closed().await;
        tokio::time::sleep(PARTING).await;
        if !self.has_nothing_to_lose() {
            tokio::time::sleep(END_LIMIT - PARTING).await;
        }
    }

    /// Whether the store is away while nothing of it is held.
    fn has_nothing_to_lose(&self) -> bool {
        self.held().is_empty() && self.trouble().is_some()
    }
}

// === impl Pump ===

impl Pump {
    fn new(dispatcher: Arc<Dispatcher>) -> Self {
        let count = dispatcher.lines.len();
        Self {
            dispatcher,
            queues: LaneScheduler::default(),
            tenants: (0..count).map(|_| LaneScheduler::default()).collect(),
            at_gate: (0..count).map(|_| None).collect(),
            revive_at: Instant::now(),
        }
    }

    async fn run(mut self) {
        let dispatcher = Arc::clone(&self.dispatcher);
        let mut look = true;
        while !dispatcher.is_closing() {
            // Whatever changes from here on ends the rest below.
            let changed = dispatcher.store.changed();
            let started = match self.round(look).await {
                Ok(started) => started,
                Err(error) => {
                    self.complain(&error);
                    tokio::time::sleep(TROUBLE_PAUSE).await;
                    continue;
                }
            };
            self.recovered();
            if started > 0 {
                continue;
            }
            let rest = self.revive_at.min(Instant::now() + REST_MAX);
            look = tokio::select! {
                () = changed => true,
                () = dispatcher.gates.changed() => false,
                () = dispatcher.freed.notified() => false,
                () = dispatcher.closed() => false,
                () = tokio::time::sleep_until(rest) => true,
            };
        }
    }

    /// Sends all that may go now; says how many. Where nothing may, the store is only looked into
    /// if it may have changed: some gates ring often, and a look costs more than a ring.
    async fn round(&mut self, look: bool) -> Result<usize, StoreError> {
        self.reclaim().await?;
        let mut started = self.pass_those_at_gates();
        // To ask for turns with no worker free would say that nobody waits for one.
        if self.free() == 0 || !(look || self.has_room()) {
            return Ok(started);
        }
        let lanes = self.lanes().await?;
        self.make_way(&lanes).await;
        for turn in self.plan(&lanes) {
            started += self.claim(turn).await?;
        }
        Ok(started)
    }

    async fn reclaim(&mut self) -> Result<(), StoreError> {
        if Instant::now() < self.revive_at {
            return Ok(());
        }
        let mut pause = REVIVE_MAX;
        let dispatcher = Arc::clone(&self.dispatcher);
        for line in &dispatcher.lines {
            let now = moment();
            let revived = dispatcher.store.reclaim(&line.queue.name, now).await?;
            line.row.revived(revived.lost);
            if revived.lost > 0 {
                let queue = &line.queue.name;
                tracing::warn!(queue, claims = revived.lost, "claims ran out and came back");
            }
            if let Some(next) = revived.next {
                // A moment that has come while it was looked is not worth a busy loop.
                pause = pause.min(next.since(now).max(Duration::from_millis(10)));
            }
        }
        self.revive_at = Instant::now() + pause;
        Ok(())
    }

    /// Those that did not fit before go first.
    fn pass_those_at_gates(&mut self) -> usize {
        let dispatcher = Arc::clone(&self.dispatcher);
        let mut started = 0;
        for (at, line) in dispatcher.lines.iter().enumerate() {
            let Some(mut claim) = self.at_gate[at].take() else { continue };
            match dispatcher.told(&claim.reference) {
                Some(Word::Lost) => {
                    dispatcher.let_go(&claim.reference);
                    continue;
                }
                Some(Word::Cancelled) => claim.cancelled = true,
                Some(Word::HandBack) | None => {}
            }
            match self.pass(line, &claim) {
                Ok(pass) => {
                    dispatcher.start(at, claim, pass);
                    started += 1;
                }
                Err(()) => self.at_gate[at] = Some(claim),
            }
        }
        started
    }

    /// Whether a message of some queue could go.
    fn has_room(&self) -> bool {
        let mut lines = self.dispatcher.lines.iter().zip(&self.at_gate);
        lines.any(|(line, at_gate)| at_gate.is_none() && self.dispatcher.gates.room(&line.way) > 0)
    }

    /// The lanes of each queue.
    async fn lanes(&self) -> Result<Vec<(usize, Vec<Lane>)>, StoreError> {
        let mut all = Vec::new();
        for (at, line) in self.dispatcher.lines.iter().enumerate() {
            let lanes = self.dispatcher.store.lanes(&line.queue.name, moment()).await?;
            if !lanes.is_empty() {
                all.push((at, lanes));
            }
        }
        Ok(all)
    }

    /// Whoever stands before a gate goes back when somebody with an earlier deadline has come.
    async fn make_way(&mut self, lanes: &[(usize, Vec<Lane>)]) {
        for (at, lanes) in lanes {
            let Some(claim) = &self.at_gate[*at] else { continue };
            let earlier = |lane: &Lane| lane.deadline < claim.message.deadline;
            if lanes.iter().any(earlier)
                && let Some(claim) = self.at_gate[*at].take()
            {
                self.dispatcher.give_back(claim.reference).await;
            }
        }
    }

    /// How many of which lane are claimed now: turns of queues, and inside each turns of tenants.
    fn plan(&mut self, lanes: &[(usize, Vec<Lane>)]) -> Vec<Turn> {
        let dispatcher = Arc::clone(&self.dispatcher);
        let lines = &dispatcher.lines;
        let waiting = lanes.iter().map(|(at, lanes)| {
            let waiting: u64 = lanes.iter().map(|lane| lane.waiting).sum();
            // Nobody overtakes one that stands before the gate.
            let room = match self.at_gate[*at] {
                Some(_) => 0,
                None => dispatcher.gates.room(&lines[*at].way),
            };
            (*at, weight(lines[*at].queue.weight), count(waiting.min(room)))
        });
        let turns = self.queues.plan(waiting, self.free().min(CLAIM_MAX));
        let mut plan = Vec::new();
        for (at, lanes) in lanes {
            let Some((_, most)) = turns.iter().find(|(turn, _)| turn == at) else {
                plan.extend(late(*at, lanes));
                continue;
            };
            let waiting = lanes.iter().map(|lane| {
                let weight = lines[*at].tenant_weight(&lane.tenant);
                (lane.tenant.clone(), weight, count(lane.waiting))
            });
            let turns = self.tenants[*at].plan(waiting, *most);
            plan.extend(turns.into_iter().map(|(tenant, most)| Turn { at: *at, tenant, most }));
        }
        plan
    }

    /// Claims of one lane and sends what its gates let through; says how many went.
    async fn claim(&mut self, turn: Turn) -> Result<usize, StoreError> {
        let Turn { at, tenant, most } = turn;
        let dispatcher = Arc::clone(&self.dispatcher);
        let line = &dispatcher.lines[at];
        let until = moment().after(dispatcher.settings.lease);
        let want = ClaimRequest {
            queue: line.queue.name.clone(),
            tenant: tenant.clone(),
            limit: most,
            until,
        };
        let mut started = 0;
        for claim in dispatcher.store.claim(want, moment()).await? {
            dispatcher.hold(&claim.reference);
            match self.pass(line, &claim) {
                Ok(pass) => {
                    self.charge((at, &tenant), pass.as_ref());
                    dispatcher.start(at, claim, pass);
                    started += 1;
                }
                Err(()) if self.at_gate[at].is_none() => self.at_gate[at] = Some(claim),
                Err(()) => dispatcher.give_back(claim.reference).await,
            }
        }
        Ok(started)
    }

    /// A turn was used, unless nothing is sent.
    fn charge(&mut self, (at, tenant): (usize, &String), pass: Option<&Pass>) {
        if pass.is_some() {
            let line = &self.dispatcher.lines[at];
            self.queues.charge(&at, weight(line.queue.weight));
            self.tenants[at].charge(tenant, line.tenant_weight(tenant));
        }
    }

    /// A way through the gates; none is needed for what is not sent at all.
    fn pass(&self, line: &Line, claim: &Claim) -> Result<Option<Pass>, ()> {
        if claim.cancelled || claim.message.deadline <= moment() {
            return Ok(None);
        }
        let length = claim.message.body.length();
        self.dispatcher.gates.take(&line.way, length).map(Some).map_err(drop)
    }

    fn free(&self) -> usize {
        self.dispatcher.settings.workers.saturating_sub(self.dispatcher.held().len())
    }

    fn complain(&self, error: &StoreError) {
        let mut trouble = lock(&self.dispatcher.trouble);
        if trouble.replace(error.to_string()).is_none() {
            tracing::error!(%error, "the queue cannot be used, trying again");
        }
    }

    fn recovered(&self) {
        if lock(&self.dispatcher.trouble).take().is_some() {
            tracing::info!("the queue can be used again");
        }
    }
}

// === impl Line ===

impl Line {
    fn tenant_weight(&self, tenant: &str) -> Weight {
        let configured = self.queue.tenants.iter().find(|(name, _)| name == tenant);
        weight(configured.map_or(1.0, |(_, weight)| *weight))
    }
}

/// Whoever is too late hears it, though nothing may go: the first of its lane, one at a time.
fn late(at: usize, lanes: &[Lane]) -> impl Iterator<Item = Turn> {
    let now = moment();
    let late = lanes.iter().filter(move |lane| lane.deadline <= now);
    late.map(move |lane| Turn { at, tenant: lane.tenant.clone(), most: 1 })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Weights were checked when they were read.
fn weight(weight: f64) -> Weight {
    Weight::new(weight).unwrap_or(Weight::ONE)
}
