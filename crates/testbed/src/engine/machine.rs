//! The simulated engine in real time: its virtual clock is the runtime's.
//!
//! Requests submit jobs; one task advances the time and reports the progress of each job. A job is
//! aborted when its handle is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::Time;
use sim::engine::{Engine, EngineReading, Job, JobId, Progress, Rejected};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::settings::Rules;

/// What a request asks of the machine.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) prompt: u32,
    pub(super) output: u32,
    /// Names of the prompt's segments of 512 tokens.
    pub(super) prefix: Arc<[u64]>,
}

/// A simulated engine that runs.
#[derive(Debug)]
pub(super) struct Machine {
    rules: Rules,
    began: Instant,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    jobs: HashMap<JobId, Waiter>,
    next: u32,
    produced: Vec<Progress>,
    running_max: u32,
    /// Since when it works, and for how long it did before.
    busy_since: Option<Time>,
    busy: Duration,
}

#[derive(Debug)]
struct Waiter {
    output: u32,
    tokens: watch::Sender<u32>,
}

/// A job's place in the machine; dropped before its end, the job is aborted.
#[derive(Debug)]
pub(super) struct JobHandle {
    machine: Arc<Machine>,
    job: JobId,
    tokens: watch::Receiver<u32>,
}

/// What the machine is doing.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) reading: EngineReading,
    pub(super) running_max: u32,
    pub(super) busy: Duration,
}

// === impl Machine ===

impl Machine {
    pub(super) fn new(rules: Rules) -> Self {
        let inner = Inner {
            engine: Engine::new(&rules.profile),
            jobs: HashMap::new(),
            next: 0,
            produced: Vec::new(),
            running_max: 0,
            busy_since: None,
            busy: Duration::ZERO,
        };
        Self { rules, began: Instant::now(), inner: Mutex::new(inner), changed: Notify::new() }
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Takes a job in.
    pub(super) fn enter(self: &Arc<Self>, work: Work) -> Result<JobHandle, Rejected> {
        let tokens = u64::from(work.prompt) + u64::from(work.output);
        let limit = u64::from(self.rules.max_len);
        if tokens > limit {
            return Err(Rejected::TooLong { tokens, limit });
        }
        let (tell, tokens) = watch::channel(0);
        let mut inner = self.lock();
        let now = self.now();
        inner.pass(now, &self.rules);
        let id = JobId(inner.next);
        inner.engine.submit(self.job(id, &work), now)?;
        inner.next = inner.next.wrapping_add(1);
        inner.jobs.insert(id, Waiter { output: work.output, tokens: tell });
        inner.look(now);
        self.changed.notify_one();
        Ok(JobHandle { machine: self.clone(), job: id, tokens })
    }

    pub(super) fn state(&self) -> State {
        let mut inner = self.lock();
        let now = self.now();
        inner.pass(now, &self.rules);
        let going = inner.busy_since.map_or(0, |since| now.since(since).nanos());
        State {
            reading: inner.engine.reading(),
            running_max: inner.running_max,
            busy: inner.busy + Duration::from_nanos(going),
        }
    }

    /// Lets time pass, for ever.
    pub(super) async fn drive(&self) {
        loop {
            let due = {
                let mut inner = self.lock();
                inner.pass(self.now(), &self.rules);
                inner.engine.next_event()
            };
            match due {
                None => self.changed.notified().await,
                Some(due) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until(self.began + Duration::from_nanos(due.nanos())) => {}
                },
            }
        }
    }

    fn leave(&self, job: JobId) {
        let mut inner = self.lock();
        let now = self.now();
        inner.pass(now, &self.rules);
        if inner.jobs.remove(&job).is_some() {
            inner.engine.abort(job, now);
            inner.look(now);
            self.changed.notify_one();
        }
    }

    fn job(&self, id: JobId, work: &Work) -> Job {
        let Rules { silent, whole, .. } = self.rules;
        let (prompt, output) = match whole {
            true => (1, 1),
            // Silent tokens take the place of prompt tokens in the cache.
            false => (work.prompt.saturating_sub(silent).max(1), work.output + silent),
        };
        let prefix = if silent == 0 { work.prefix.clone() } else { [].into() };
        Job { id, prompt, output, priority: 0, prefix }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    /// Lets time pass until `now` and tells the jobs what came of it.
    fn pass(&mut self, now: Time, rules: &Rules) {
        let mut produced = std::mem::take(&mut self.produced);
        self.engine.advance(now, &mut produced);
        for progress in produced.drain(..) {
            let Some(waiter) = self.jobs.get(&progress.job) else { continue };
            let shown = match rules.whole {
                true => waiter.output,
                false => progress.tokens.saturating_sub(rules.silent),
            };
            // Without a receiver the handle is gone, and the job is about to be aborted.
            let _ = waiter.tokens.send(shown);
            if progress.finished {
                self.jobs.remove(&progress.job);
            }
        }
        self.produced = produced;
        self.look(now);
    }

    /// Takes note of how many run, and for how long.
    fn look(&mut self, now: Time) {
        self.running_max = self.running_max.max(self.engine.reading().running);
        match (self.busy_since, self.jobs.is_empty()) {
            (None, false) => self.busy_since = Some(now),
            (Some(since), true) => {
                self.busy += Duration::from_nanos(now.since(since).nanos());
                self.busy_since = None;
            }
            _ => {}
        }
    }
}

// === impl JobHandle ===

impl JobHandle {
    /// Waits until more than `shown` tokens are there; how many there are. Nothing once the machine
    /// is gone.
    pub(super) async fn beyond(&mut self, shown: u32) -> Option<u32> {
        let tokens = self.tokens.wait_for(|tokens| *tokens > shown).await.ok()?;
        Some(*tokens)
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        self.machine.leave(self.job);
    }
}
