//! An engine of several data-parallel ranks, as vLLM serves mixture-of-experts models.
//!
//! Every rank has a KV cache and a batch of its own, and the experts are spread over all of them.
//! So the ranks exchange tokens in each layer and make their steps together: a step lasts as long
//! as that of the slowest rank, and a rank without work waits. A request goes to one rank for good,
//! to the one with the least `4 · waiting + running`, as in vLLM's own load balancer. From outside
//! the ranks are one server: its metrics are their sums.

use std::collections::HashMap;

use flow::Time;

use super::batch::Batch;
use super::profile::RanksShape;
use super::{EngineReading, Job, JobId, Progress, Rejected};

/// A waiting request counts as much as so many running ones.
const WAITING_WEIGHT: u32 = 4;

/// An engine of several ranks; see [`super::Engine`] for what its verbs promise.
#[derive(Clone, Debug)]
pub struct Ranks {
    ranks: Vec<Batch>,
    homes: HashMap<JobId, usize>,
    step_ends: Option<Time>,
}

// === impl Ranks ===

impl Ranks {
    pub(super) fn new(shape: RanksShape) -> Self {
        let ranks = (0..shape.ranks).map(|_| Batch::new(shape.each)).collect();
        Self { ranks, homes: HashMap::new(), step_ends: None }
    }

    pub(super) fn submit(&mut self, job: Job, now: Time) -> Result<(), Rejected> {
        let id = job.id;
        if self.homes.contains_key(&id) {
            return Err(Rejected::Known(id));
        }
        let busy = self.ranks.iter().map(Batch::backlog);
        let score = |(running, waiting): (u32, u32)| running + WAITING_WEIGHT * waiting;
        let least = busy.map(score).enumerate().min_by_key(|&(_, score)| score);
        let Some((home, _)) = least else { return Ok(()) };
        self.ranks[home].take(job)?;
        self.homes.insert(id, home);
        if self.step_ends.is_none() {
            self.begin(now);
        }
        Ok(())
    }

    pub(super) fn abort(&mut self, job: JobId) -> bool {
        let home = self.homes.remove(&job);
        home.is_some_and(|home| self.ranks[home].abort(job))
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        self.step_ends
    }

    pub(super) fn advance(&mut self, now: Time, out: &mut Vec<Progress>) {
        while let Some(end) = self.step_ends.filter(|end| *end <= now) {
            let before = out.len();
            self.ranks.iter_mut().for_each(|rank| rank.complete(out));
            for progress in out[before..].iter().filter(|progress| progress.finished) {
                self.homes.remove(&progress.job);
            }
            self.begin(end);
        }
    }

    pub(super) fn reading(&self) -> EngineReading {
        let readings = || self.ranks.iter().map(Batch::reading);
        let used = readings().map(|reading| reading.kv_used).sum::<f64>();
        EngineReading {
            running: readings().map(|reading| reading.running).sum(),
            waiting: readings().map(|reading| reading.waiting).sum(),
            kv_used: used / self.ranks.len() as f64,
            preemptions: readings().map(|reading| reading.preemptions).sum(),
            kv_tokens: readings().map(|reading| reading.kv_tokens).sum(),
            running_max: readings().map(|reading| reading.running_max).sum(),
            ranks: self.ranks.len() as u32,
        }
    }

    pub(super) fn slow_down(&mut self, factor: f64) {
        self.ranks.iter_mut().for_each(|rank| rank.slow_down(factor));
    }

    pub(super) fn crash(&mut self) -> Vec<JobId> {
        (self.step_ends, self.homes) = (None, HashMap::new());
        self.ranks.iter_mut().flat_map(Batch::crash).collect()
    }

    pub(super) fn prefix_hits(&self) -> (u64, u64) {
        let hits = self.ranks.iter().map(Batch::prefix_hits);
        hits.fold((0, 0), |(cached, asked), (hit, all)| (cached + hit, asked + all))
    }

    /// Starts the next step of all ranks, if any of them has something to do.
    fn begin(&mut self, now: Time) {
        let slowest = self.ranks.iter_mut().filter_map(Batch::schedule).max();
        self.step_ends = slowest.map(|span| now.after(span));
    }
}
