//! The slab of live asks, waiting or in flight, and their tickets.
//!
//! One record serves an ask from offer to end. The links of its FIFO and of its slot in the timing
//! wheel are inside the record, so queueing allocates nothing once the slab has grown.

use crate::ask::{Band, ModelId, Ticket};
use crate::links::Link;
use crate::settings::StockUnit;
use crate::time::{Span, Time};

/// The unit in which a prompt is stored, in tokens.
pub(crate) const PROMPT_BLOCK: u64 = 16;

/// The phase of an ask's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    #[default]
    Free,
    Waiting,
    InFlight,
}

/// The limit that ends a wait first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Limit {
    #[default]
    Ttl,
    Client,
}

/// When an ask wants its first token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// An ask without an objective has its arrival instead.
    pub(crate) by: Time,
    /// The time from grant to first token that is kept for it, in units of 1024 ns.
    pub(crate) kept: u32,
    /// Whether it is never late: it is critical, has no objective, or a backend gave it back.
    pub(crate) always_fresh: bool,
}

/// The turn of an ask among the asks of its line: the least one goes first.
pub(crate) type Turn = (Time, u64);

/// One ask. The fields that every enqueue and dequeue uses come first.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct AskRecord {
    pub(crate) fifo_link: Link,
    pub(crate) wheel_link: Link,
    pub(crate) deadline: Time,
    /// When it wants its first token, as in [`Wanted`]. A late ask has the beginning of time, so
    /// that it has its turn by its arrival.
    pub(crate) wanted_by: Time,
    pub(crate) flow_queue: u32,
    /// The cost charged so far, in the queue's unit.
    pub(crate) cost: u32,
    /// Its estimated tokens.
    pub(crate) tokens: u32,
    pub(crate) generation: u32,
    pub(crate) wheel_slot: u16,
    pub(crate) phase: Phase,
    pub(crate) band: Band,
    pub(crate) limit: Limit,
    pub(crate) criticality: u8,
    /// Its prompt in blocks of [`PROMPT_BLOCK`] tokens, which is exact enough and short.
    pub(crate) prompt_blocks: u16,
    /// Its estimated cost, which a re-queue restores.
    pub(crate) estimate: u32,
    /// The period of its flow queue in which it was charged.
    pub(crate) period: u32,
    /// Arrival order over all asks; ties everywhere are broken by it.
    pub(crate) sequence: u64,
    pub(crate) arrival: Time,
    /// The sum of weights by which its pool was charged; 0 if the pool was not charged.
    pub(crate) units: u64,
    pub(crate) model: u16,
    /// Whether it has a route preference, which is stored elsewhere because few asks have one.
    pub(crate) has_preference: bool,
    /// Whether its backend was on trial when it was granted.
    pub(crate) on_trial: bool,
    /// Whether the caller will report its first token.
    pub(crate) streamed: bool,
    /// Whether it waits among the late asks of its flow queue.
    pub(crate) late: bool,
    /// As in [`Wanted`].
    pub(crate) always_fresh: bool,
    /// Whether it goes before an older ask of its line.
    pub(crate) exception: bool,
    pub(crate) workload: u32,
    /// Its FIFO in a flow queue ordered by urgency.
    pub(crate) urgency_fifo: u32,
    /// The backend it is at, by its place in the supply.
    pub(crate) backend: u32,
    /// The hash of its session; 0 is none.
    pub(crate) session: u32,
    /// The period of its session in which it was charged.
    pub(crate) session_period: u32,
    /// As in [`Wanted`].
    pub(crate) kept: u32,
    /// When it was granted, until its first token has been seen.
    pub(crate) granted: Time,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Asks {
    records: Vec<AskRecord>,
    free: Vec<u32>,
}

// === impl Wanted ===

impl Wanted {
    /// Without an objective.
    pub(crate) const fn at_any_time(arrival: Time) -> Self {
        Self { by: arrival, kept: 0, always_fresh: true }
    }

    /// When an ask that still waits can no longer have its first token in time; never without an
    /// objective.
    pub(crate) fn fresh_until(self) -> Time {
        match self.always_fresh {
            true => Time::NEVER,
            false => self.by.before(Span::from_nanos(u64::from(self.kept) << 10)),
        }
    }
}

// === impl AskRecord ===

impl AskRecord {
    pub(crate) fn turn(&self) -> Turn {
        (self.wanted_by, self.sequence)
    }

    /// It was found late: its objective counts no longer.
    pub(crate) fn become_late(&mut self) {
        self.late = true;
        self.wanted_by = Time::ZERO;
    }

    /// Whether it can no longer make its objective.
    #[inline]
    pub(crate) fn is_late(&self, now: Time) -> bool {
        self.fresh_until() <= now
    }

    /// When it can no longer make its objective; never without one.
    #[inline]
    pub(crate) fn fresh_until(&self) -> Time {
        let &Self { wanted_by: by, kept, always_fresh, .. } = self;
        Wanted { by, kept, always_fresh }.fresh_until()
    }

    pub(crate) fn prompt(&self) -> u64 {
        u64::from(self.prompt_blocks) * PROMPT_BLOCK
    }

    pub(crate) fn model_id(&self) -> ModelId {
        ModelId(u32::from(self.model))
    }

    /// The stock it takes while in flight.
    pub(crate) fn stock(&self, unit: StockUnit) -> u64 {
        match unit {
            StockUnit::Requests => 1,
            StockUnit::Tokens => u64::from(self.tokens),
        }
    }
}

// === impl Asks ===

impl Asks {
    /// The most asks that can be alive at once; the largest slot number means "none".
    pub(crate) const ALIVE_MAX: usize = 1 << 30;

    pub(crate) fn alive(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// A slot for a new ask, with an old record. Only the generation of that is still of use.
    pub(crate) fn take_slot(&mut self) -> (u32, &mut AskRecord) {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        (slot, &mut self.records[slot as usize])
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.records.push(AskRecord::default());
        self.records.len() as u32 - 1
    }

    /// Ends an ask; its ticket is never valid again.
    pub(crate) fn remove(&mut self, slot: u32) {
        let record = &mut self.records[slot as usize];
        record.phase = Phase::Free;
        record.generation = record.generation.wrapping_add(1);
        self.free.push(slot);
    }

    pub(crate) fn find(&self, ticket: Ticket) -> Option<u32> {
        self.get(ticket).map(|_| ticket.slot())
    }

    /// The record of a live ask.
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&AskRecord> {
        let record = self.records.get(ticket.index())?;
        let alive = record.phase != Phase::Free && record.generation == ticket.generation();
        alive.then_some(record)
    }

    pub(crate) fn ticket(&self, slot: u32) -> Ticket {
        Ticket::new(slot, self[slot].generation)
    }

    /// The slots of all live asks.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.records.len() as u32).filter(|&slot| self[slot].phase != Phase::Free)
    }
}

impl std::ops::Index<u32> for Asks {
    type Output = AskRecord;

    fn index(&self, slot: u32) -> &AskRecord {
        &self.records[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Asks {
    fn index_mut(&mut self, slot: u32) -> &mut AskRecord {
        &mut self.records[slot as usize]
    }
}
