//! Engines that come and go: the autoscaler's looks, starts and stops.
//!
//! An engine that starts takes no request before it has started, and one that stops finishes what
//! it has. Both are paid for.

use flow::{Span, Time};

use super::World;
use super::event_queue::Event;
use super::servers::Server;
use crate::autoscaler::{Autoscaler, ScaleSignal};
use crate::engine::EngineReading;
use crate::measure::Window;
use crate::policy::EngineId;

/// Whether an engine is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is not, and costs nothing.
    Off,
    /// It starts. The number tells this start from later ones.
    Starting(u32),
    /// It takes requests.
    On,
    /// It takes no new requests.
    Stopping,
}

/// The autoscaler of a run and the bill.
#[derive(Debug)]
pub(super) struct Fleet {
    scaler: Option<Autoscaler>,
    presence: Vec<Presence>,
    starts: u32,
    /// Seconds of engines within the window, up to `billed`.
    secs: f64,
    billed: Time,
    window: Window,
}

// === impl Fleet ===

impl Fleet {
    /// All engines are on without an autoscaler, and as many as it has at least with one.
    pub(super) fn new(engines: usize, scaler: Option<Autoscaler>, window: Window) -> Self {
        let at_start = scaler.as_ref().map_or(engines, |scaler| scaler.scaling.min as usize);
        let on = |at: usize| if at < at_start { Presence::On } else { Presence::Off };
        let presence = (0..engines).map(on).collect();
        Self { scaler, presence, starts: 0, secs: 0.0, billed: Time::ZERO, window }
    }

    pub(super) fn is_on(&self, engine: usize) -> bool {
        self.presence[engine] == Presence::On
    }

    /// The distance of looks, if there is an autoscaler.
    pub(super) fn poll(&self) -> Option<Span> {
        self.scaler.as_ref().map(|scaler| scaler.scaling.poll)
    }

    /// Engines that are there or start.
    fn present(&self) -> u32 {
        let there = |one: &&Presence| matches!(one, Presence::On | Presence::Starting(_));
        self.presence.iter().filter(there).count() as u32
    }

    /// Adds what the engines have cost since the last call.
    pub(super) fn bill(&mut self, now: Time) -> f64 {
        let Window { from, to } = self.window;
        let (since, until) = (self.billed.max(from), now.min(to));
        if until > since {
            let paid = self.presence.iter().filter(|&&one| one != Presence::Off).count();
            self.secs += until.since(since).secs_f64() * paid as f64;
        }
        self.billed = self.billed.max(now);
        self.secs
    }

    /// The next engine to start, which takes the place of one that stops if there is one.
    fn startable(&self) -> Option<usize> {
        let find = |wanted: Presence| self.presence.iter().position(|&one| one == wanted);
        find(Presence::Stopping).or_else(|| find(Presence::Off))
    }

    /// The next engine to stop: the last to start, and one that still starts before all others.
    fn stoppable(&self) -> Option<usize> {
        let starting = |one: &Presence| matches!(one, Presence::Starting(_));
        let starts = self.presence.iter().rposition(starting);
        starts.or_else(|| self.presence.iter().rposition(|&one| one == Presence::On))
    }
}

// === impl World ===

impl World<'_> {
    /// The autoscaler looks at its signal.
    pub(super) fn look(&mut self) {
        self.fleet.bill(self.now);
        self.end_stopped();
        let Some(signal) = self.fleet.scaler.as_ref().map(|scaler| scaler.signal) else { return };
        let value = self.signal(signal);
        let (present, now) = (self.fleet.present(), self.now);
        let Some(scaler) = &mut self.fleet.scaler else { return };
        let wanted = scaler.look(value, present, now);
        let poll = scaler.scaling.poll;
        (present..wanted).for_each(|_| self.start_engine());
        (wanted..present).for_each(|_| self.stop_engine());
        self.event_queue.add(self.now.after(poll), Event::Look);
    }

    fn signal(&mut self, signal: ScaleSignal) -> f64 {
        match signal {
            ScaleSignal::Wanted => {
                f64::from(self.policy.engines_wanted(self.now).unwrap_or_default())
            }
            ScaleSignal::QueueSize(_) => f64::from(self.recorder.waiting()),
            ScaleSignal::Utilization(_) => {
                let on = self.servers.iter().enumerate().filter(|&(at, _)| self.fleet.is_on(at));
                let used: Vec<f64> = on.map(|(_, server)| fullness(server)).collect();
                used.iter().sum::<f64>() / used.len().max(1) as f64
            }
        }
    }

    fn start_engine(&mut self) {
        let Some(at) = self.fleet.startable() else { return };
        if self.fleet.presence[at] == Presence::Stopping {
            self.fleet.presence[at] = Presence::On;
            self.tell_ready(at, true);
            return;
        }
        self.fleet.starts += 1;
        let number = self.fleet.starts;
        self.fleet.presence[at] = Presence::Starting(number);
        let start_up = self.fleet.scaler.as_ref().map_or(Span::ZERO, |one| one.scaling.start_up);
        self.event_queue.add(self.now.after(start_up), Event::Started(at as EngineId, number));
    }

    /// An engine has started, unless it was stopped meanwhile.
    pub(super) fn started(&mut self, engine: EngineId, number: u32) {
        let at = engine as usize;
        if self.fleet.presence[at] == Presence::Starting(number) {
            self.fleet.bill(self.now);
            self.fleet.presence[at] = Presence::On;
            self.servers[at].up = true;
            self.tell_ready(at, true);
        }
    }

    fn stop_engine(&mut self) {
        let Some(at) = self.fleet.stoppable() else { return };
        let starts = matches!(self.fleet.presence[at], Presence::Starting(_));
        self.fleet.presence[at] = if starts { Presence::Off } else { Presence::Stopping };
        if !starts {
            self.tell_ready(at, false);
        }
    }

    /// Ends the engines that stop and have nothing left to do.
    fn end_stopped(&mut self) {
        for at in 0..self.servers.len() {
            let EngineReading { running, waiting, .. } = self.servers[at].engine.reading();
            let at_rest = running == 0 && waiting == 0 && self.recorder.in_flight(at) == 0;
            if self.fleet.presence[at] == Presence::Stopping && at_rest {
                self.fleet.presence[at] = Presence::Off;
                self.servers[at].up = false;
            }
        }
    }

    fn tell_ready(&mut self, at: usize, ready: bool) {
        let noticed = self.one_way();
        self.event_queue.add(noticed, Event::Ready(at as EngineId, ready));
    }
}

/// How full an engine is: its batch or its cache, whichever is fuller.
fn fullness(server: &Server) -> f64 {
    let EngineReading { running, kv_used, running_max, .. } = server.engine.reading();
    let batch = running_max.map_or(0.0, |most| f64::from(running) / f64::from(most.max(1)));
    batch.max(kv_used)
}
