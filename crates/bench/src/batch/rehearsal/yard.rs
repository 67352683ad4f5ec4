//! One engine, those who come by themselves and those that are let in.

use std::collections::HashMap;

use anyhow::Result;
use flow::start_limiter::{StartAllowance, StartLimiter, StartLimiterSettings, StartLoad};
use flow::{Span, Time};
use sim::engine::{Engine, Job, JobId, Profile, Progress};
use sim::random::Random;

use super::{Mix, Policy, Size};

const SEED: u64 = 7;
/// How long a burst lasts, and a lull.
const PHASE: f64 = 11.0;
/// How often the gateway's gate looks while something waits before it and nobody rests.
const LOOK: Span = Span::from_millis(20);
/// How much of the KV cache the gate lets be taken.
const FULL: f64 = 0.8;
/// The weight of one start in the mean of them, as in the gateway.
const QUICK: f64 = 0.1;
/// What a start is taken to last before one was seen.
const UNKNOWN: f64 = 0.5;

/// See the module's description.
pub(super) struct Yard<'a> {
    mix: &'a Mix,
    policy: Policy,
    engine: Engine,
    kv_tokens: u64,
    now: Time,
    jobs: HashMap<JobId, Running>,
    next_id: u32,
    /// Interactive requests without a first token, and when those of the batch, whose first token
    /// nobody sees, are taken to have one.
    unstarted: u32,
    presumed: Vec<Time>,
    batch: usize,
    held_tokens: u64,
    /// The mean of interactive requests' seconds to the first token.
    start: f64,
    start_limiter: StartLimiter,
    look_at: Time,
    sizes: Random,
    out: Vec<Progress>,
    /// Interactive requests' milliseconds to the first token.
    pub(super) first_ms: Vec<f64>,
    /// Batch requests that have ended.
    pub(super) done: usize,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    since: Time,
    interactive: bool,
    tokens: u64,
}

/// Moments of interactive requests, in bursts and lulls.
fn moments(mix: &Mix, seconds: f64, random: &mut Random) -> Vec<Time> {
    let (mut at, mut moments) = (0.0, Vec::new());
    while at < seconds {
        let phase = (at / PHASE).floor();
        let rate = if phase % 2.0 == 0.0 { mix.burst } else { mix.lull };
        let next = at + random.exponential() / rate;
        let ends = (phase + 1.0) * PHASE;
        // Without memory, chance begins anew with the next phase.
        at = next.min(ends);
        if next < ends {
            moments.push(Time::ZERO.after(Span::from_secs_f64(at)));
        }
    }
    moments
}

// === impl Yard ===

impl<'a> Yard<'a> {
    pub(super) fn new(
        mix: &'a Mix,
        policy: Policy,
        profile: &Profile,
        kv_tokens: u64,
    ) -> Result<Self> {
        let rest = if let Policy::StartLimiter(rest) = policy { rest } else { 0.0 };
        Ok(Self {
            mix,
            policy,
            engine: Engine::new(profile),
            kv_tokens,
            now: Time::ZERO,
            jobs: HashMap::new(),
            next_id: 0,
            unstarted: 0,
            presumed: Vec::new(),
            batch: 0,
            held_tokens: 0,
            start: UNKNOWN,
            start_limiter: StartLimiter::new(StartLimiterSettings::new(rest)?),
            look_at: Time::ZERO,
            sizes: Random::new(SEED).fork("batch"),
            out: Vec::new(),
            first_ms: Vec::new(),
            done: 0,
        })
    }

    pub(super) fn play(&mut self, seconds: f64) -> Result<()> {
        let mut random = Random::new(SEED);
        let mut sizes = Random::new(SEED).fork("interactive");
        for arrival in moments(self.mix, seconds, &mut random) {
            while let Some(next) = self.next_event().filter(|next| *next < arrival) {
                self.advance(next)?;
            }
            self.advance(arrival)?;
            let size = self.mix.interactive;
            self.submit(size, &mut sizes, true)?;
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Time> {
        let looks = matches!(self.policy, Policy::StartLimiter(_));
        let look = Some(self.look_at).filter(|_| looks);
        self.engine.next_event().into_iter().chain(look).min()
    }

    fn advance(&mut self, now: Time) -> Result<()> {
        self.now = now.max(self.now);
        let mut out = std::mem::take(&mut self.out);
        self.engine.advance(self.now, &mut out);
        for progress in out.drain(..) {
            self.progressed(progress);
        }
        self.out = out;
        self.let_in()
    }

    fn progressed(&mut self, progress: Progress) {
        let Some(job) = self.jobs.get(&progress.job).copied() else { return };
        if job.interactive && progress.tokens == 1 {
            let took = self.now.since(job.since).secs_f64();
            self.unstarted -= 1;
            self.start += (took - self.start) * QUICK;
            self.first_ms.push(took * 1e3);
        }
        if progress.finished {
            self.jobs.remove(&progress.job);
            self.held_tokens -= job.tokens;
            let batch = usize::from(!job.interactive);
            self.batch -= batch;
            self.done += batch;
        }
    }

    fn let_in(&mut self) -> Result<()> {
        while self.may_go() {
            let (size, mut sizes) = (self.mix.batch, self.sizes.clone());
            self.submit(size, &mut sizes, false)?;
            self.sizes = sizes;
        }
        Ok(())
    }

    fn may_go(&mut self) -> bool {
        match self.policy {
            Policy::Without => false,
            Policy::Fixed(budget) => self.batch < budget,
            Policy::StartLimiter(_) if self.now < self.look_at => false,
            Policy::StartLimiter(_) => {
                self.look_at = self.now.after(LOOK);
                let seen = self.start_load();
                self.start_limiter.observe(seen, self.now);
                let next = u64::from(self.mix.batch.prompt + self.mix.batch.output);
                let fits = (self.held_tokens + next) as f64 <= FULL * self.kv_tokens as f64;
                fits && matches!(self.start_limiter.allowance(self.now), StartAllowance::Allowed(_))
            }
        }
    }

    fn start_load(&mut self) -> StartLoad {
        let now = self.now;
        self.presumed.retain(|&starts| starts > now);
        let calm = self.unstarted == 0 && self.presumed.is_empty();
        let usual = u64::from(self.mix.interactive.prompt);
        let start = Some((Span::from_secs_f64(self.start), usual));
        StartLoad { ready: 1, calm: u32::from(calm), start, others: true }
    }

    fn submit(&mut self, size: Size, random: &mut Random, interactive: bool) -> Result<()> {
        let Size { prompt, output } = size;
        let id = JobId(self.next_id);
        self.next_id += 1;
        // From half the mean to half as much again.
        let length = output / 2 + random.below(u64::from(output) + 1) as u32;
        let job = Job { id, prompt, output: length, priority: 0, prefix: [].into() };
        self.engine.submit(job, self.now)?;
        let tokens = u64::from(prompt + output);
        self.held_tokens += tokens;
        self.jobs.insert(id, Running { since: self.now, interactive, tokens });
        if interactive {
            self.unstarted += 1;
        } else {
            self.batch += 1;
            self.presumed.push(self.now.after(Span::from_secs_f64(self.start)));
            self.start_limiter.record_start(self.now);
            self.start_limiter.record_prompt(u64::from(prompt), self.now);
            self.look_at = self.start_limiter.opens_at();
        }
        Ok(())
    }
}
