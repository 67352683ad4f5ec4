//! One request on its way through the gateway, for `serve` and `epp`.
//!
//! A [`Request`] holds what the client asks for (its [`Intent`]), its [`Permit`] from the scheduler
//! and its [`RequestRecord`]. `admission` takes it from its arrival to a backend, `settlement` ends
//! it. A request may be dropped at any time: the permit then cancels the ask in the core, and the
//! record says that the client left.

mod admission;
mod deadline;
mod hold;
mod record;
mod settlement;
mod tenant_charge;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;

use flow::{ModelId, Span, Time};

use crate::backend::{BegunRequest, CallerHash, EndpointAddress};
use crate::body_memory::Reservation;
use crate::config::Config;
use crate::hold_places::HoldPlace;
use crate::ingress::{self, Intent};
use crate::scheduler::{Grant, Permit};
use crate::state::State;

pub(crate) use admission::Admitted;
pub(crate) use deadline::ResponseTimeout;
pub(crate) use record::RequestRecord;
pub(crate) use settlement::{DeliveryRecord, TokenUsage, Told};
pub(crate) use tenant_charge::arrive;

/// A request that was read. It is large and changes hands often, so its owners keep it in a box.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) state: Arc<State>,
    /// The configuration when the request arrived; a reload does not change it on the way.
    pub(crate) config: Arc<Config>,
    pub(crate) intent: Box<Intent>,
    /// Its hold on the scheduler from admission to its end. Stands before the record: the core
    /// hears of a client that left before the log does.
    permit: Option<Permit>,
    pub(crate) record: RequestRecord,
    /// The only endpoints that may serve it, where the proxy in front named some.
    pub(crate) subset: Option<BTreeSet<EndpointAddress>>,
    /// The model that it waits for, once it was offered to the scheduler, and the one that it
    /// names: the first may be the second at a subset of its backends.
    pub(crate) model: Option<ModelId>,
    model_named: Option<ModelId>,
    /// Since when it waits outside the core's count: for an unknown model, or after an attempt.
    waits_since: Option<Time>,
    /// Its place while it waits for a configured model that no backend listed.
    hold_place: Option<HoldPlace>,
    /// Its place among the requests that only read.
    read_place: Option<Reservation>,
    /// The address of its client, without the proxies that it names.
    pub(crate) peer: Option<IpAddr>,
}

// === impl Request ===

impl Request {
    pub(crate) fn new(
        state: Arc<State>,
        config: Arc<Config>,
        mut intent: Box<Intent>,
        mut record: RequestRecord,
    ) -> Box<Self> {
        let prefers = &mut intent.preferences;
        if let Some(at) = prefers.deadline_at {
            let left = deadline::until(at, state.clock.now().since(record.arrived));
            prefers.deadline = prefers.deadline.into_iter().chain([left]).min();
        }
        record.warns_of_leaving = config.conventions.warns_of_leaving;
        if intent.workload.is_unused(&config) {
            state.observer.workloads.note_unused(record.arrived);
        }
        Box::new(Self {
            state,
            config,
            intent,
            permit: None,
            record,
            subset: None,
            model: None,
            model_named: None,
            waits_since: None,
            hold_place: None,
            read_place: None,
            peer: None,
        })
    }

    /// The model that the client named, where the request is sent under another name.
    pub(crate) fn replaced_model(&self) -> Option<&str> {
        let (model, target) = (self.intent.model.as_deref()?, self.intent.target.as_deref()?);
        (model != target).then_some(model)
    }

    /// Adds the requests that wait to those at the backend, where they count as pending there.
    fn count_waiting(&self, grant: &mut Grant) {
        let Some(choice) = grant.choice.as_mut() else { return };
        if !self.config.conventions.waiting_is_pending {
            return;
        }
        let waiting = self.state.scheduler.with(|core, _| core.waiting_by_backend());
        let more = waiting.get(&grant.backend).copied().unwrap_or_default();
        choice.pending.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        choice.depth = choice.pending.iter().sum();
    }

    /// The request as statistics of its backend know it.
    pub(crate) fn begun(&self) -> BegunRequest {
        BegunRequest { model: self.model_named.unwrap_or(ModelId(0)), sent: self.record.sent }
    }

    /// Its tenant, or its flow where there are no tenants.
    pub(crate) fn caller_hash(&self) -> CallerHash {
        let tenant = self.intent.caller.as_ref().map(|caller| &*caller.tenant.name);
        let mut hasher = DefaultHasher::new();
        tenant.unwrap_or(&self.intent.flow).hash(&mut hasher);
        CallerHash(hasher.finish())
    }

    /// Whether it could wait again for at least this long before its time to live ends.
    pub(crate) fn may_wait_for(&self, span: Span) -> bool {
        let usual = ingress::ttl_of(&self.config, self.intent.class);
        let ttl = self.intent.ttl.unwrap_or(usual);
        self.age().nanos().saturating_add(span.nanos()) < ttl.nanos()
    }

    /// The time since the request arrived.
    pub(crate) fn age(&self) -> Span {
        self.state.clock.now().since(self.record.arrived)
    }
}
