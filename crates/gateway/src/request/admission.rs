//! Admission: the way of a request from its arrival to a backend.
//!
//! A request is offered to the scheduler, which grants a backend at once, lets it wait, or refuses
//! it. A backend that failed the request or left in between sends it back to wait. `hold` has the
//! requests for models without a backend.

use std::sync::Arc;

use flow::{BackendId, ModelId, RequeuePosition, Span};

use super::Request;
use crate::backend::{Endpoint, Lookup, SubsetModel};
use crate::body_memory::BodyHolder;
use crate::config::settings::Cost;
use crate::ingress;
use crate::output_history::CLAIM_MIN;
use crate::reply::{Fault, Refused};
use crate::scheduler::{Grant, Permit, QueueView, Target};

/// When to try again while no backend is there: no queue says when one will come.
pub(super) const RETRY_WITHOUT_BACKEND: Span = Span::from_secs(5);

/// A grant, with the backend that it names.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) grant: Box<Grant>,
    pub(crate) endpoint: Arc<Endpoint>,
}

// === impl Request ===

impl Request {
    /// Offers the request to the scheduler: it then waits, or has a grant already.
    pub(crate) async fn enqueue(&mut self) -> Result<(), Refused> {
        self.bound_estimate();
        self.charge_tenant()?;
        if self.intent.direct {
            return Ok(());
        }
        let permit = match self.lookup() {
            Lookup::Known(model) => self.offer(model)?,
            Lookup::Configured(model) => self.hold(model)?,
            _ => Box::pin(self.await_model()).await?,
        };
        self.record.admitted(permit.ticket());
        self.record.bypassed = !permit.waits();
        if permit.waits() {
            self.record.began_waiting();
            self.announce_unserved();
        }
        self.permit = Some(permit);
        Ok(())
    }

    /// Waits until the request may go to a backend that is still there.
    pub(crate) async fn admitted(&mut self) -> Result<Admitted, Refused> {
        if self.intent.direct {
            return self.admitted_directly();
        }
        loop {
            let mut grant = self.granted().await?;
            self.count_waiting(&mut grant);
            self.note(&grant);
            let endpoint = self.state.fleet.roster().endpoint(grant.backend).cloned();
            if let Some(endpoint) = endpoint {
                self.record.granted(&endpoint);
                grant.choice.iter().for_each(|choice| self.record.routed(choice.pending));
                return Ok(Admitted { grant, endpoint });
            }
            // The backend left between the grant and now.
            self.requeue(RequeuePosition::Original);
        }
    }

    /// Waits for a grant.
    async fn granted(&mut self) -> Result<Box<Grant>, Refused> {
        if self.hold_place.is_some() {
            return Box::pin(self.granted_unless_left_out()).await;
        }
        let Some(permit) = &mut self.permit else { return Err(Fault::Internal.into()) };
        let outcome = permit.grant().await;
        outcome.map_err(|refused| self.refused_after_wait(refused))
    }

    /// Sends a request to a ready backend without the queue. Further attempts take the next one.
    fn admitted_directly(&mut self) -> Result<Admitted, Refused> {
        if self.state.is_closing() {
            return Err(Fault::ShuttingDown.into());
        }
        if self.read_place.is_none() {
            let tenant = self.intent.caller.as_ref().map(|caller| &*caller.tenant.name);
            let mut place = self.state.reads.hold_for(BodyHolder::of(tenant, self.peer));
            // One client has three quarters at most. A gateway that is its own backend would send
            // each of them to itself without end.
            place.more(1, self.state.open_files.reads(self.config.server.connections_max))?;
            self.read_place = Some(place);
        }
        let model = match self.lookup() {
            Lookup::Known(model) => model,
            Lookup::Unknown => return Err(self.unknown_model()),
            Lookup::Configured(_) | Lookup::NotYet(_) => return Err(NO_BACKEND),
        };
        self.model_named = Some(model);
        let model = self.within_subset(model)?.id;
        self.model = Some(model);
        let roster = self.state.fleet.roster();
        let ready: Vec<BackendId> = roster.serving(model).collect();
        let at = self.record.arrived.nanos().wrapping_add(u64::from(self.record.attempts));
        let at = at.checked_rem(ready.len() as u64).ok_or(NO_BACKEND)?;
        let backend = ready[at as usize];
        let endpoint = roster.endpoint(backend).cloned().ok_or(NO_BACKEND)?;
        let (waited, at) = (Span::ZERO, self.record.now());
        let grant = Box::new(Grant { backend, choice: None, urgency: None, waited, at });
        self.note(&grant);
        self.record.bypassed = true;
        self.record.granted(&endpoint);
        Ok(Admitted { grant, endpoint })
    }

