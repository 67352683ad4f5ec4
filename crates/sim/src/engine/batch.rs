//! An engine that works like vLLM V1: continuous batching over a paged KV cache.
//!
//! Each step carries at most a budget of tokens. Running sequences come first, in order: one token
//! each, or the next chunk of their prompt. A sequence that finds no free block throws the least
//! urgent one back to the waiting line; only a step without that takes new sequences in.

#[cfg(test)]
mod audit;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap};

use flow::{Span, Time};

use super::blocks::{BLOCK_TOKENS, Pool};
use super::cost::Load;
use super::profile::{BatchShape, Policy};
use super::sequence::{Rank, Sequence};
use super::{EngineReading, Job, JobId, Progress, Rejected};

/// A batching engine; see [`super::Engine`] for what its verbs promise.
#[derive(Clone, Debug)]
pub struct Batch {
    shape: BatchShape,
    pool: Pool,
    /// In the order in which they were taken in.
    running: Vec<Sequence>,
    waiting: BTreeMap<Rank, Sequence>,
    ranks: HashMap<JobId, Rank>,
    next_serial: u64,
    step_ends: Option<Time>,
    refused: Option<Refusal>,
    seen: Seen,
    slowness: f64,
    prompt_cached: u64,
    prompt_asked: u64,
}

/// What the metrics page shows: as the last scheduling left it.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    running: u32,
    waiting: u32,
    preemptions: u64,
}

/// Who found no room, and the state of the pool then: as long as neither changes for the better
/// there is no use in looking through a long prompt again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    rank: Rank,
    unused: u32,
    shared_named: u64,
}

// === impl Batch ===

impl Batch {
    pub(super) fn new(shape: BatchShape) -> Self {
        Self {
            shape,
            pool: Pool::new(shape.blocks()),
            running: Vec::new(),
            waiting: BTreeMap::new(),
            ranks: HashMap::new(),
            next_serial: 0,
            step_ends: None,
            refused: None,
            seen: Seen::default(),
            slowness: 1.0,
            prompt_cached: 0,
            prompt_asked: 0,
        }
    }

    pub(super) fn submit(&mut self, job: Job, now: Time) -> Result<(), Rejected> {
        self.take(job)?;
        if self.step_ends.is_none() {
            self.begin(now);
        }
        Ok(())
    }

    /// Takes a job into the waiting line and starts no step.
    pub(super) fn take(&mut self, job: Job) -> Result<(), Rejected> {
        self.check(&job)?;
        let priority = match self.shape.policy {
            Policy::Arrival => 0,
            Policy::Priority => job.priority,
        };
        let rank = Rank { priority: Reverse(priority), serial: self.next_serial };
        self.next_serial += 1;
        self.ranks.insert(job.id, rank);
        self.waiting.insert(rank, Sequence::new(&job, rank));
        Ok(())
    }

    pub(super) fn abort(&mut self, job: JobId) -> bool {
        let Some(rank) = self.ranks.remove(&job) else { return false };
        if self.waiting.remove(&rank).is_none()
            && let Some(at) = self.running.iter().position(|sequence| sequence.rank == rank)
        {
            self.running.remove(at).leave(&mut self.pool);
        }
        true
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        self.step_ends
    }

    pub(super) fn advance(&mut self, now: Time, out: &mut Vec<Progress>) {
        while let Some(end) = self.step_ends.filter(|end| *end <= now) {
            self.complete(out);
            self.begin(end);
        }
    }

    pub(super) fn reading(&self) -> EngineReading {
        let blocks = self.pool.count();
        EngineReading {
            running: self.seen.running,
            waiting: self.seen.waiting,
            kv_used: f64::from(blocks - self.pool.unused()) / f64::from(blocks),
            preemptions: self.seen.preemptions,
            kv_tokens: Some(self.shape.kv_tokens),
            running_max: Some(self.shape.max_seqs),
            ranks: 1,
        }
    }

    pub(super) fn slow_down(&mut self, factor: f64) {
        self.slowness = factor;
    }

    pub(super) fn crash(&mut self) -> Vec<JobId> {
        let lost = self.running.iter().chain(self.waiting.values());
        let lost = lost.map(|sequence| sequence.job).collect();
        *self = Self {
            next_serial: self.next_serial,
            slowness: self.slowness,
            prompt_cached: self.prompt_cached,
            prompt_asked: self.prompt_asked,
            ..Self::new(self.shape)
        };
        lost
    }

    pub(super) fn prefix_hits(&self) -> (u64, u64) {
        (self.prompt_cached, self.prompt_asked)
    }

