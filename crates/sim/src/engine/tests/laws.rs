//! What must hold whatever happens: random histories of arrivals, departures, crashes and steps.

use std::collections::BTreeMap;

use flow::{Span, Time};

use super::super::{BatchShape, Engine, Job, JobId, Policy, Profile, Progress, Shape, SlotsShape};
use super::{audit, batch, small};
use crate::random::Random;

/// Says which history broke a law.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("broken with seed {}", self.0);
        }
    }
}

/// A random history of one engine, and what is known about its jobs from outside.
struct History {
    random: Random,
    engine: Engine,
    now: Time,
    next: u32,
    /// Jobs that are in the engine: tokens to come in all, tokens seen.
    open: BTreeMap<JobId, (u32, u32)>,
    log: Vec<(Time, Progress)>,
    finished: u32,
}

fn profile(random: &mut Random) -> Profile {
    if random.below(8) == 0 {
        let slots = 1 + random.below(4) as u32;
        let shape = SlotsShape { slots, prefill_rate: 900.0, decode_rate: 50.0, max_len: 400 };
        return Profile::new("slots", Shape::Slots(shape)).unwrap();
    }
    let policy = if random.below(2) == 0 { Policy::Arrival } else { Policy::Priority };
    let shape = BatchShape {
        kv_tokens: 16 * (2 + random.below(40)) + random.below(16),
        max_seqs: 1 + random.below(12) as u32,
        max_batched_tokens: 1 + random.below(100) as u32,
        max_len: 400,
        policy,
        ..small()
    };
    Profile::new("batch", Shape::Batch(shape)).unwrap()
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let engine = Engine::new(&profile(&mut random));
        Self {
            random,
            engine,
            now: Time::ZERO,
            next: 0,
            open: BTreeMap::new(),
            log: Vec::new(),
            finished: 0,
        }
    }

    /// One thing happens, and every law is checked.
    fn act(&mut self) {
        match self.random.below(200) {
            0 => self.crash(),
            1..=9 => self.abort(),
            10..=12 => self.engine.slow_down(self.random.unit() * 3.0),
            13..=70 => self.submit(),
            _ => self.step(),
        }
        audit(&self.engine);
        let reading = self.engine.reading();
        assert!((0.0..=1.0).contains(&reading.kv_used), "{reading:?}");
        // A step outlives the last of its jobs, but jobs are never left without a step.
        assert!(self.open.is_empty() || self.engine.next_event().is_some(), "jobs left alone");
    }

    fn submit(&mut self) {
        // Part of the time that is left until the next event goes by.
        if let Some(due) = self.engine.next_event() {
            let part = self.random.unit() * due.since(self.now).secs_f64();
            self.now = self.now.after(Span::from_secs_f64(part));
        }
        let mut prefix = [0; 1];
        prefix[0] = self.random.below(3);
        let shared = self.random.below(2) as usize;
        let job = Job {
            id: JobId(self.next),
            prompt: self.random.below(120) as u32,
            output: self.random.below(60) as u32,
            priority: self.random.below(3) as u8,
            prefix: prefix[..shared].into(),
        };
        self.next += 1;
        let output = job.output.max(1);
        let id = job.id;
        if self.engine.submit(job, self.now).is_ok() {
            self.open.insert(id, (output, 0));
        }
    }

    fn abort(&mut self) {
        let id = JobId(self.random.below(u64::from(self.next) + 1) as u32);
        let here = self.open.remove(&id).is_some();
        assert_eq!(self.engine.abort(id, self.now), here, "{id:?}");
    }

    fn crash(&mut self) {
        let mut lost = self.engine.crash();
        lost.sort_unstable();
        assert!(lost.iter().eq(self.open.keys()), "lost {lost:?}");
        self.open.clear();
        assert_eq!(self.engine.next_event(), None);
        assert_eq!(self.engine.reading().kv_used, 0.0);
    }

    fn step(&mut self) {
        let Some(due) = self.engine.next_event() else { return };
        assert!(due >= self.now, "time went back");
        self.now = due;
        let (before, thrown) = (batch(&self.engine), self.engine.reading().preemptions);
        let mut out = Vec::new();
        self.engine.advance(due, &mut out);
        assert!(self.engine.next_event().is_none_or(|next| next > due), "no time went by");
        for progress in out {
            self.note(progress);
        }
        if self.engine.reading().preemptions > thrown && self.is_first_come() {
            let after = batch(&self.engine);
            assert!(after.iter().all(|id| before.contains(id)), "{before:?} {after:?}");
        }
    }

    fn is_first_come(&self) -> bool {
        matches!(&self.engine, Engine::Batch(batch) if batch.policy() == Policy::Arrival)
    }

    fn note(&mut self, progress: Progress) {
        let (output, seen) =
            self.open.get_mut(&progress.job).expect("a token of a job that is here");
        *seen += 1;
        assert_eq!(progress.tokens, *seen, "{progress:?}");
        assert_eq!(progress.finished, seen == output, "{progress:?}");
        if progress.finished {
            self.open.remove(&progress.job);
            self.finished += 1;
        }
        self.log.push((self.now, progress));
    }

    /// Lets everything run to its end.
    fn settle(&mut self) {
        while self.engine.next_event().is_some() {
            self.step();
            audit(&self.engine);
        }
        assert!(self.open.is_empty(), "left behind: {:?}", self.open);
        let reading = self.engine.reading();
        assert_eq!((reading.running, reading.waiting, reading.kv_used), (0, 0, 0.0));
    }
}

#[test]
fn every_job_ends_once_with_its_tokens_in_order_and_no_block_is_lost() {
    let (mut finished, mut preemptions, mut cached) = (0, 0, 0);
    for seed in 0..400 {
        let guard = Seed(seed);
        let mut history = History::new(seed);
        for _ in 0..600 {
            history.act();
        }
        preemptions += history.engine.reading().preemptions;
        history.settle();
        finished += history.finished;
        cached += history.engine.prefix_hits().0;
        drop(guard);
    }
    // The histories reach what they are meant to reach.
    assert!(finished > 10_000, "{finished} finished");
    assert!(preemptions > 1_000, "{preemptions} thrown back");
    assert!(cached > 10_000, "{cached} tokens found");
}

#[test]
fn one_seed_gives_one_history() {
    for seed in 0..40 {
        let _guard = Seed(seed);
        let [mut one, mut other] = [History::new(seed), History::new(seed)];
        for _ in 0..400 {
            one.act();
            other.act();
        }
        assert_eq!(one.log, other.log);
        assert!(!one.log.is_empty() || one.finished == 0);
    }
}

#[test]
fn remembering_that_there_was_no_room_changes_nothing() {
    let mut compared = 0;
    for seed in 0..150 {
        let _guard = Seed(seed);
        let [mut one, mut other] = [History::new(seed), History::new(seed)];
        for _ in 0..600 {
            one.act();
            if let Engine::Batch(batch) = &mut other.engine {
                batch.forget_refusal();
            }
            other.act();
            assert_eq!(one.engine.next_event(), other.engine.next_event());
        }
        assert_eq!(one.log, other.log);
        compared += one.log.len();
    }
    assert!(compared > 10_000, "{compared} tokens compared");
}
