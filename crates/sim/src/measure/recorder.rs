//! Takes down what happens during a run.

use flow::{BANDS, Band, Time};

use super::{
    EngineMoment, History, Ledger, Moment, Outcome, Produced, Record, Series, Shares, Window,
};
use crate::policy::{Cost, EngineId, RequestId, Spent, Tenant};

/// A request at its arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) tenant: u32,
    pub(crate) band: Band,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
}

/// How the policy charges its tenants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charges {
    pub(crate) cost: Cost,
    /// How far a tenant may go ahead of its turn.
    pub(crate) slack: u64,
}

/// Takes down what happens during a run.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) records: Vec<Record>,
    /// By request, the number of its last grant in the ledger.
    grants: Vec<u32>,
    cost: Cost,
    window: Window,
    produced: Produced,
    shares: Shares,
    ledger: Ledger,
    series: Series,
    /// By line, how many of its requests wait at the gateway.
    waiting: Vec<u32>,
    waiting_by_band: [u32; BANDS],
    in_flight: Vec<u32>,
}

// === impl Recorder ===

impl Recorder {
    pub(crate) fn new(window: Window, engines: usize, series: Series, charges: Charges) -> Self {
        let Charges { cost, slack } = charges;
        Self {
            records: Vec::new(),
            grants: Vec::new(),
            cost,
            window,
            produced: Produced::default(),
            shares: Shares::default(),
            ledger: Ledger::new(slack),
            series,
            waiting: Vec::new(),
            waiting_by_band: [0; BANDS],
            in_flight: vec![0; engines],
        }
    }

    /// A request arrives and waits, if only for no time at all.
    pub(crate) fn arrived(&mut self, arrival: Arrival, weight: f64, now: Time) -> RequestId {
        let Arrival { tenant, band, prompt, output } = arrival;
        let request = self.records.len() as RequestId;
        self.records.push(Record {
            arrival: now,
            sent: Time::NEVER,
            first: Time::NEVER,
            end: Time::NEVER,
            tenant,
            prompt,
            output,
            streamed: 0,
            engine: None,
            band,
            outcome: Outcome::Open,
            attempts: 0,
        });
        self.grants.push(0);
        self.shares.wants(line_of(&self.records[request as usize]), weight, now);
        self.wait(request);
        request
    }

    /// A waiting request goes to an engine.
    pub(crate) fn sent(&mut self, request: RequestId, engine: EngineId, charged: u64, now: Time) {
        let record = &mut self.records[request as usize];
        record.sent = now;
        record.engine = Some(engine);
        record.attempts = record.attempts.saturating_add(1);
        self.in_flight[engine as usize] += 1;
        let line = line_of(record);
        self.grants[request as usize] = self.ledger.grant(line, charged);
        self.stop_waiting(request);
    }

    /// A request at an engine comes back to wait: what was charged for it is given back whole.
    pub(crate) fn returned(&mut self, request: RequestId) {
        self.release(request, Some(0));
        self.wait(request);
    }

    /// A token of a request has come; says whether it was the first.
    pub(crate) fn token(&mut self, request: RequestId, tokens: u32, now: Time) -> bool {
        let record = &mut self.records[request as usize];
        let fresh = tokens.saturating_sub(record.streamed);
        let first = record.streamed == 0;
        record.streamed = record.streamed.max(tokens);
        let read = if first { record.prompt } else { 0 };
        let line = line_of(record);
        if first {
            record.first = now;
        }
        if self.window.holds(now) {
            self.produced.prompt += u64::from(read);
            self.produced.output += u64::from(fresh);
        }
        let cost = Cost::Tokens.of(Spent { prompt: read, output: fresh });
        self.shares.delivered(line, cost as f64);
        if first {
            self.shares.answered(line, now);
        }
        first
    }

    /// A request ends where it stands: waiting, or at an engine with what it used there.
    pub(crate) fn ended(&mut self, request: RequestId, outcome: Outcome, now: Time) {
        let record = &mut self.records[request as usize];
        (record.end, record.outcome) = (now, outcome);
        let (line, unanswered) = (line_of(record), record.streamed == 0);
        if outcome == Outcome::Served && self.window.holds(now) {
            self.produced.requests += 1;
        }
        if unanswered {
            self.shares.answered(line, now);
        }
    }

    /// A request that waited has ended.
    pub(crate) fn stop_waiting(&mut self, request: RequestId) {
        let record = &self.records[request as usize];
        let line = line_of(record);
        self.waiting_by_band[record.band as usize] -= 1;
        self.waiting[line] -= 1;
        if self.waiting[line] == 0 {
            self.ledger.leave(line);
        }
    }

    /// A request at an engine has ended with this cost, if the cost is known.
    pub(crate) fn release(&mut self, request: RequestId, real: Option<u64>) {
        self.ledger.settle(self.grants[request as usize], real);
        if let Some(engine) = self.records[request as usize].engine {
            self.in_flight[engine as usize] -= 1;
        }
    }

    /// What a request has used so far.
    pub(crate) fn spent(&self, request: RequestId) -> Spent {
        let record = &self.records[request as usize];
        Spent { prompt: record.prompt, output: record.streamed }
    }

    /// What a request has cost so far in the gate's unit, if anything has come back from it.
    pub(crate) fn real(&self, request: RequestId) -> Option<u64> {
        let spent = self.spent(request);
        (spent.output > 0).then(|| self.cost.of(spent))
    }

    /// Requests that wait at the gateway.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting_by_band.iter().sum()
    }

    /// Requests at an engine.
    pub(crate) fn in_flight(&self, engine: usize) -> u32 {
        self.in_flight[engine]
    }

    /// The part of the run that counts.
    pub(crate) fn window(&self) -> Window {
        self.window
    }

    /// The part of the run that counts begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.shares.begin(now);
    }

    /// Takes a sample, and adds the number of requests in flight at each engine.
    pub(crate) fn sample(&mut self, mut engines: Vec<EngineMoment>, tenants: usize, now: Time) {
        for (engine, &in_flight) in engines.iter_mut().zip(&self.in_flight) {
            engine.in_flight = in_flight;
        }
        let shares = (0..tenants).map(|tenant| self.shares.of(tenant)).collect();
        let waiting = self.waiting_by_band;
        self.series.moments.push(Moment { at: now, waiting, engines, shares });
    }

    /// The run is over.
    pub(crate) fn finish(mut self, tenants: Vec<Tenant>, preemptions: u64, now: Time) -> History {
        self.shares.finish(now);
        History {
            records: self.records,
            tenants,
            window: self.window,
            produced: self.produced,
            preemptions,
            prefix_hits: (0, 0),
            engine_secs: 0.0,
            shares: self.shares,
            ledger: self.ledger,
            series: self.series,
            ended: now,
        }
    }

    fn wait(&mut self, request: RequestId) {
        let record = &self.records[request as usize];
        let line = line_of(record);
        self.waiting_by_band[record.band as usize] += 1;
        if self.waiting.len() <= line {
            self.waiting.resize(line + 1, 0);
        }
        self.waiting[line] += 1;
        if self.waiting[line] == 1 {
            self.ledger.enter(line);
        }
    }
}

/// The line of a request: its tenant and its band in one number.
fn line_of(record: &Record) -> usize {
    record.tenant as usize * BANDS + record.band as usize
}