    /// Whether the job could ever run to its end: alone, with the whole cache.
    fn check(&self, job: &Job) -> Result<(), Rejected> {
        let tokens = u64::from(job.prompt.max(1)) + u64::from(job.output.max(1));
        let limit = u64::from(self.shape.max_len);
        if tokens > limit {
            return Err(Rejected::TooLong { tokens, limit });
        }
        // The last token comes out and is not computed on any more.
        let tokens = tokens - 1;
        let limit = u64::from(self.pool.count()) * u64::from(BLOCK_TOKENS);
        if tokens > limit {
            return Err(Rejected::TooBig { tokens, limit });
        }
        if self.ranks.contains_key(&job.id) {
            return Err(Rejected::Known(job.id));
        }
        Ok(())
    }

    /// How many sequences run and how many wait.
    pub(super) fn backlog(&self) -> (u32, u32) {
        (self.running.len() as u32, self.waiting.len() as u32)
    }

    /// The step is over: tokens come out, finished jobs go.
    pub(super) fn complete(&mut self, out: &mut Vec<Progress>) {
        let Self { running, ranks, pool, .. } = self;
        let before = out.len();
        out.extend(running.iter_mut().filter_map(Sequence::complete));
        if !out[before..].iter().any(|progress| progress.finished) {
            return;
        }
        running.retain_mut(|sequence| {
            let stays = !sequence.is_finished();
            if !stays {
                sequence.leave(pool);
                ranks.remove(&sequence.job);
            }
            stays
        });
    }

    /// Schedules and starts the next step, if there is anything to do.
    fn begin(&mut self, now: Time) {
        self.step_ends = self.schedule().map(|span| now.after(span));
    }

    /// Plans the next step; how long it takes, if there is anything to do.
    pub(super) fn schedule(&mut self) -> Option<Span> {
        let mut load = Load::default();
        // A sequence can throw itself back and end a scheduling with nothing in it; each time the
        // batch is smaller, so that this comes to an end.
        while load.tokens == 0 && !(self.running.is_empty() && self.waiting.is_empty()) {
            let preempted = self.plan_running(&mut load);
            if !preempted {
                self.admit(&mut load);
            }
        }
        self.seen.running = self.running.len() as u32;
        self.seen.waiting = self.waiting.len() as u32;
        (load.tokens > 0).then(|| self.shape.step.span(&load, self.slowness))
    }

    /// Gives the running sequences their part of the step; true when one was thrown back.
    fn plan_running(&mut self, load: &mut Load) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() && load.tokens < self.shape.max_batched_tokens {
            let budget = self.shape.max_batched_tokens - load.tokens;
            if self.running[at].plan(budget, &mut self.pool, load) {
                at += 1;
                continue;
            }
            preempted = true;
            let victim = self.least_urgent();
            self.preempt(victim, load);
            match victim.cmp(&at) {
                Ordering::Less => at -= 1,
                Ordering::Equal => break,
                Ordering::Greater => {}
            }
        }
        preempted
    }

    /// The running sequence to give up first; with one priority that is the last one taken in.
    fn least_urgent(&self) -> usize {
        let ranked = self.running.iter().enumerate();
        ranked.max_by_key(|(_, sequence)| sequence.rank).map_or(0, |(at, _)| at)
    }

    /// Throws a running sequence back; its rank puts it before all that came after it.
    fn preempt(&mut self, at: usize, load: &mut Load) {
        let mut sequence = self.running.remove(at);
        sequence.unplan(load);
        sequence.leave(&mut self.pool);
        self.waiting.insert(sequence.rank, sequence);
        self.seen.preemptions += 1;
    }

    /// Takes sequences in from the waiting line, as long as the first of it fits.
    fn admit(&mut self, load: &mut Load) {
        while self.running.len() < self.shape.max_seqs as usize
            && load.tokens < self.shape.max_batched_tokens
        {
            let Some(mut first) = self.waiting.first_entry() else { return };
            let now = Refusal {
                rank: *first.key(),
                unused: self.pool.unused(),
                shared_named: self.pool.shared_named(),
            };
            if self.refused.is_some_and(|then| then.still_holds(&now)) {
                return;
            }
            if !first.get_mut().enter(&mut self.pool) {
                self.refused = Some(now);
                return;
            }
            let mut sequence = first.remove();
            if sequence.is_fresh() {
                self.prompt_cached += u64::from(sequence.computed());
                self.prompt_asked += u64::from(sequence.prompt());
            }
            let budget = self.shape.max_batched_tokens - load.tokens;
            sequence.plan(budget, &mut self.pool, load);
            self.running.push(sequence);
        }
    }
}

// === impl Refusal ===

impl Refusal {
    fn still_holds(&self, now: &Self) -> bool {
        self.rank == now.rank && now.unused <= self.unused && now.shared_named == self.shared_named
    }
}
