//! An engine that works like Ollama: a few slots, each at its own fixed pace, and a line before
//! them.
//!
//! The pace does not depend on the other slots. At so few sequences a step is bound by reading the
//! weights, which is done once for all: by the constants of a measured card (`profile.rs`) one more
//! sequence with 1,000 tokens of context adds 1 %.

use std::collections::VecDeque;

use flow::{Span, Time};

use super::profile::SlotsShape;
use super::{EngineReading, Job, JobId, Progress, Rejected};

/// An engine with slots; see [`super::Engine`] for what its verbs promise.
#[derive(Clone, Debug)]
pub struct Slots {
    shape: SlotsShape,
    /// In the order in which they were taken in.
    busy: Vec<Serving>,
    waiting: VecDeque<Job>,
    slowness: f64,
}

#[derive(Clone, Copy, Debug)]
struct Serving {
    job: JobId,
    output: u32,
    made: u32,
    next_token: Time,
}

// === impl Slots ===

impl Slots {
    pub(super) fn new(shape: SlotsShape) -> Self {
        Self { shape, busy: Vec::new(), waiting: VecDeque::new(), slowness: 1.0 }
    }

    pub(super) fn submit(&mut self, job: Job, now: Time) -> Result<(), Rejected> {
        let tokens = u64::from(job.prompt.max(1)) + u64::from(job.output.max(1));
        let limit = u64::from(self.shape.max_len);
        if tokens > limit {
            return Err(Rejected::TooLong { tokens, limit });
        }
        let busy = self.busy.iter().map(|serving| serving.job);
        if busy.chain(self.waiting.iter().map(|job| job.id)).any(|known| known == job.id) {
            return Err(Rejected::Known(job.id));
        }
        self.waiting.push_back(job);
        self.fill(now);
        Ok(())
    }

    pub(super) fn abort(&mut self, job: JobId, now: Time) -> bool {
        if let Some(at) = self.busy.iter().position(|serving| serving.job == job) {
            self.busy.remove(at);
            self.fill(now);
            return true;
        }
        let at = self.waiting.iter().position(|waiting| waiting.id == job);
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        self.busy.iter().map(|serving| serving.next_token).min()
    }

    pub(super) fn advance(&mut self, now: Time, out: &mut Vec<Progress>) {
        while let Some(due) = self.next_event().filter(|due| *due <= now) {
            let decode = self.span(1, self.shape.decode_rate);
            for serving in self.busy.iter_mut().filter(|serving| serving.next_token == due) {
                serving.made += 1;
                serving.next_token = due.after(decode);
                out.push(serving.progress());
            }
            self.busy.retain(|serving| !serving.is_finished());
            self.fill(due);
        }
    }

    pub(super) fn reading(&self) -> EngineReading {
        EngineReading {
            running: self.busy.len() as u32,
            waiting: self.waiting.len() as u32,
            running_max: Some(self.shape.slots),
            ..EngineReading::default()
        }
    }

    pub(super) fn slow_down(&mut self, factor: f64) {
        self.slowness = factor;
    }

    pub(super) fn crash(&mut self) -> Vec<JobId> {
        let busy = self.busy.drain(..).map(|serving| serving.job);
        busy.chain(self.waiting.drain(..).map(|job| job.id)).collect()
    }

    fn fill(&mut self, now: Time) {
        while self.busy.len() < self.shape.slots as usize {
            let Some(job) = self.waiting.pop_front() else { return };
            let prefill = self.span(job.prompt.max(1), self.shape.prefill_rate);
            self.busy.push(Serving {
                job: job.id,
                output: job.output.max(1),
                made: 0,
                next_token: now.after(prefill),
            });
        }
    }

    fn span(&self, tokens: u32, rate: f64) -> Span {
        Span::from_secs_f64(f64::from(tokens) / rate * self.slowness)
    }
}

// === impl Serving ===

impl Serving {
    fn is_finished(&self) -> bool {
        self.made >= self.output
    }

    fn progress(&self) -> Progress {
        Progress { job: self.job, tokens: self.made, finished: self.is_finished(), cached: 0 }
    }
}
