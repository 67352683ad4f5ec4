//! A request's way to a place: what every door does alike, from knowing what is asked for to being
//! granted a backend.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flow::{ModelId, Span, Time};
use tokio::time::Instant;

use crate::backend::{EndpointAddress, Lookup};
use crate::config::Resolved;
use crate::ingress::{self, Intent};
use crate::proxy::Flight;
use crate::reply::{Fault, Refused};
use crate::scheduler::{Grant, Permit, Target};
use crate::state::State;
use crate::trip::Trip;

/// When to try again while no backend is there: nothing that waits says when one will be.
const RETRY_WHEN_AWAY: Span = Span::from_secs(5);

/// A request under way.
#[derive(Debug)]
pub(crate) struct Passage {
    pub(crate) state: Arc<State>,
    pub(crate) config: Arc<Resolved>,
    pub(crate) intent: Intent,
    pub(crate) trip: Trip,
    /// Where alone it may go, if somebody said so.
    pub(crate) within: Option<BTreeSet<EndpointAddress>>,
    /// The model that it waits for, once it does.
    pub(crate) model: Option<ModelId>,
}

/// Why an answer must have begun by some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hurry {
    /// Its client waits no longer.
    Client,
    /// No backend should take as long as this.
    Backend(Duration),
    /// Nothing should stand still for as long as this.
    Stream(Duration),
}

// === impl Hurry ===

impl Hurry {
    /// What is said when no answer has begun by then.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::Client => Fault::DeadlineExceeded,
            Self::Backend(limit) => {
                let limit = limit.as_secs();
                Fault::BackendError(format!("no answer began within {limit} s"))
            }
            Self::Stream(limit) => {
                Fault::BackendError(format!("nothing came for {} s", limit.as_secs()))
            }
        }
    }
}

// === impl Passage ===

impl Passage {
    /// Takes a place, in flight or in the queue.
    pub(crate) async fn permit(&mut self) -> Result<Permit, Refused> {
        if let Lookup::Known(model) = self.lookup() {
            return self.offer(model);
        }
        let mut learnt = self.state.fleet.models_changed();
        let usual = ingress::ttl_of(&self.config, self.intent.class);
        let ttl = self.intent.ttl.unwrap_or(usual);
        loop {
            learnt.borrow_and_update();
            let model = match self.lookup() {
                Lookup::Known(model) => return self.offer(model),
                Lookup::NotYet(model) => model,
                Lookup::Unknown => return Err(self.unknown_model()),
            };
            // A backend's models are not known yet: it waits like others, and looks again.
            let mut permit = self.offer(model)?;
            tokio::select! {
                outcome = permit.grant() => {
                    outcome.map_err(|refused| self.waited_out(refused))?;
                }
                // The time that it has waited counts when it waits again.
                _ = learnt.changed() => self.intent.ttl = Some(less(ttl, self.age())),
            }
        }
    }

    /// How long ago it arrived.
    pub(crate) fn age(&self) -> Span {
        self.state.clock.now().since(self.trip.arrived)
    }

    /// Writes down what was granted.
    pub(crate) fn granted(&mut self, grant: &Grant) {
        let record = &mut self.trip.record;
        record.waited = Some(grant.waited);
        record.attempts += 1;
        if let Some(choice) = &grant.choice {
            record.reason = choice.reason.text();
            record.boost = choice.score.boost;
            record.score = choice.score.total;
            record.queue_penalty = choice.score.queue_penalty;
        }
    }

    /// It is at its backend: what comes now is its answer.
    pub(crate) fn fly(self, permit: Permit) -> Flight {
        Flight {
            permit,
            trip: self.trip,
            cost: self.config.cost,
            prompt_estimate: self.intent.prompt,
            streamed: self.intent.streamed,
        }
    }

    /// Until when an answer must have begun that is asked for now, and why.
    pub(crate) fn hurry(&self, now: Time) -> (Instant, Hurry) {
        let (clock, limit) = (self.state.clock, self.config.fleet.answer_timeout);
        let usual = clock.instant(now) + limit;
        let deadline =
            self.intent.deadline.map(|span| clock.instant(self.trip.arrived.after(span)));
        match deadline.filter(|&deadline| deadline < usual) {
            Some(deadline) => (deadline, Hurry::Client),
            None => (usual, Hurry::Backend(limit)),
        }
    }

    /// A refusal after a wait, with what only its holder knows.
    pub(crate) fn waited_out(&mut self, refused: Refused) -> Refused {
        let waited = self.age();
        self.trip.record.waited = Some(waited);
        let fault = refused.fault.after(waited);
        let away = matches!(fault, Fault::QueueTimeout(_)) && self.is_away();
        let retry_after = refused.retry_after.max(away.then_some(RETRY_WHEN_AWAY));
        Refused { fault, retry_after }
    }

    /// Whether no backend can take it now.
    fn is_away(&self) -> bool {
        match self.lookup() {
            Lookup::Known(model) => {
                let served = |model| self.state.fleet.roster().is_served(model);
                !self.narrowed(model).is_ok_and(served)
            }
            Lookup::NotYet(_) | Lookup::Unknown => true,
        }
    }

    fn lookup(&self) -> Lookup {
        let roster = self.state.fleet.roster();
        match &self.intent.target {
            Some(model) => roster.lookup(model),
            None => roster.anywhere(self.trip.arrived.nanos()),
        }
    }

    /// The model as only those serve it who may.
    fn narrowed(&self, model: ModelId) -> Result<ModelId, Refused> {
        let Some(spots) = &self.within else { return Ok(model) };
        let none = Refused { fault: Fault::NoBackend, retry_after: Some(RETRY_WHEN_AWAY) };
        self.state.fleet.subset_model(model, spots).ok_or(none)
    }

    fn offer(&mut self, model: ModelId) -> Result<Permit, Refused> {
        let adapter = self.state.fleet.roster().adapter(model);
        let target = Target { model: self.narrowed(model)?, adapter };
        self.model = Some(target.model);
        let permit = self.state.scheduler.offer(&self.intent, target, self.trip.arrived);
        permit.map_err(|refused| {
            let model = self.intent.model.as_deref().unwrap_or_default();
            Refused { fault: refused.fault.about(model), ..refused }
        })
    }

    fn unknown_model(&self) -> Refused {
        if self.state.fleet.roster().is_empty() {
            return Refused { fault: Fault::NoBackend, retry_after: Some(RETRY_WHEN_AWAY) };
        }
        match &self.intent.model {
            Some(model) => Fault::ModelNotFound(model.clone()).into(),
            None => Fault::BackendError("none lists any model".into()).into(),
        }
    }
}

/// What is left of a time.
fn less(whole: Span, gone: Span) -> Span {
    Span::from_nanos(whole.nanos().saturating_sub(gone.nanos()))
}
