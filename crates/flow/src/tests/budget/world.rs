//! A system with a number of places, other clients, and a dispatcher that fills the rest, in
//! virtual time: how well a gate does with readings that are old, late and repeated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Basis, Budget, BudgetSettings, GateReading};
use crate::{Span, Time};

/// Saturation is looked at this often.
const SAMPLE: Span = Span::from_millis(10);
const WARM_UP: Time = Time::from_millis(20_000);
const END: Time = Time::from_millis(320_000);

/// How long a request takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Service {
    Constant(f64),
    Exponential(f64),
}

/// What others do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Others {
    Steady(u32),
    /// They arrive at random and stay for two seconds on average: this many on average.
    Random(u32),
    /// Alternately the one number and the other, for this many seconds each.
    Steps(u32, u32, u64),
}

/// Who lets requests go.
#[derive(Clone, Debug)]
pub(super) enum Gate {
    Counted(Box<Budget>),
    /// So many workers, each of which sends while the last reading is below the threshold.
    Binary {
        workers: u64,
        busy: u64,
        open: bool,
    },
    /// A gate that knows the whole state at once, with this many of our requests in flight: the
    /// optimum.
    Knowing {
        busy: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct World {
    pub(super) slots: u32,
    pub(super) threshold: f64,
    /// The interval of readings, and their delay.
    pub(super) interval: Span,
    pub(super) delay: Span,
    /// Whether readings have no time of their own: each is reported four times as a new one, and
    /// may be this old.
    pub(super) undated: Option<Span>,
    /// How long a request is on its way, at most.
    pub(super) transit: Span,
    pub(super) service: Service,
    pub(super) others: Others,
    pub(super) seed: u64,
}

/// How it went, each as a share of all places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) mean: f64,
    pub(super) most: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// One of ours reaches the system, is done there, is known to be done.
    Arrives,
    Done,
    Back,
    OtherArrives,
    OtherDone,
    Step(bool),
    /// A measurement of the system, and the report of it, as a number of requests.
    Look,
    Told(u64, Time),
    Sample,
}

#[derive(Debug)]
struct Run {
    world: World,
    gate: Gate,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    scheduled: u64,
    dice: u64,
    ours: u64,
    others: u64,
    /// Samples, their sum and the most of them.
    sums: (f64, f64, f64),
}

// === impl World ===

impl World {
    pub(super) fn counted(&self) -> Gate {
        let stale = Span::from_secs(10);
        let basis = Basis::Measured { transit: self.transit, all: true };
        let law = BudgetSettings::new(basis, 1.0 - self.threshold, stale, Span::ZERO).unwrap();
        Gate::Counted(Box::new(Budget::new(law)))
    }

    pub(super) fn run(self, gate: Gate) -> Outcome {
        let mut run = Run {
            world: self,
            gate,
            now: Time::ZERO,
            events: BinaryHeap::new(),
            scheduled: 0,
            dice: self.seed | 1,
            ours: 0,
            others: 0,
            sums: (0.0, 0.0, 0.0),
        };
        run.begin();
        while let Some(Reverse((at, _, event))) = run.events.pop().filter(|next| next.0.0 < END) {
            run.now = at;
            run.happens(event);
        }
        let (count, sum, most) = run.sums;
        Outcome { mean: sum / count, most }
    }
}

// === impl Run ===

impl Run {
    fn begin(&mut self) {
        match self.world.others {
            Others::Steady(count) => self.others = u64::from(count),
            Others::Random(_) => self.after(Span::ZERO, Event::OtherArrives),
            Others::Steps(..) => self.after(Span::ZERO, Event::Step(true)),
        }
        self.after(Span::from_millis(1), Event::Look);
        self.after(Span::from_millis(1), Event::Sample);
    }

