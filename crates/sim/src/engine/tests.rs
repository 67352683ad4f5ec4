//! Tests of the simulated engines, from outside; `batch/audit.rs` looks inside.

mod batch;
mod cache;
mod laws;
mod profile;
mod ranks;
mod recording;
mod slots;

use flow::{Span, Time};

use super::{BatchShape, Engine, Job, JobId, Policy, Profile, Progress, Shape, StepCost};

/// A small engine whose steps cost 10 ms and 1 ms per token, and nothing else.
fn small() -> BatchShape {
    BatchShape {
        kv_tokens: 11 * 16,
        max_seqs: 8,
        max_batched_tokens: 64,
        max_len: 1000,
        policy: Policy::Arrival,
        step: StepCost {
            base: 10.0,
            token: 1.0,
            compute: 0.0,
            context: 0.0,
            sequence: 0.0,
            attention: 0.0,
            overhead: 0.0,
        },
    }
}

fn engine(shape: BatchShape) -> Engine {
    Engine::new(&Profile::new("test", Shape::Batch(shape)).unwrap())
}

fn job(id: u32, prompt: u32, output: u32) -> Job {
    Job { id: JobId(id), prompt, output, priority: 0, prefix: [].into() }
}

fn prefixed(id: u32, prompt: u32, prefix: &[u64]) -> Job {
    Job { prefix: prefix.into(), ..job(id, prompt, 1) }
}

fn urgent(id: u32, prompt: u32, output: u32, priority: u8) -> Job {
    Job { priority, ..job(id, prompt, output) }
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Runs to the end of the current step.
fn step(engine: &mut Engine) -> Vec<(u32, u32)> {
    let mut out = Vec::new();
    let end = engine.next_event().expect("a step is running");
    engine.advance(end, &mut out);
    audit(engine);
    out.iter().map(|progress| (progress.job.0, progress.tokens)).collect()
}

/// Runs until the engine is idle; what came out, with the moments.
fn drain(engine: &mut Engine) -> Vec<(Time, Progress)> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    while let Some(end) = engine.next_event() {
        engine.advance(end, &mut out);
        audit(engine);
        all.extend(out.drain(..).map(|progress| (end, progress)));
    }
    all
}

fn audit(engine: &Engine) {
    if let Engine::Batch(batch) = engine {
        batch.audit();
    }
}

/// Who is in the batch, in order.
fn batch(engine: &Engine) -> Vec<u32> {
    match engine {
        Engine::Batch(batch) => batch.batch(),
        Engine::Ranks(_) | Engine::Slots(_) => Vec::new(),
    }
}

fn assert_close(actual: Span, millis: f64) {
    let actual = actual.secs_f64() * 1000.0;
    assert!((actual - millis).abs() < 1e-5, "{actual} ms, not {millis} ms");
}
