//! The world against the real engines: what is conserved, what faults do, and that chance is tame.

mod conserve;
mod faults;
mod hour;
mod inside;
mod share;

use flow::{Bounds, FlowClass, Hysteresis, Settings};

use super::*;
use crate::arrivals::{Arrivals, Lengths, Process};
use crate::dice::Dice;
use crate::engine::{Engine, EngineReading, Job, JobId, Shape, SlotsShape};
use crate::gate::direct::Direct;
use crate::gate::line::{Line, LineConfig, Order};
use crate::gate::ours::{Ours, OursConfig};
use crate::gate::{Cost, Decision, Failure, Offer, RequestId, Spent, Why};
use crate::measure::Record;

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
    Arrivals::new(Process::Poisson { rate }, lengths, &Dice::new(seed), Time::NEVER).unwrap()
}

fn line(order: Order, watermark: u32) -> Line {
    Line::new(LineConfig { order, watermark, capacity: 1000, ttl: Span::from_secs(30) })
}

fn settings(bounds: Bounds) -> Settings {
    let default_class = FlowClass { capacity: 1000, ..FlowClass::default() };
    Settings { bounds, default_class, ..Settings::default() }
}

fn fixed(watermark: f64) -> Bounds {
    Hysteresis::limit(watermark).unwrap().into()
}

fn ours(bounds: Bounds) -> Ours {
    Ours::new(OursConfig { settings: settings(bounds), cost: Cost::Tokens }, &[])
}

/// One run on one plain engine with this many slots.
fn on_plain(slots: u32, requests: Vec<Request>, gate: &mut dyn Gate) -> History {
    let source = Source::new("all", requests.into_iter());
    run(Setup::new(vec![plain(slots)], vec![source], Span::from_secs(60)), gate)
}
