//! The gateway's side: the messages of the engines, and the decisions of the policy.

use flow::Time;

use super::event_queue::Event;
use super::{ATTEMPTS_MAX, Stage, World};
use crate::engine::Progress;
use crate::measure::Outcome;
use crate::policy::{Decision, EngineId, Failure, RequestId};

// === impl World ===

impl World<'_> {
    /// Applies the decisions of the policy.
    pub(super) fn apply_decisions(&mut self) {
        while let Some(decision) = self.policy.decide() {
            match decision {
                Decision::Send { request, engine, charged } => {
                    self.open[request as usize].stage = Stage::At(engine);
                    self.recorder.sent(request, engine, charged, self.now);
                    let arrives = self.one_way();
                    self.event_queue.add(arrives, Event::Submit(request, engine));
                }
                Decision::Refuse { request, why, retry_after } => {
                    self.close(request, Outcome::Refused(why), None);
                    self.try_again(request, retry_after);
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
        let Progress { job, tokens, finished, cached } = progress;
        let request = job.0;
        if self.open[request as usize].stage == Stage::Over {
            return;
        }
        if self.recorder.token(request, tokens, self.now) {
            self.policy.started(request, self.now);
            self.apply_decisions();
        }
        if self.follows_streams {
            self.policy.streamed(request, tokens, self.now);
            self.apply_decisions();
        }
        if finished {
            let real = self.recorder.real(request);
            self.policy.cached(request, cached, self.now);
            self.close(request, Outcome::Served, real);
            self.policy.ended(request, self.recorder.spent(request), self.now);
            self.apply_decisions();
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
        self.policy.failed(request, failure, self.now);
        self.apply_decisions();
    }

    /// The gateway learns whether an engine takes requests.
    pub(super) fn note_ready(&mut self, engine: EngineId, ready: bool) {
        self.ready[engine as usize] = ready;
        self.policy.engines(&self.ready, self.now);
        self.apply_decisions();
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
        match outcome {
            Outcome::Served | Outcome::GaveUp => self.send_next(request),
            Outcome::Failed => self.try_again(request, None),
            // Who refuses says when to come back.
            Outcome::Refused(_) | Outcome::Open => {}
        }
    }

    /// When something sent now is at the other side.
    pub(super) fn one_way(&self) -> Time {
        self.now.after(self.rules.network)
    }
}
