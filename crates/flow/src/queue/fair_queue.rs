//! One fair queue: the flow queues of one band that need the same set of backends.
//!
//! A flow queue whose flow may use every backend of the set stands in one of two common heaps: one
//! for those that hold more than their share of the places, one for the others. A flow queue whose
//! flow is limited per backend stands in the heap of each backend that may still take it. So the
//! search for the next flow queue never steps over one that is not eligible.

use super::heap::{Entry, Heap, Positions, entry, id};
use super::overload_duration::OverloadDuration;
use super::virtual_clock::VirtualClock;
use crate::time::{Span, Time};

/// The key by which a flow queue is ordered: the least tag first, then the one that moved longest
/// ago.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceOrder {
    pub(crate) tag: u64,
    pub(crate) tie_break: u32,
    pub(crate) flow_queue: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FairQueue {
    pub(crate) clock: VirtualClock,
    pub(crate) cost_waiting: u64,
    pub(crate) overload: OverloadDuration,
    /// Since when every ask that could go has waited for a cache; `None` after a grant.
    pub(crate) held_since: Option<Time>,
    heap: Heap,
    /// The flow queues that hold more than their share, from which more places are kept free.
    over_share_heap: Heap,
    backend_heaps: Vec<BackendHeap>,
    last_tie_break: u32,
}

/// The flow queues of a fair queue that may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those that hold no more than their share.
    Light,
    /// All.
    All,
}

#[derive(Clone, Debug)]
struct BackendHeap {
    backend: u32,
    heap: Heap,
    positions: Positions,
}

// === impl ServiceOrder ===

impl ServiceOrder {
    fn entry(self) -> Entry {
        entry(self.tag, self.tie_break, self.flow_queue)
    }

    fn of(entry: Entry) -> Self {
        Self { tag: (entry >> 64) as u64, tie_break: (entry >> 32) as u32, flow_queue: id(entry) }
    }
}

// === impl FairQueue ===

impl FairQueue {
    /// A new tie break, behind all others of the same tag. It wraps after four billion moves, which
    /// at worst reverses one tie.
    pub(crate) fn next_tie_break(&mut self) -> u32 {
        self.last_tie_break = self.last_tie_break.wrapping_add(1);
        self.last_tie_break
    }

    /// An ask of this cost begins to wait; `after` is the time after which an overload lasts.
    pub(crate) fn began_waiting(&mut self, cost: u64, after: Span, now: Time) {
        if self.cost_waiting == 0 {
            self.overload.began(after, now);
        }
        self.cost_waiting += cost;
    }

    /// An ask of this cost no longer waits.
    pub(crate) fn stopped_waiting(&mut self, cost: u64, now: Time) {
        self.cost_waiting -= cost;
        if self.cost_waiting == 0 {
            self.overload.emptied(now);
            self.held_since = None;
        }
    }

    /// Whether no flow queue is active.
    pub(crate) fn is_idle(&self) -> bool {
        self.clock.weight() == 0
    }

    fn common_heap(&mut self, over_share: bool) -> &mut Heap {
        if over_share { &mut self.over_share_heap } else { &mut self.heap }
    }

    /// Adds a flow queue for every backend.
    pub(crate) fn enter(
        &mut self,
        order: ServiceOrder,
        over_share: bool,
        positions: &mut Positions,
    ) {
        self.common_heap(over_share).push(order.entry(), positions);
    }

    /// Moves a flow queue to the other common heap, if it is in one of them.
    pub(crate) fn change_heap(
        &mut self,
        order: ServiceOrder,
        over_share: bool,
        positions: &mut Positions,
    ) {
        if self.heap.holds(order.flow_queue, positions) {
            self.common_heap(!over_share).remove(order.flow_queue, positions);
            self.enter(order, over_share, positions);
        }
    }

    /// Removes a flow queue from every heap.
    pub(crate) fn exit(&mut self, flow_queue: u32, over_share: bool, positions: &mut Positions) {
        if self.heap.holds(flow_queue, positions) {
            self.common_heap(over_share).remove(flow_queue, positions);
            return;
        }
        for backend_heap in
            self.backend_heaps.iter_mut().filter(|backend_heap| backend_heap.holds(flow_queue))
        {
            backend_heap.heap.remove(flow_queue, &mut backend_heap.positions);
        }
    }

    /// Restores the order of the heaps after a flow queue's tag or tie break has changed.
    #[inline(always)]
    pub(crate) fn moved(
        &mut self,
        order: ServiceOrder,
        over_share: bool,
        positions: &mut Positions,
    ) {
        if self.heap.holds(order.flow_queue, positions) {
            self.common_heap(over_share).update(order.entry(), positions);
        } else {
            self.moved_for_backends(order);
        }
    }