    /// Counts the time from now on as a wait: the backend has failed the request.
    pub(crate) fn returned(&mut self) {
        self.waits_since = Some(self.record.now());
        self.record.began_waiting();
    }

    /// Lets the request wait again, after a backend failed it.
    pub(crate) fn requeue(&mut self, position: RequeuePosition) {
        self.record.bypassed = false;
        if let Some(permit) = &mut self.permit {
            permit.requeue(position);
        }
    }

    /// Lets the request wait without any backend, after a backend failed it.
    pub(crate) fn set_aside(&mut self, position: RequeuePosition) {
        self.record.bypassed = false;
        if let Some(permit) = &mut self.permit {
            permit.set_aside(position);
        }
    }

    /// Lets the waiting request wait without any backend, at its place in the queue.
    pub(crate) fn step_aside(&self) {
        if let Some(permit) = &self.permit {
            permit.step_aside();
        }
    }

    /// Lets the request wait for all backends of its model again.
    pub(crate) fn widen(&self) {
        if let Some(permit) = &self.permit {
            permit.widen();
        }
    }

    /// Whether the request has to wait.
    pub(crate) fn is_queued(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::waits)
    }

    /// A view of the request's place in the queue that outlives a borrow of the request.
    pub(crate) fn queue_view(&self) -> Option<QueueView> {
        self.permit.as_ref().map(Permit::view)
    }

    /// Tells autoscalers that a request waits without a backend.
    pub(super) fn announce_unserved(&self) {
        if !self.has_backend() {
            self.state.unserved.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    fn note(&mut self, grant: &Grant) {
        self.hold_place = None;
        self.note_sent();
        self.record.sent = grant.at;
        let since = self.waits_since.take();
        let waited = since.map_or(grant.waited, |since| grant.at.since(since));
        let record = &mut *self.record;
        let before = record.waited.unwrap_or(Span::ZERO);
        record.waited = Some(Span::from_nanos(before.nanos().saturating_add(waited.nanos())));
        record.attempts += 1;
        record.urgency = grant.urgency.map(Box::new);
        if let Some(choice) = &grant.choice {
            record.boost = choice.score.boost;
            record.score = choice.score.total;
            record.queue_penalty = choice.score.queueing();
            record.cached_expected = choice.cached_tokens;
            self.record.chose(choice.reason);
        }
    }

    /// Completes a refusal after a wait: how long it was, and when to try again.
    pub(super) fn refused_after_wait(&mut self, refused: Refused) -> Refused {
        let waited = self.total_wait();
        self.record.waited = Some(waited);
        let fault = self.in_flow(refused.fault.after(waited));
        self.retried_late(Refused { fault, ..refused })
    }

    /// The refusal as it is while no backend is ready: it says so, and the next try is later.
    fn retried_late(&self, refused: Refused) -> Refused {
        if self.has_backend() {
            return refused;
        }
        let retry_after = refused.retry_after.max(Some(RETRY_WITHOUT_BACKEND));
        Refused { fault: refused.fault.without_ready_backend(), retry_after }
    }

    /// The time in the queue, without the time at backends that failed the request.
    pub(super) fn total_wait(&mut self) -> Span {
        let Some(since) = self.waits_since.take() else { return self.age() };
        let before = self.record.waited.unwrap_or(Span::ZERO).nanos();
        let latest = self.record.now().since(since).nanos();
        Span::from_nanos(before.saturating_add(latest))
    }

    /// Whether any backend can take the request now.
    fn has_backend(&self) -> bool {
        let Lookup::Known(model) = self.lookup() else { return false };
        let served = |subset: SubsetModel| self.state.fleet.roster().is_served(subset.id);
        self.within_subset(model).is_ok_and(served)
    }

    /// Bounds the output that the client claims to need: by the context of the model, and by its
    /// responses before.
    fn bound_estimate(&mut self) {
        let intent = &*self.intent;
        let claimed = intent.tokens.saturating_sub(intent.prompt) / intent.choices.max(1);
        if claimed <= CLAIM_MIN {
            return;
        }
        let Lookup::Known(model) = self.lookup() else { return };
        let context = self.state.fleet.roster().context(model).unwrap_or(u64::MAX);
        let left = context.saturating_sub(intent.prompt).max(CLAIM_MIN);
        let output = claimed.min(left).min(self.state.outputs.bound(model));
        let tokens = intent.prompt.saturating_add(output.saturating_mul(intent.choices));
        self.intent.tokens = tokens;
        if self.config.cost == Cost::Tokens {
            self.intent.cost = tokens;
        }
    }

    pub(super) fn lookup(&self) -> Lookup {
        let roster = self.state.fleet.roster();
        match &self.intent.target {
            Some(model) => roster.lookup(model),
            None => roster.anywhere(self.record.arrived.nanos()),
        }
    }

    /// The model as only the backends of the subset serve it, or the one that the client names.
    fn within_subset(&self, model: ModelId) -> Result<SubsetModel, Refused> {
        let Some(subset) = &self.subset else {
            let id = self.pinned(model).unwrap_or(model);
            return Ok(SubsetModel { id, present: true });
        };
        self.state.fleet.subset_model(model, subset).ok_or(NO_BACKEND_IN_SUBSET)
    }

    /// The model as only the backend serves it that the client names; `None` if that backend is
    /// unknown or not ready, because then any other may serve it.
    fn pinned(&self, model: ModelId) -> Option<ModelId> {
        let id = self.intent.preferences.target_backend.as_deref()?;
        let roster = self.state.fleet.roster();
        let named = |&backend: &BackendId| {
            roster.endpoint(backend).is_some_and(|endpoint| endpoint.name == id)
        };
        let backend = roster.serving(model).find(named)?;
        self.state.fleet.pinned_model(model, backend)
    }

    pub(super) fn offer(&mut self, model: ModelId) -> Result<Permit, Refused> {
        let adapter = self.state.fleet.roster().adapter(model);
        let subset = self.within_subset(model)?;
        if !subset.present {
            self.take_hold_place()?;
        }
        let target = Target { model: subset.id, adapter };
        (self.model, self.model_named) = (Some(target.model), Some(model));
        let observer = &self.state.observer;
        let began = observer.times_enqueue().then(|| self.record.now());
        let permit = self.state.scheduler.offer(&self.intent, target, self.record.arrived);
        if let Some(began) = began {
            let taken = self.record.now().since(began);
            observer.enqueued(self.intent.band, permit.is_ok(), taken);
        }
        permit.map_err(|refused| {
            let Refused { fault, retry_after } = refused;
            let model = self.intent.model.as_deref().unwrap_or_default();
            let fault = fault.about(model, self.intent.target.as_deref().unwrap_or(model));
            self.retried_late(Refused { fault: self.in_flow(fault), retry_after })
        })
    }

    fn in_flow(&self, fault: Fault) -> Fault {
        let capacity = ingress::class_of(&self.config, self.intent.class).capacity;
        fault.in_flow(&self.intent.flow, capacity)
    }

    pub(super) fn unknown_model(&self) -> Refused {
        if self.state.fleet.roster().is_empty() {
            return NO_BACKEND;
        }
        match &self.intent.model {
            Some(model) => {
                let target = self.intent.target.as_deref().unwrap_or(model);
                Fault::model_not_found(model, target).into()
            }
            None => Fault::BackendError("none lists any model".into()).into(),
        }
    }
}

pub(super) const NO_BACKEND: Refused =
    Refused { fault: Fault::NoBackend, retry_after: Some(RETRY_WITHOUT_BACKEND) };

/// The list of endpoints may be newer in the proxy than here, or the other way round.
const NO_BACKEND_IN_SUBSET: Refused =
    Refused { fault: Fault::NoBackendInSubset, retry_after: Some(RETRY_WITHOUT_BACKEND) };
