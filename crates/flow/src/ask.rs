//! What a client asks for, and the names the core gives to things.
//!
//! Strings stop at the door: flows and workloads are interned once by the controller, models and
//! backends are numbered by the caller, and an [`Ask`] is a small `Copy` value.

use crate::links::NONE;
use crate::time::{Span, Time};

/// How many priority bands there are.
pub const BANDS: usize = 4;

/// The most one ask can cost. Larger estimates and usages count as this much, which keeps the
/// arithmetic of tags inside 64 bits.
pub const COST_MAX: u64 = (1 << 28) - 1;

/// A priority level. A strict cascade serves a band only while no higher one could go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Band {
    /// Work that gladly waits; the first to be preempted.
    BestEffort = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// Ahead of the default.
    High = 2,
    /// Never preempted, with capacity reserved for it.
    Critical = 3,
}

/// A flow known to the controller: a stream of asks that is scheduled as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A target model, numbered by the caller from 0 up: tables are as long as the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(pub u32);

/// A model server, numbered by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u32);

/// A workload in the registry, or one of the two that stand for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// One ask's name from offer to end. It is never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// Where an ask comes from and how urgent its sender says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Who sends it.
    pub id: WorkloadId,
    /// From 1 (lowest) to 5; anything else counts as 3.
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
    /// Its prompt's tokens.
    pub prompt: u64,
    /// Its estimated tokens, prompt and output, which stock counts when it is kept in tokens.
    pub tokens: u64,
    /// Whether the caller will see its first token and say so by [`crate::Controller::started`].
    pub streamed: bool,
    /// Its workload, for the `workload` order and the registry.
    pub workload: Workload,
    /// How long it may wait, where it differs from its flow's.
    pub ttl: Option<Span>,
    /// When the client itself gives up.
    pub deadline: Option<Time>,
    /// The latency that its backend should have. Soft: if none has it, the fastest is taken.
    pub latency_max: Option<Span>,
    /// Whether speed counts in its routing as for a critical ask.
    pub latency_critical: bool,
    /// A hash of the conversation it belongs to, which is best served where it was before.
    pub session: Option<u64>,
    /// The adapter (LoRA) it needs.
    pub adapter: Option<u32>,
}

/// What an ask really cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// This much, in the queue's unit. 0 is for attempts that the backend failed before it did any
    /// work, whose number the caller bounds; what a client spoilt itself cost at least 1.
    Cost(u64),
    /// Nobody could tell: what was charged stands.
    Unknown,
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
    /// Every ask whose workload id was generated for want of a given one; its rate is zero.
    pub const GENERATED: Self = Self { slot: NONE, generation: 0 };
    /// Every workload that found the registry full; they share one rate.
    pub const OVERFLOW: Self = Self { slot: 0, generation: 0 };
}

// === impl Workload ===

impl Workload {
    /// What an ask without a workload gets.
    pub const NONE: Self = Self { id: WorkloadId::GENERATED, criticality: 3 };

    pub(crate) fn criticality_checked(self) -> u8 {
        if (1..=5).contains(&self.criticality) { self.criticality } else { 3 }
    }
}

// === impl Ask ===

impl Ask {
    /// An ask of cost 1 in the normal band with no workload and no deadline of its own.
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
            latency_max: None,
            latency_critical: false,
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

    /// A small number that no other live ask has: an index for the caller's own table.
    pub const fn index(self) -> usize {
        self.slot() as usize
    }
}
