//! The story in a minute of virtual time: a quiet tenant and an on-call pager beside a flood.
//!
//! Eight slots of 200 ms. One tenant keeps 200 requests outstanding, another sends two a second in
//! the same band, a third one critical request a second. The same minute is played twice: first
//! come first served, as a plain proxy would, and through the controller.

mod gate;

use std::collections::BTreeMap;
use std::io::{self, Write};

use flow::{Band, Span, Time};

use gate::{Gate, Request};

const SLOTS: usize = 8;
const SERVICE: Span = Span::from_millis(200);
const OUTSTANDING: u64 = 200;
const LENGTH: Time = Time::from_millis(60_000);
const BAR_WIDTH: f64 = 40.0;

/// Who sends.
const TENANTS: [Tenant; 3] = [
    Tenant { name: "flood", band: Band::Normal, every: None },
    Tenant { name: "quiet", band: Band::Normal, every: Some(Span::from_millis(500)) },
    Tenant { name: "pager", band: Band::Critical, every: Some(Span::from_millis(1000)) },
];

struct Tenant {
    name: &'static str,
    band: Band,
    /// The time between two requests; without it each answer is followed by the next request.
    every: Option<Span>,
}

/// What one tenant saw.
#[derive(Clone, Debug, Default)]
pub struct Experience {
    /// Requests answered.
    pub served: usize,
    /// Half of the requests took at most this long.
    pub p50: Span,
    /// 99 in 100 took at most this long.
    pub p99: Span,
}

/// What happened in one run: each tenant's experience, and the most that ever ran at once.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// By tenant, in the order flood, quiet, pager.
    pub tenants: Vec<Experience>,
    /// The most requests the servers ever held.
    pub in_flight_max: usize,
}

/// A run in progress.
struct Run {
    gate: Gate,
    now: Time,
    /// What happens next, in order of time and then of scheduling.
    agenda: BTreeMap<(Time, u64), Happening>,
    scheduled: u64,
    latencies: Vec<Vec<Span>>,
    in_flight_max: usize,
}

#[derive(Clone, Copy)]
enum Happening {
    Send(usize),
    Finish(Request),
}

/// Plays the minute twice and prints what happened.
pub fn run(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "One minute of virtual time, {SLOTS} slots that take 200 ms for each request:")?;
    writeln!(out, "  flood  keeps {OUTSTANDING} requests outstanding (normal)")?;
    writeln!(out, "  quiet  sends 2 requests a second      (normal)")?;
    writeln!(out, "  pager  sends 1 request a second       (critical)\n")?;
    let without = play(Gate::fifo(SLOTS));
    let with = play(Gate::tidegate(SLOTS));
    print(out, "first come, first served", &without)?;
    print(out, "through Tidegate's queue", &with)?;
    let ratio = without.tenants[1].p50.secs_f64() / with.tenants[1].p50.secs_f64();
    let text = format!("The quiet tenant is answered {ratio:.0} times sooner");
    writeln!(out, "{text}, and the flood is served as before.")
}

/// The minute behind a plain proxy and behind the controller.
pub fn outcomes() -> [Outcome; 2] {
    [play(Gate::fifo(SLOTS)), play(Gate::tidegate(SLOTS))]
}

fn play(gate: Gate) -> Outcome {
    let mut run = Run {
        gate,
        now: Time::ZERO,
        agenda: BTreeMap::new(),
        scheduled: 0,
        latencies: vec![Vec::new(); TENANTS.len()],
        in_flight_max: 0,
    };
    for (at, tenant) in TENANTS.iter().enumerate() {
        let first = if tenant.every.is_some() { 1 } else { OUTSTANDING };
        (0..first).for_each(|_| run.schedule(Span::ZERO, Happening::Send(at)));
    }
    while let Some(((time, _), happening)) = run.agenda.pop_first() {
        run.now = time;
        run.handle(happening);
    }
    Outcome {
        tenants: run.latencies.into_iter().map(experience).collect(),
        in_flight_max: run.in_flight_max,
    }
}

fn experience(mut latencies: Vec<Span>) -> Experience {
    latencies.sort_unstable();
    let rank = |share: f64| {
        let at = (latencies.len() as f64 * share) as usize;
        latencies.get(at.min(latencies.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    Experience { served: latencies.len(), p50: rank(0.5), p99: rank(0.99) }
}

fn print(out: &mut dyn Write, title: &str, outcome: &Outcome) -> io::Result<()> {
    let most = outcome.in_flight_max;
    writeln!(out, "{title} (at most {most} in flight)     answered within")?;
    let longest = outcome.tenants.iter().map(|tenant| tenant.p50.secs_f64()).fold(5.2, f64::max);
    for (tenant, seen) in TENANTS.iter().zip(&outcome.tenants) {
        let (p50, p99) = (seen.p50.secs_f64(), seen.p99.secs_f64());
        let bar = "█".repeat((p50 / longest * BAR_WIDTH).ceil() as usize);
        writeln!(
            out,
            "  {:6} {:5} answers   half {p50:5.2} s   99 % {p99:5.2} s  {bar}",
            tenant.name, seen.served
        )?;
    }
    writeln!(out)
}

// === impl Run ===

impl Run {
    fn schedule(&mut self, after: Span, happening: Happening) {
        self.scheduled += 1;
        self.agenda.insert((self.now.after(after), self.scheduled), happening);
    }

    fn handle(&mut self, happening: Happening) {
        let started = match happening {
            Happening::Send(tenant) if self.now < LENGTH => {
                if let Some(every) = TENANTS[tenant].every {
                    self.schedule(every, Happening::Send(tenant));
                }
                let Tenant { name, band, .. } = TENANTS[tenant];
                self.gate.offer(Request { tenant, sent: self.now, ticket: None }, name, band)
            }
            Happening::Send(_) => Vec::new(),
            Happening::Finish(request) => {
                self.latencies[request.tenant].push(self.now.since(request.sent));
                if TENANTS[request.tenant].every.is_none() {
                    self.schedule(Span::ZERO, Happening::Send(request.tenant));
                }
                self.gate.finish(request, self.now)
            }
        };
        self.in_flight_max = self.in_flight_max.max(self.gate.in_flight());
        for request in started {
            self.schedule(SERVICE, Happening::Finish(request));
        }
    }
}

#[cfg(test)]
mod tests;
