//! The controller against the reference: the same random history, the same decisions.
//!
//! Everything that is drawn comes from the seed of its run. When the two disagree, the history is
//! shortened as far as they still do, and shown with the seed.

use super::fixture::prompt;
use super::reference::history::{Action, Caller, History, Present, Random, Sender, Step};
use super::reference::{Answer, Flow, Interned, Outcome, Reference};
use crate::{
    Ask, BANDS, BackendSupply, Controller, Event, FlowId, Order, Settings, Ticket, Time, Verdict,
    WorkloadId,
};

/// Steps over all runs of all orders.
const STEPS: u64 = 3_000_000;
const STEPS_PER_RUN: u64 = 500;
const RUNS_PER_ORDER: u64 = STEPS / STEPS_PER_RUN / 3;
/// Steps between two comparisons of the whole state and checks of the controller's invariants.
const LOOK_EVERY: u64 = 50;

/// A difference between the two.
type Difference = String;

/// Both implementations, and the state of their caller.
struct Run {
    controller: Controller,
    reference: Reference,
    supply: Vec<BackendSupply>,
    /// The tickets of all asks taken, by the reference's name of the ask, each with its step.
    tickets: Vec<(u64, Ticket)>,
    /// The ids of flows that were given out, each with its step.
    flow_ids: Vec<(u64, FlowId)>,
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    seen: T,
    expected: T,
) -> Result<(), Difference> {
    if seen == expected { Ok(()) } else { Err(format!("{what}: {seen:?} instead of {expected:?}")) }
}

fn require(holds: bool, what: impl FnOnce() -> Difference) -> Result<(), Difference> {
    if holds { Ok(()) } else { Err(what()) }
}

// === impl Run ===

impl Run {
    fn new(settings: &Settings, supply: &[BackendSupply]) -> Self {
        let mut controller = Controller::new(settings.clone());
        controller.supply(supply, Time::ZERO);
        let reference = Reference::new(settings.clone(), supply);
        let (tickets, flow_ids) = (Vec::new(), Vec::new());
        Self { controller, reference, supply: supply.to_vec(), tickets, flow_ids }
    }

    fn present(&self) -> Present {
        let steps = |waits: bool| {
            let asks = self.reference.asks.iter().filter(|ask| ask.waits == waits);
            asks.map(|ask| self.tickets[ask.name].0).collect()
        };
        let next_wake = self.controller.next_wake();
        Present { flying: steps(false), waiting: steps(true), next_wake }
    }

    fn take(&mut self, step: &Step) -> Result<(), Difference> {
        let now = step.now;
        match step.action {
            Action::Offer(caller, sender, ask) => self.offer(step, caller, sender, ask)?,
            Action::Settle(ask, usage) => {
                let Some((ticket, name)) = self.find(ask) else { return Ok(()) };
                let seen = self.controller.settle(ticket, usage, now);
                same("settle", seen, self.reference.settle(name, usage, now))?;
            }
            Action::Charge(ask, cost) => {
                let Some((ticket, name)) = self.find(ask) else { return Ok(()) };
                let seen = self.controller.charge(ticket, cost, now);
                same("charge", seen, self.reference.charge(name, cost, now))?;
            }
            Action::Cancel(ask) => {
                let Some((ticket, name)) = self.find(ask) else { return Ok(()) };
                let seen = self.controller.cancel(ticket, now);
                same("cancel", seen, self.reference.cancel(name, now))?;
            }
            Action::Requeue(ask, place) => {
                let Some((ticket, name)) = self.find(ask) else { return Ok(()) };
                let seen = self.controller.requeue(ticket, place, now);
                same("requeue", seen, self.reference.requeue(name, place, now))?;
            }
            Action::Ready(ref changes) => self.ready(changes, now),
            Action::Wake => {
                self.controller.wake(now);
                let seen = self.poll();
                self.reference.wake(now, &seen);
                same("wake", seen, std::mem::take(&mut self.reference.outcomes))?;
            }
            Action::Close => {
                self.controller.close(now);
                self.reference.close(now);
            }
        }
        same("outcomes", self.poll(), std::mem::take(&mut self.reference.outcomes))?;
        self.compare_counts()
    }

    fn find(&self, step: u64) -> Option<(Ticket, usize)> {
        let name = self.tickets.iter().position(|ticket| ticket.0 == step)?;
        Some((self.tickets[name].1, name))
    }

