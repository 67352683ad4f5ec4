//! The world against the real engines: what is conserved, what faults do, and that chance is tame.

mod caches;
mod closed_loop;
mod conserve;
mod faults;
mod hour;
mod inside;
mod scaling;
mod share;

use flow::{Bounds, FlowClass, Hysteresis, Settings};

use super::*;
use crate::arrivals::{Arrivals, Lengths, Process};
use crate::engine::{Engine, EngineReading, Job, JobId, Shape, SlotsShape};
use crate::measure::Record;
use crate::policy::direct::Direct;
use crate::policy::plain_queue::{PlainQueue, PlainQueueConfig, QueueOrder};
use crate::policy::tidegate::{Tidegate, TidegateConfig};
use crate::policy::{Cost, Decision, Failure, Offer, RefusalReason, RequestId, Spent};
use crate::random::Random;

/// A request at this many milliseconds with this prompt and output.
fn request(millis: u64, prompt: u32, output: u32) -> Request {
    let at = Time::from_millis(millis);
    Request { at, client: 0, prompt, output, prefix: Vec::new().into() }
}

/// An engine whose jobs take a millisecond for each token, read or produced.
fn plain(slots: u32) -> Profile {
    let shape = SlotsShape { slots, prefill_rate: 1000.0, decode_rate: 1000.0, max_len: 100_000 };
    Profile::new("plain", Shape::Slots(shape)).unwrap()
}

fn named(name: &str) -> Profile {
    Profile::named(name).unwrap()
}

fn drawn(rate: f64, seed: u64) -> Arrivals {
    let lengths = Lengths::Lognormal {
        prompt_mean: 300.0,
        prompt_cv: 1.0,
        output_mean: 100.0,
        output_cv: 1.0,
    };
    Arrivals::new(Process::Poisson { rate }, lengths, &Random::new(seed), Time::NEVER).unwrap()
}

fn line(order: QueueOrder, watermark: u32) -> PlainQueue {
    PlainQueue::new(PlainQueueConfig { order, watermark, capacity: 1000, ttl: Span::from_secs(30) })
}

fn settings(bounds: Bounds) -> Settings {
    let default_class = FlowClass { capacity: 1000, ..FlowClass::default() };
    Settings { bounds, default_class, ..Settings::default() }
}

fn fixed(watermark: f64) -> Bounds {
    Hysteresis::limit(watermark).unwrap().into()
}

fn ours(bounds: Bounds) -> Tidegate {
    Tidegate::new(TidegateConfig { settings: settings(bounds), cost: Cost::Tokens }, &[])
}

/// One run on one plain engine with this many slots.
fn on_plain(slots: u32, requests: Vec<Request>, policy: &mut dyn Policy) -> History {
    let source = Source::new("all", requests.into_iter());
    run(Setup::new(vec![plain(slots)], vec![source], Span::from_secs(60)), policy)
}