    #[inline(never)]
    fn moved_for_backends(&mut self, order: ServiceOrder) {
        for backend_heap in self
            .backend_heaps
            .iter_mut()
            .filter(|backend_heap| backend_heap.holds(order.flow_queue))
        {
            backend_heap.heap.update(order.entry(), &mut backend_heap.positions);
        }
    }

    /// Adds a flow queue for one backend.
    pub(crate) fn enter_for_backend(&mut self, backend: u32, order: ServiceOrder) {
        let at = self
            .backend_heaps
            .iter()
            .position(|backend_heap| backend_heap.backend == backend)
            .unwrap_or_else(|| {
                self.backend_heaps.push(BackendHeap {
                    backend,
                    heap: Heap::default(),
                    positions: Positions::new(),
                });
                self.backend_heaps.len() - 1
            });
        let backend_heap = &mut self.backend_heaps[at];
        if !backend_heap.holds(order.flow_queue) {
            backend_heap.heap.push(order.entry(), &mut backend_heap.positions);
        }
    }

    /// Removes a flow queue for one backend; returns whether it is still there for another one.
    pub(crate) fn exit_for_backend(&mut self, backend: u32, flow_queue: u32) -> bool {
        let mut held = false;
        for backend_heap in
            self.backend_heaps.iter_mut().filter(|backend_heap| backend_heap.holds(flow_queue))
        {
            if backend_heap.backend == backend {
                backend_heap.heap.remove(flow_queue, &mut backend_heap.positions);
            } else {
                held = true;
            }
        }
        held
    }

    /// The first flow queue within reach among those that some backend with room may take.
    pub(crate) fn first(&self, reach: Reach, has_room: impl Fn(u32) -> bool) -> Option<u32> {
        let mut first = self.heap.top();
        if reach == Reach::All {
            first = least(first, self.over_share_heap.top());
        }
        for backend_heap in &self.backend_heaps {
            if has_room(backend_heap.backend) {
                first = least(first, backend_heap.heap.top());
            }
        }
        first.map(id)
    }

    /// The flow queues within reach that some backend with room may take and whose tag is at most
    /// `tag`. If there are more than `count`, some of them are left out.
    pub(crate) fn up_to(
        &self,
        tag: u64,
        (reach, count): (Reach, usize),
        has_room: impl Fn(u32) -> bool,
    ) -> Vec<ServiceOrder> {
        let backend_heaps =
            self.backend_heaps.iter().filter(|backend_heap| has_room(backend_heap.backend));
        let over_share = (reach == Reach::All).then_some(&self.over_share_heap);
        let heaps = [&self.heap].into_iter().chain(over_share);
        let mut found = Vec::with_capacity(count.min(16));
        for heap in heaps.chain(backend_heaps.map(|backend_heap| &backend_heap.heap)) {
            heap.up_to(entry(tag, u32::MAX, u32::MAX), count, &mut found);
        }
        // The one that goes first without a cache comes first.
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(ServiceOrder::of).collect()
    }

    /// The least tag of the flow queues that hold more than their share.
    pub(crate) fn least_over_share(&self) -> Option<u64> {
        self.over_share_heap.top().map(|entry| ServiceOrder::of(entry).tag)
    }

    /// Lowers every tag in the heaps by `shift`.
    pub(crate) fn shift(&mut self, shift: u64) {
        let lower = |entry: &mut Entry| {
            let order = ServiceOrder::of(*entry);
            *entry = ServiceOrder { tag: order.tag.saturating_sub(shift), ..order }.entry();
        };
        self.heap.shift(lower);
        self.over_share_heap.shift(lower);
        self.backend_heaps.iter_mut().for_each(|backend_heap| backend_heap.heap.shift(lower));
    }

    /// The keys of all active flow queues, for checks.
    pub(crate) fn service_orders(&self) -> impl Iterator<Item = ServiceOrder> + '_ {
        let backend_heaps =
            self.backend_heaps.iter().flat_map(|backend_heap| backend_heap.heap.iter());
        let common = self.heap.iter().chain(self.over_share_heap.iter());
        common.chain(backend_heaps).map(ServiceOrder::of)
    }
}

// === impl BackendHeap ===

impl BackendHeap {
    fn holds(&self, flow_queue: u32) -> bool {
        self.heap.holds(flow_queue, &self.positions)
    }
}

fn least(one: Option<Entry>, other: Option<Entry>) -> Option<Entry> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