    fn offer(
        &mut self,
        step: &Step,
        caller: Caller,
        sender: Sender,
        ask: Ask,
    ) -> Result<(), Difference> {
        let Some(flow) = self.flow(step, caller)? else { return Ok(()) };
        let mut ask = Ask { flow, ..ask };
        ask.workload.id = self.workload(sender, step.now)?;
        let blocks = prompt(ask.prompt / 16 % 5, 2, (ask.prompt / 16 % 7) as usize);
        self.reference.offered = (blocks.clone(), ask.prompt);
        let verdict = self.controller.offer_prompt(ask, blocks, step.now);
        let refusal = match verdict {
            Verdict::Refused { reason, .. } => Some(reason),
            _ => None,
        };
        let answer = self.reference.offer(&ask, step.now, refusal);
        let ticket = match (verdict, answer) {
            (Verdict::Granted { ticket, backend }, Answer::Granted { backend: expected, .. }) => {
                same("backend", backend, expected)?;
                ticket
            }
            (Verdict::Queued { ticket }, Answer::Queued { .. }) => ticket,
            (Verdict::Refused { reason, .. }, Answer::Refused(expected)) => {
                return same("refusal", reason, expected);
            }
            _ => return Err(format!("{verdict:?} instead of {answer:?}")),
        };
        let fresh = self.tickets.iter().all(|known| known.1 != ticket);
        self.tickets.push((step.number, ticket));
        require(fresh, || format!("{ticket:?} was given out twice"))
    }

    fn flow(&mut self, step: &Step, caller: Caller) -> Result<Option<FlowId>, Difference> {
        let (number, class) = match caller {
            Caller::Named { number, class } => (number, class),
            Caller::Remembered(step) => {
                let known = self.flow_ids.iter().find(|id| id.0 == step);
                return Ok(known.map(|id| id.1));
            }
        };
        let name = format!("flow {number}");
        let id = self.controller.flow(&name, class);
        if let Some(known) = self.reference.find_flow(&name) {
            if self.reference.flows[known].class != class {
                self.reference.reclassify(known, class);
            }
            same("flow", id, self.reference.flows[known].id)?;
            return Ok(Some(id));
        }
        let fresh = self.flow_ids.iter().all(|known| known.1 != id);
        self.flow_ids.push((step.number, id));
        self.reference.add_flow(&name, class, id);
        require(fresh, || format!("{id:?} was given out twice"))?;
        self.forget_flows(&name)?;
        Ok(Some(id))
    }

    /// Which idle flow is forgotten for a new one is the controller's choice, within bounds.
    fn forget_flows(&mut self, newcomer: &str) -> Result<(), Difference> {
        let kept: Vec<String> = self.controller.flows().map(|flow| flow.name.into()).collect();
        for flow in 0..self.reference.flows.len() {
            let Flow { ref name, known, .. } = self.reference.flows[flow];
            if known && !kept.contains(name) {
                require(name != newcomer, || format!("{newcomer} is forgotten at once"))?;
                let idle = self.reference.forget_flow(flow);
                require(idle, || format!("flow {flow} is forgotten with something alive"))?;
            }
        }
        let idle_most = self.controller.settings().idle_flows_max as usize;
        let most = idle_most + self.reference.asks.len() + 1;
        require(kept.len() <= most, || format!("{} flows are remembered", kept.len()))
    }

    fn workload(&mut self, sender: Sender, now: Time) -> Result<WorkloadId, Difference> {
        let number = match sender {
            Sender::Named(number) => number,
            Sender::Generated => return Ok(WorkloadId::GENERATED),
            Sender::NeverGivenOut => return Ok(WorkloadId { slot: 1 << 20, generation: 0 }),
        };
        let name = format!("workload {number}");
        let id = self.controller.workload(&name, now);
        match self.reference.workload(&name, now) {
            Interned::Known(known) => same("workload", id, known)?,
            Interned::Overflow => same("workload", id, WorkloadId::OVERFLOW)?,
            Interned::New => self.reference.add_workload(&name, id),
        }
        Ok(id)
    }

    fn ready(&mut self, changes: &[(crate::BackendId, bool)], now: Time) {
        self.reference.advance(now);
        for &(id, ready) in changes {
            self.reference.ready(id, ready);
            let mut listed = self.supply.iter_mut();
            listed.find(|backend| backend.id == id).expect("backends stay").ready = ready;
        }
        // The order of the list has no meaning.
        self.supply.rotate_left(1);
        self.controller.supply(&self.supply, now);
        self.reference.supplied(now);
    }

    fn poll(&mut self) -> Vec<Outcome> {
        let name = |ticket| self.tickets.iter().position(|known| known.1 == ticket);
        let name = |ticket| name(ticket).expect("only asks that were taken have outcomes");
        let events = std::iter::from_fn(|| self.controller.poll_event());
        let outcomes = events.map(|event| match event {
            Event::Granted { ticket, backend, waited } => {
                Outcome::Granted { name: name(ticket), backend, waited }
            }
            Event::Evicted { ticket, reason, .. } => {
                Outcome::Evicted { name: name(ticket), reason }
            }
        });
        outcomes.collect()
    }

