//! The engines' side: requests, tokens and metrics.

use std::collections::VecDeque;

use flow::Time;

use super::event_queue::Event;
use super::{Stage, World};
use crate::engine::{Engine, EngineReading, Job, JobId, Profile, Progress};
use crate::measure::EngineMoment;
use crate::policy::{EngineId, RequestId};

/// One engine as a machine that can die and come back.
pub(super) struct Server {
    pub(super) engine: Engine,
    /// When it next has something to tell.
    pub(super) due: Time,
    pub(super) up: bool,
    pub(super) tells: bool,
    /// Preemptions before its last crash.
    pub(super) preemptions_before: u64,
}

/// The tokens and readings that are under way to the gateway. Their memory is used again.
#[derive(Default)]
pub(super) struct Batches {
    slots: Vec<Vec<Progress>>,
    free: Vec<u32>,
    /// All readings take equally long, so the first to leave is the first to arrive.
    readings: VecDeque<(EngineId, EngineReading)>,
}

// === impl Server ===

impl Server {
    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            engine: Engine::new(profile),
            due: Time::NEVER,
            up: true,
            tells: true,
            preemptions_before: 0,
        }
    }

    pub(super) fn preemptions(&self) -> u64 {
        self.preemptions_before + self.engine.reading().preemptions
    }

    /// Asks again when the engine next has something to tell.
    pub(super) fn look_ahead(&mut self) {
        self.due = self.engine.next_event().unwrap_or(Time::NEVER);
    }
}

// === impl Batches ===

impl Batches {
    /// A number for an empty batch, and the batch itself.
    fn borrow(&mut self) -> (u32, Vec<Progress>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Vec::new());
            self.slots.len() as u32 - 1
        });
        (number, self.take(number))
    }

    fn send(&mut self, number: u32, batch: Vec<Progress>) {
        self.slots[number as usize] = batch;
    }

    pub(super) fn take(&mut self, number: u32) -> Vec<Progress> {
        std::mem::take(&mut self.slots[number as usize])
    }

    pub(super) fn give_back(&mut self, number: u32, mut batch: Vec<Progress>) {
        batch.clear();
        self.send(number, batch);
        self.free.push(number);
    }
}

// === impl World ===

impl World<'_> {
    /// An engine has completed something.
    pub(super) fn step(&mut self, at: usize) {
        let (number, mut batch) = self.batches.borrow();
        let server = &mut self.servers[at];
        server.engine.advance(self.now, &mut batch);
        server.look_ahead();
        if batch.is_empty() {
            self.batches.give_back(number, batch);
            return;
        }
        self.batches.send(number, batch);
        let arrives = self.one_way();
        self.event_queue.add(arrives, Event::Tokens(number));
    }

    /// A request reaches its engine.
    pub(super) fn submit(&mut self, request: RequestId, engine: EngineId) {
        let open = &self.open[request as usize];
        let answer = self.one_way();
        let server = &mut self.servers[engine as usize];
        if open.stage == Stage::Over {
            return;
        }
        if !server.up {
            self.event_queue.add(answer, Event::Fail(request));
            return;
        }
        let record = &self.recorder.records[request as usize];
        let job = Job {
            id: JobId(request),
            prompt: record.prompt,
            output: record.output,
            priority: if self.rules.priorities { record.band as u8 } else { 0 },
            prefix: open.prefix.clone(),
        };
        match server.engine.submit(job, self.now) {
            Ok(()) => server.look_ahead(),
            Err(_) => self.event_queue.add(answer, Event::Reject(request)),
        }
    }

    /// The client of a request has gone.
    pub(super) fn abort(&mut self, request: RequestId, engine: EngineId) {
        let server = &mut self.servers[engine as usize];
        server.engine.abort(JobId(request), self.now);
        server.look_ahead();
    }

    /// Reads the metrics of every engine that is up and reports them.
    pub(super) fn scrape(&mut self) {
        let Some(metrics) = self.rules.metrics else { return };
        for (server, engine) in self.servers.iter().zip(0..) {
            if server.up && server.tells {
                self.batches.readings.push_back((engine, server.engine.reading()));
                self.event_queue.add(self.now.after(metrics.lag), Event::Reading);
            }
        }
        self.event_queue.add(self.now.after(metrics.every), Event::Scrape);
    }

    /// A reading reaches the gateway.
    pub(super) fn deliver_reading(&mut self) {
        let Some((engine, reading)) = self.batches.readings.pop_front() else { return };
        self.policy.reading(engine, &reading, self.now);
        self.apply_decisions();
    }

    /// Writes down the state of the world.
    pub(super) fn sample(&mut self) {
        let moment = |(server, engine): (&Server, EngineId)| {
            let EngineReading { running, waiting, kv_used, .. } = server.engine.reading();
            let (limit, binding) = (self.policy.limit(engine), self.policy.binding(engine));
            EngineMoment { up: server.up, in_flight: 0, limit, binding, running, waiting, kv_used }
        };
        let engines = self.servers.iter().zip(0..).map(moment).collect();
        self.recorder.sample(engines, self.tenants.len(), self.now);
        self.event_queue.add(self.now.after(self.rules.sample), Event::Sample);
    }
}
