//! Start-time fair queueing (SFQ): the virtual clock of one fair queue, in integers.
//!
//! # The rules
//! Each flow has one tag: the virtual time at which its next ask starts, which is the virtual time
//! at which its last granted ask finishes. With virtual time `v`, cost `l` and weight `w`:
//!
//! ```text
//! a new flow begins to wait      tag = v + l/w                  behind every flow that stands at v
//! a known flow begins to wait    tag = max(tag, v)              the lift: no credit for idle time
//! the flow with the least tag
//!   is granted an ask            v = max(v, tag);  tag += l/w
//! the actual cost is known       tag += (actual - charged)/w    true-up, in both directions
//! a flow whose tag is at most
//!   Q above the least goes       v = max(v, least);  tag += l/w  its prompt is cached (section 17)
//! no flow waits any more         v = max(v, largest tag)        old service is forgotten
//! ```
//!
//! # The bound
//! Let `W_f` be the cost that flow f was charged since some moment. While flows f and g both wait,
//! `W_f/w_f` and `W_g/w_g` differ by at most `l_f/w_f + l_g/w_g`, at any speed of the servers.
//!
//! The reason: a tag moves by exactly `l/w` for each grant of its flow, so the difference of two
//! tags is the difference of normalised service. The flow with the least tag always goes, and `v`
//! becomes that tag, so every tag lies between `v` and `v + l/w`: two tags never differ by more
//! than one step of each. With true-up, the estimation errors of the asks in flight are added.
//! `docs/FLOW.md` has the full proof and the comparison with WFQ, SCFQ, DRR and VTC.
//!
//! # New flows
//! In textbook SFQ a new flow starts at `v`. A client that sends each ask under a fresh name would
//! then always be first: `v` would stand still, and a flow at `v + l/w` would wait for ever. Here a
//! flow that is new to the fair queue starts one step behind, at `v + l/w`, where a flow stands
//! that was just granted an ask. The bound stays the same, and a name that is used once has no
//! advantage over a name that is kept.
//!
//! # Range
//! Tags stay within [`HORIZON`] of `v`. Once `v` has passed three times [`HORIZON`], it is set back
//! to [`HORIZON`] and every tag is lowered by the same amount: no run is long enough to overflow.

use crate::weight::Weight;

/// The tag of a flow that is new to its fair queue; no other tag is that small.
pub(crate) const NEW: u64 = 0;

/// The largest distance of a tag from virtual time: the most that a flow can owe or be owed.
pub(crate) const HORIZON: u64 = 1 << 61;
/// Virtual time is set back to [`HORIZON`] from here.
const REBASE_AT: u64 = 3 * HORIZON;

/// The virtual clock of one fair queue.
#[derive(Clone, Debug)]
pub(crate) struct VirtualClock {
    now: u64,
    tag_max: u64,
    weight: u64,
}

// === impl VirtualClock ===

impl Default for VirtualClock {
    fn default() -> Self {
        Self { now: HORIZON, tag_max: HORIZON, weight: 0 }
    }
}

impl VirtualClock {
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// The sum of the weights of all waiting flows.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The tag of a flow that begins to wait with an ask of this cost.
    pub(crate) fn join(&mut self, tag: u64, weight: Weight, cost: u32) -> u64 {
        self.weight += u64::from(weight.units);
        let newcomer = tag == NEW;
        let start = if newcomer { self.now + weight.stretch(cost) } else { tag.max(self.now) };
        self.bounded(start)
    }

    /// The tag of a flow that was excluded by a limit and is eligible again. It has no credit for
    /// that time.
    pub(crate) fn rejoin(&mut self, tag: u64, weight: Weight) -> u64 {
        self.weight += u64::from(weight.units);
        tag.max(self.now)
    }

    /// The tag of a flow that keeps its lead or lag after a rebuild. A new flow that a limit has
    /// excluded so far starts at the present.
    pub(crate) fn resume(&mut self, tag: u64, weight: Weight) -> u64 {
        self.weight += u64::from(weight.units);
        self.bounded(if tag == NEW { self.now } else { tag })
    }

    /// The tag of a flow after a grant of this cost.
    pub(crate) fn serve(&mut self, tag: u64, weight: Weight, cost: u32) -> u64 {
        self.serve_within(tag, tag, weight, cost)
    }

    /// The tag of a flow after a grant of this cost ahead of a flow with a lesser tag, which is
    /// held back. Virtual time does not pass that tag, and this flow's lead stays one step.
    pub(crate) fn serve_ahead(&mut self, held: u64, tag: u64, weight: Weight, cost: u32) -> u64 {
        self.now = self.now.max(held);
        self.bounded(tag.max(self.now + weight.stretch(cost)))
    }

    /// The tag of a flow after a grant of this cost before the flow whose turn it was, at the tag
    /// `least`. Virtual time does not pass that tag.
    pub(crate) fn serve_within(&mut self, least: u64, tag: u64, weight: Weight, cost: u32) -> u64 {
        self.now = self.now.max(least);
        self.bounded(tag + weight.stretch(cost))
    }

    /// A flow stops waiting.
    pub(crate) fn leave(&mut self, weight: Weight) {
        self.weight -= u64::from(weight.units);
        if self.weight == 0 {
            self.now = self.now.max(self.tag_max);
        }
    }

    /// The tag after a correction: the flow's charge changes by `difference`.
    pub(crate) fn true_up(&mut self, tag: u64, weight: Weight, difference: i64) -> u64 {
        let step = weight.stretch(difference.unsigned_abs() as u32);
        let moved = if difference < 0 { tag.saturating_sub(step) } else { tag + step };
        self.bounded(moved)
    }

    fn bounded(&mut self, tag: u64) -> u64 {
        // Virtual time may be at the horizon. A tag that is not new must not become the tag of a
        // new flow there.
        let least = (self.now - HORIZON).max(NEW + 1);
        let tag = tag.clamp(least, self.now + HORIZON);
        self.tag_max = self.tag_max.max(tag);
        tag
    }

    pub(crate) fn has_run_far(&self) -> bool {
        self.now >= REBASE_AT
    }

    /// Sets the clock back and returns by how much; the caller must lower every tag of the fair
    /// queue by the same amount.
    pub(crate) fn rebase(&mut self) -> u64 {
        let shift = self.now - HORIZON;
        self.now = HORIZON;
        self.tag_max = self.tag_max.saturating_sub(shift);
        shift
    }
}
