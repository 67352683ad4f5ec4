//! The ask (one request for service), and the identifiers of the core.
//!
//! An [`Ask`] is a small `Copy` value without strings: the controller interns the names of flows
//! and workloads, and the caller numbers models and backends.

use crate::links::NONE;
use crate::time::{Span, Time};

/// The number of priority bands.
pub const BANDS: usize = 4;

/// The largest cost of one ask. Larger estimates and usages count as this much, which keeps the
/// arithmetic of tags within 64 bits.
pub const COST_MAX: u64 = (1 << 28) - 1;

/// A priority level. A strict cascade serves a band only while no higher band has an ask that could
/// go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Band {
    /// Work that can wait; the first to be preempted.
    BestEffort = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// Above the default.
    High = 2,
    /// Never preempted, with capacity reserved for it.
    Critical = 3,
}

/// A flow that the controller knows: a stream of asks that is scheduled as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A target model, numbered by the caller from 0: tables are as long as the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(pub u32);

/// A model server, numbered by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u32);

/// A workload in the registry, or one of the two ids that are shared by many workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The identifier of an ask from offer to end. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// The workload of an ask and its criticality, as the client states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The workload.
    pub id: WorkloadId,
    /// From 1 (lowest) to 5; any other value counts as 3.
    pub criticality: u8,
}

/// One request for service.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The flow it is scheduled in.
    pub flow: FlowId,
    /// The model it needs.
    pub model: ModelId,
    /// Its priority.
    pub band: Band,
    /// Its estimated cost in the queue's unit; 0 counts as 1.
    pub cost: u64,
    /// The tokens of its prompt.
    pub prompt: u64,
    /// Its estimated tokens, prompt and output: its stock, if the unit is tokens.
    pub tokens: u64,
    /// Whether the caller will report its first token by [`crate::Controller::started`].
    pub streamed: bool,
    /// Its workload, for the `workload` order and the registry.
    pub workload: Workload,
    /// How long it may wait, if that differs from its flow's time to live.
    pub ttl: Option<Span>,
    /// The client's own deadline.
    pub deadline: Option<Time>,
    /// The client's own objective: the wanted time to the first token. It is also a soft limit for
    /// its backend.
    pub objective: Option<Span>,
    /// The latency limit of its backend. It is soft: if no backend is within it, the fastest is
    /// chosen.
    pub latency_max: Option<Span>,
    /// Whether speed counts in its routing as for a critical ask.
    pub latency_critical: bool,
    /// The power limit of its backend, in watts. It is soft: if no backend is within it, the most
    /// economical is chosen.
    pub power_max: Option<f32>,
    /// Whether power counts in its routing as for a best-effort ask.
    pub power_efficient: bool,
    /// A hash of its session inside the flow, for the `session` order; 0 is none, which is a
    /// session too.
    pub flow_session: u32,
    /// A hash of its conversation: the backend that served it before may have its prompt cached.
    pub session: Option<u64>,
    /// The adapter (LoRA) it needs.
    pub adapter: Option<u32>,
}

/// A backend that fails an ask within this time has done no work for it. Later it has worked, or
/// its place was taken as if it had.
pub const NO_WORK: Span = Span::from_millis(250);

/// The actual cost of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// This much, in the queue's unit. 0 is for attempts that the backend failed before it did any
    /// work, and the caller bounds their number. A request that failed because of its client costs
    /// at least 1.
    Cost(u64),
    /// Unknown: the charged cost stands.
    Unknown,
    /// The backend answered with an error: the charged cost stands, and nothing is learned of how
    /// fast it serves.
    Failed,
}

// === impl Band ===

impl Band {
    /// Every band, the highest first.
    pub const DESCENDING: [Self; BANDS] =
        [Self::Critical, Self::High, Self::Normal, Self::BestEffort];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

// === impl WorkloadId ===

impl WorkloadId {
    /// Asks with a generated workload id share this one; its rate is zero.
    pub const GENERATED: Self = Self { slot: NONE, generation: 0 };
    /// Workloads that do not fit into the registry share this one, and one rate.
    pub const OVERFLOW: Self = Self { slot: 0, generation: 0 };
}

// === impl Workload ===

impl Workload {
    /// The workload of an ask that names none.
    pub const NONE: Self = Self { id: WorkloadId::GENERATED, criticality: 3 };

    pub(crate) fn criticality_checked(self) -> u8 {
        if (1..=5).contains(&self.criticality) { self.criticality } else { 3 }
    }
}

// === impl Ask ===

impl Ask {
    /// An ask of cost 1 in the normal band, without a workload or a deadline.
    pub const fn new(flow: FlowId, model: ModelId) -> Self {
        Self {
            flow,
            model,
            band: Band::Normal,
            cost: 1,
            prompt: 1,
            tokens: 1,
            streamed: true,
            workload: Workload::NONE,
            ttl: None,
            deadline: None,
            objective: None,
            latency_max: None,
            latency_critical: false,
            power_max: None,
            power_efficient: false,
            flow_session: 0,
            session: None,
            adapter: None,
        }
    }
}

// === impl Ticket ===

impl Ticket {
    pub(crate) const fn new(slot: u32, generation: u32) -> Self {
        Self(((generation as u64) << 32) | slot as u64)
    }

    pub(crate) const fn slot(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// A small number that no other live ask has: an index for the caller's tables.
    pub const fn index(self) -> usize {
        self.slot() as usize
    }
}
