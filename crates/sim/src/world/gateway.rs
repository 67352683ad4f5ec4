//! The gateway's side: what reaches it from the engines, and what it decides.

use flow::Time;

use super::agenda::Event;
use super::{ATTEMPTS_MAX, Stage, World};
use crate::engine::Progress;
use crate::gate::{Decision, EngineId, Failure, RequestId};
use crate::measure::Outcome;

// === impl World ===

impl World<'_> {
    /// Carries out what the gate has decided.
    pub(super) fn obey(&mut self) {
        while let Some(decision) = self.gate.decide() {
            match decision {
                Decision::Send { request, engine, charged } => {
                    self.open[request as usize].stage = Stage::At(engine);
                    self.recorder.sent(request, engine, charged, self.now);
                    let arrives = self.one_way();
                    self.agenda.add(arrives, Event::Submit(request, engine));
                }
                Decision::Refuse { request, why } => {
                    self.close(request, Outcome::Refused(why), None);
                }
            }
        }
    }

    /// The tokens of one step of an engine have come.
    pub(super) fn receive(&mut self, number: u32) {
        let batch = self.batches.take(number);
        for &progress in &batch {
            self.progress(progress);
        }
        self.batches.give_back(number, batch);
    }

    fn progress(&mut self, progress: Progress) {
        let Progress { job, tokens, finished } = progress;
        let request = job.0;
        if self.open[request as usize].stage == Stage::Over {
            return;
        }
        if self.recorder.token(request, tokens, self.now) {
            self.gate.started(request, self.now);
            self.obey();
        }
        if self.follows_streams {
            self.gate.streamed(request, tokens, self.now);
            self.obey();
        }
        if finished {
            let real = self.recorder.real(request);
            self.close(request, Outcome::Served, real);
            self.gate.ended(request, self.recorder.spent(request), self.now);
            self.obey();
        }
    }

    /// An engine has failed a request; where it can never serve it, trying again would not help.
    pub(super) fn fail(&mut self, request: RequestId, for_good: bool) {
        if self.open[request as usize].stage == Stage::Over {
            return;
        }
        let spent = self.recorder.spent(request);
        let attempts = self.recorder.records[request as usize].attempts;
        let failure = if spent.output > 0 {
            let real = self.recorder.real(request);
            self.close(request, Outcome::Failed, real);
            Failure::BrokenOff(spent)
        } else if for_good || attempts >= ATTEMPTS_MAX {
            self.close(request, Outcome::Failed, Some(0));
            Failure::Exhausted
        } else {
            self.open[request as usize].stage = Stage::Waiting;
            self.recorder.returned(request);
            Failure::Untouched
        };
        self.gate.failed(request, failure, self.now);
        self.obey();
    }

    /// The gateway learns whether an engine takes requests.
    pub(super) fn note_ready(&mut self, engine: EngineId, ready: bool) {
        self.ready[engine as usize] = ready;
        self.gate.engines(&self.ready, self.now);
        self.obey();
    }

    /// Ends a request, with what it really cost where it was at an engine and that is known.
    pub(super) fn close(&mut self, request: RequestId, outcome: Outcome, real: Option<u64>) {
        let open = &mut self.open[request as usize];
        match std::mem::replace(&mut open.stage, Stage::Over) {
            Stage::Waiting => self.recorder.stop_waiting(request),
            Stage::At(_) => self.recorder.release(request, real),
            Stage::Over => return,
        }
        open.prefix = Default::default();
        self.open_count -= 1;
        self.recorder.ended(request, outcome, self.now);
    }

    /// When something sent now is at the other side.
    pub(super) fn one_way(&self) -> Time {
        self.now.after(self.rules.network)
    }
}
