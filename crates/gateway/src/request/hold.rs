//! Requests that wait for a model without a backend.
//!
//! A request waits for a configured model that no backend lists, or no backend that it may use.
//! While the list of a backend is unknown, or a pool has no backend, a request for any other model
//! waits too. Such requests wait in the queue as others do, with a bound of their own, and are
//! looked up again when model lists change.

use flow::{Admission, ModelId, Span};

use super::Request;
use super::admission::{NO_BACKEND, RETRY_WITHOUT_BACKEND};
use crate::backend::Lookup;
use crate::hold_places::HoldPlace;
use crate::ingress;
use crate::reply::{Fault, Refused};
use crate::scheduler::{Grant, Permit};

// === impl Request ===

impl Request {
    /// Waits for a grant without a backend, but not for a model that no backend will serve: the
    /// pool may have returned without it.
    pub(super) async fn granted_unless_left_out(&mut self) -> Result<Box<Grant>, Refused> {
        let mut models = self.state.fleet.models_changed();
        while self.lookup() != Lookup::Unknown {
            let Some(permit) = &mut self.permit else { return Err(Fault::Internal.into()) };
            tokio::select! {
                biased;
                outcome = permit.grant() => {
                    return outcome.map_err(|refused| self.refused_after_wait(refused));
                }
                _ = models.changed() => {}
                () = HoldPlace::lost(self.hold_place.as_ref()) => return Err(self.preempted()),
            }
        }
        Err(self.left_out())
    }

    /// The refusal of a request that has waited for a model that no backend will serve.
    fn left_out(&mut self) -> Refused {
        self.permit = None;
        self.record.waited = Some(self.total_wait());
        self.unknown_model()
    }

    /// The refusal of a request whose place one of a higher band has taken.
    fn preempted(&mut self) -> Refused {
        self.permit = None;
        let retry_after = Some(RETRY_WITHOUT_BACKEND);
        self.refused_after_wait(Refused { fault: Fault::Preempted, retry_after })
    }

    /// Waits until the model is known. A request for it waits in the queue meanwhile, as others do,
    /// so that limits and deadlines hold for it too.
    pub(super) async fn await_model(&mut self) -> Result<Permit, Refused> {
        self.waits_since = Some(self.record.now());
        self.hold_for_pool()?;
        let mut models = self.state.fleet.models_changed();
        let usual = ingress::ttl_of(&self.config, self.intent.class);
        let ttl = self.intent.ttl.unwrap_or(usual);
        loop {
            models.borrow_and_update();
            let model = match self.lookup() {
                Lookup::Known(model) => return self.offer(model),
                Lookup::Configured(model) => return self.hold(model),
                Lookup::NotYet(model) => model,
                Lookup::Unknown => return Err(self.unknown_model()),
            };
            let mut permit = self.offer(model)?;
            self.record.began_waiting();
            self.announce_unserved();
            tokio::select! {
                outcome = permit.grant() => {
                    outcome.map_err(|refused| self.refused_after_wait(refused))?;
                }
                () = HoldPlace::lost(self.hold_place.as_ref()) => return Err(self.preempted()),
                // The time that it has waited counts when it waits again.
                _ = models.changed() => self.intent.ttl = Some(remaining(ttl, self.age())),
            }
        }
    }

    /// Offers a request for a configured model that no backend lists.
    pub(super) fn hold(&mut self, model: ModelId) -> Result<Permit, Refused> {
        self.take_hold_place()?;
        self.offer(model)
    }

    /// Holds a request for a pool without models. If all places are taken, it still waits for the
    /// list of a backend that is there, as without a pool.
    fn hold_for_pool(&mut self) -> Result<(), Refused> {
        let roster = self.state.fleet.roster();
        let (holds, is_empty) = (roster.holds(), roster.is_empty());
        drop(roster);
        match holds.then(|| self.take_hold_place()) {
            Some(Err(refused)) if is_empty => Err(refused),
            _ => Ok(()),
        }
    }

    /// A request without a backend waits in the queue as others do, but with a time to live and a
    /// bound of its own.
    pub(super) fn take_hold_place(&mut self) -> Result<(), Refused> {
        if self.hold_place.is_none() {
            let hold = self.config.hold;
            // As in the queue, a request loses its place under `all` alone.
            let evicts = self.config.flow.admission == Admission::All;
            let place = self.state.hold_places.take(hold.capacity, self.intent.band, evicts);
            self.hold_place = Some(place.ok_or(NO_BACKEND)?);
            self.intent.ttl = self.intent.ttl.or(Some(hold.ttl));
        }
        Ok(())
    }
}

fn remaining(whole: Span, gone: Span) -> Span {
    Span::from_nanos(whole.nanos().saturating_sub(gone.nanos()))
}