    fn compare_counts(&self) -> Result<(), Difference> {
        let mut waiting = [0; BANDS];
        for ask in self.reference.asks.iter().filter(|ask| ask.waits) {
            waiting[self.reference.band_of(ask).index()] += 1;
        }
        same("waiting", self.controller.waiting(), waiting)?;
        for (view, backend) in self.controller.backends().zip(self.reference.backends()) {
            same("backend", view.id, backend.id)?;
            same("ready", view.ready, backend.ready)?;
            same("in flight", view.in_flight, backend.in_flight)?;
            same("stock", view.stock, backend.stock)?;
        }
        match (self.controller.next_wake(), self.reference.next_wake()) {
            (None, None) => Ok(()),
            (Some(soonest), Some(due)) if soonest.nanos() <= due => Ok(()),
            (soonest, due) => Err(format!("next wake: {soonest:?}, due is {due:?}")),
        }
    }

    /// Compares the whole visible state, and checks the invariants.
    fn look(&mut self, now: Time) -> Result<(), Difference> {
        same("counters", self.controller.counters(), &self.reference.counters)?;
        let known = self.reference.flows.iter().filter(|flow| flow.known).count();
        same("flows", self.controller.flows().count(), known)?;
        for view in self.controller.flows() {
            let flow = self.reference.find_flow(view.name);
            let flow = flow.ok_or_else(|| format!("{} is remembered", view.name))?;
            same("class", view.class, self.reference.flows[flow].class)?;
            let asks = self.reference.asks.iter();
            let alive = asks.filter(|ask| self.reference.flow_of(ask) == flow).count();
            let seen = view.in_flight + view.waiting.iter().sum::<u32>();
            same("alive", seen as usize, alive)?;
        }
        let expected = self.reference.workloads(now);
        let mut seen = self.controller.workloads(now);
        seen.sort_by_key(|view| view.name);
        same("workloads", seen.len(), expected.len())?;
        for (view, (entry, in_window)) in seen.iter().zip(expected) {
            same("workload", view.name, &entry.name)?;
            same("offers", (view.total, view.in_window), (entry.total, in_window))?;
            same("workload's alive", view.active, entry.active)?;
            same("last seen", view.last_seen, entry.last_seen)?;
        }
        crate::invariant::check(&self.controller)
    }
}

/// Plays a history to both; returns the step after which they differ.
fn replay(
    settings: &Settings,
    supply: &[BackendSupply],
    history: &[Step],
) -> Result<(), Difference> {
    let mut run = Run::new(settings, supply);
    for step in history {
        run.take(step).map_err(|difference| format!("step {}: {difference}", step.number))?;
    }
    let end = history.last().map_or(Time::ZERO, |step| step.now);
    run.look(end)
}

/// Removes events that the difference does not need.
fn shortened(settings: &Settings, supply: &[BackendSupply], mut history: Vec<Step>) -> Vec<Step> {
    let mut length = history.len();
    while length > 0 {
        let mut start = 0;
        while start < history.len() {
            let mut shorter = history.clone();
            shorter.drain(start..(start + length).min(history.len()));
            if replay(settings, supply, &shorter).is_err() {
                history = shorter;
            } else {
                start += length;
            }
        }
        length /= 2;
    }
    history
}

fn play(seed: u64, order: Order) {
    let mut random = Random(seed);
    let (settings, supply) = (random.settings(order), random.supply());
    let mut source = History::new(random, &supply, STEPS_PER_RUN);
    let mut run = Run::new(&settings, &supply);
    let mut history = Vec::new();
    for number in 0..STEPS_PER_RUN {
        let step = source.step(&run.present());
        let mut lived = run.take(&step);
        if number % LOOK_EVERY == 0 {
            lived = lived.and_then(|()| run.look(step.now));
        }
        history.push(step);
        if let Err(difference) = lived {
            let history = shortened(&settings, &supply, history);
            let shorter = replay(&settings, &supply, &history);
            let steps: String = history.iter().map(|step| format!("{step:?}\n")).collect();
            panic!(
                "seed {seed:#x}, step {number}: {difference}\n\
                shortened: {shorter:?}\n{settings:?}\n{supply:?}\n{steps}"
            );
        }
    }
}

#[test]
fn fifo_decides_as_the_reference() {
    (0..RUNS_PER_ORDER).for_each(|run| play(4 * run, Order::Fifo));
}

#[test]
fn deadline_decides_as_the_reference() {
    (0..RUNS_PER_ORDER).for_each(|run| play(4 * run + 1, Order::Deadline));
}

#[test]
fn workload_decides_as_the_reference() {
    (0..RUNS_PER_ORDER).for_each(|run| play(4 * run + 2, Order::Workload));
}

#[test]
fn session_decides_as_the_reference() {
    (0..RUNS_PER_ORDER).for_each(|run| play(4 * run + 3, Order::Session));
}