    fn after(&mut self, span: Span, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now.after(span), self.scheduled, event)));
    }

    /// A number from 0 to 1.
    fn chance(&mut self) -> f64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn part_of(&mut self, span: Span) -> Span {
        Span::from_secs_f64(span.secs_f64() * self.chance())
    }

    fn exponential(&mut self, mean: f64) -> Span {
        Span::from_secs_f64(-mean * (1.0 - self.chance()).ln())
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives => {
                self.ours += 1;
                let time = match self.world.service {
                    Service::Constant(time) => Span::from_secs_f64(time),
                    Service::Exponential(mean) => self.exponential(mean),
                };
                self.after(time, Event::Done);
            }
            Event::Done => {
                self.ours -= 1;
                let way = self.part_of(self.world.transit);
                self.after(way, Event::Back);
            }
            Event::Back => {
                match &mut self.gate {
                    Gate::Counted(budget) => budget.ended(1, self.now),
                    Gate::Binary { busy, .. } | Gate::Knowing { busy } => *busy -= 1,
                }
                self.send();
            }
            Event::OtherArrives => {
                let Others::Random(mean) = self.world.others else { return };
                self.others += 1;
                let (stay, next) = (self.exponential(2.0), self.exponential(2.0 / f64::from(mean)));
                self.after(stay, Event::OtherDone);
                self.after(next, Event::OtherArrives);
            }
            Event::OtherDone => {
                self.others -= 1;
                self.see();
            }
            Event::Step(up) => {
                let Others::Steps(low, high, seconds) = self.world.others else { return };
                self.others = u64::from(if up { high } else { low });
                self.after(Span::from_secs(seconds), Event::Step(!up));
                self.see();
            }
            Event::Look => {
                let told = Event::Told(self.ours + self.others, self.now);
                let World { interval, delay, transit, undated, .. } = self.world;
                let late = transit.secs_f64() + self.part_of(delay).secs_f64();
                let pause = interval.secs_f64() * (0.9 + 0.2 * self.chance());
                for quarter in 0..if undated.is_some() { 4 } else { 1 } {
                    let again = pause / 4.0 * f64::from(quarter);
                    self.after(Span::from_secs_f64(late + again), told);
                }
                self.after(Span::from_secs_f64(pause), Event::Look);
            }
            Event::Told(used, at) => self.told(used, at),
            Event::Sample => self.sample(),
        }
    }

    /// An observer with full knowledge sees that others have changed.
    fn see(&mut self) {
        if matches!(self.gate, Gate::Knowing { .. }) {
            self.send();
        }
    }

    fn told(&mut self, used: u64, at: Time) {
        let World { slots, threshold, undated, .. } = self.world;
        let system = f64::from(slots);
        let free = 1.0 - used as f64 / system;
        let (at, lag) = undated.map_or((at, Span::ZERO), |lag| (self.now, lag));
        match &mut self.gate {
            Gate::Counted(budget) => budget.read(GateReading { free, system, at, lag }),
            Gate::Binary { open, .. } => *open = 1.0 - free < threshold,
            Gate::Knowing { .. } => {}
        }
        self.send();
    }

    /// Sends all that may go: there is always more.
    fn send(&mut self) {
        let World { slots, threshold, .. } = self.world;
        let places = (f64::from(slots) * threshold) as u64;
        loop {
            let goes = match &mut self.gate {
                Gate::Counted(budget) => budget.take(1, self.now).is_ok(),
                Gate::Binary { workers, busy, open } => {
                    let goes = *open && busy < workers;
                    *busy += u64::from(goes);
                    goes
                }
                Gate::Knowing { busy } => {
                    let goes = *busy + self.others < places;
                    *busy += u64::from(goes);
                    goes
                }
            };
            if !goes {
                return;
            }
            let way = self.part_of(self.world.transit);
            self.after(way, Event::Arrives);
        }
    }

    fn sample(&mut self) {
        self.after(SAMPLE, Event::Sample);
        if self.now < WARM_UP {
            return;
        }
        let slots = f64::from(self.world.slots);
        let saturation = (self.ours + self.others) as f64 / slots;
        let (count, sum, most) = &mut self.sums;
        *count += 1.0;
        *sum += saturation;
        *most = most.max(saturation);
    }
}
