//! Start-time fair queueing: one virtual clock, in integers.
//!
//! # The rule
//! Each flow has one tag, the virtual time at which its next ask starts: the finish of the last
//! one it was granted. With virtual time `v`, cost `l` and weight `w`:
//!
//! ```text
//! new to the round  tag = v + l/w                       behind all who stand at v
//! begins to wait    tag = max(tag, v)                   the lift
//! granted           v = max(v, tag);  tag += l/w        the flow with the least tag goes
//! trued up          tag += (actual - charged)/w         late knowledge, both ways (see `recharge`)
//! nothing waits     v = max(v, largest tag)             old service is forgotten
//! ```
//!
//! # The bound
//! While flows f and g both wait, `W_f/w_f` and `W_g/w_g` (service charged over weight) never
//! drift apart by more than `l_f/w_f + l_g/w_g`, whatever the servers' speed: each tag moves by
//! exactly the normalised service it stands for, and the least tag always goes, so two tags never
//! differ by more than one step. With true-up the errors in flight are added. `docs/FLOW.md`
//! has the proof and the comparison with WFQ, SCFQ, DRR and VTC.
//!
//! # Newcomers
//! Textbook SFQ lets every newcomer start at `v`. A client that sends each ask under a fresh name
//! then always stands in front: `v` stands still, and whoever waits at `v + l/w` waits for ever. A
//! flow that is new to the round therefore starts one step behind, where a flow that was just
//! granted something stands as well: the bound is untouched, and a name that is used once gains
//! nothing over one that is kept.
//!
//! # Range
//! Tags stay within [`HORIZON`] of `v`, and `v` is brought back to [`HORIZON`] once it has passed
//! three times that: no run is long enough to overflow.

use crate::weight::Weight;

/// The tag of a flow that is new to its round; no other tag is that small.
pub(crate) const NEW: u64 = 0;

/// How far a tag may lie from virtual time: what a flow can owe or be owed at most.
pub(crate) const HORIZON: u64 = 1 << 61;
/// Virtual time is brought back to [`HORIZON`] from here.
const REBASE_AT: u64 = 3 * HORIZON;

/// The virtual clock of one round.
#[derive(Clone, Debug)]
pub(crate) struct VirtualClock {
    now: u64,
    tag_max: u64,
    weight: u64,
}

// === impl Clock ===

impl Default for VirtualClock {
    fn default() -> Self {
        Self { now: HORIZON, tag_max: HORIZON, weight: 0 }
    }
}

impl VirtualClock {
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// The weights of all flows that wait.
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

    /// The tag of a flow that was kept out by a limit and may go again: it hoarded no credit.
    pub(crate) fn rejoin(&mut self, tag: u64, weight: Weight) -> u64 {
        self.weight += u64::from(weight.units);
        tag.max(self.now)
    }

    /// The tag of a flow that goes on as it was; one that a limit has kept out so far starts here.
    pub(crate) fn resume(&mut self, tag: u64, weight: Weight) -> u64 {
        self.weight += u64::from(weight.units);
        self.bounded(if tag == NEW { self.now } else { tag })
    }

    /// The tag of a flow after a grant of this cost.
    pub(crate) fn serve(&mut self, tag: u64, weight: Weight, cost: u32) -> u64 {
        self.now = self.now.max(tag);
        self.bounded(tag + weight.stretch(cost))
    }

    /// A flow stops waiting.
    pub(crate) fn leave(&mut self, weight: Weight) {
        self.weight -= u64::from(weight.units);
        if self.weight == 0 {
            self.now = self.now.max(self.tag_max);
        }
    }

    /// The tag after a correction of `difference` to what its flow was charged.
    pub(crate) fn true_up(&mut self, tag: u64, weight: Weight, difference: i64) -> u64 {
        let step = weight.stretch(difference.unsigned_abs() as u32);
        let moved = if difference < 0 { tag.saturating_sub(step) } else { tag + step };
        self.bounded(moved)
    }

    fn bounded(&mut self, tag: u64) -> u64 {
        let tag = tag.clamp(self.now - HORIZON, self.now + HORIZON);
        self.tag_max = self.tag_max.max(tag);
        tag
    }

    pub(crate) fn has_run_far(&self) -> bool {
        self.now >= REBASE_AT
    }

    /// Brings the clock back; every tag of the round must be brought down by as much.
    pub(crate) fn rebase(&mut self) -> u64 {
        let shift = self.now - HORIZON;
        self.now = HORIZON;
        self.tag_max = self.tag_max.saturating_sub(shift);
        shift
    }
}
