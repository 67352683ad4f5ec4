//! One fair queue: the claims of one band that need the same set of backends.
//!
//! A claim whose flow may use every backend of the set stands in the round's heap. A claim whose
//! flow is limited per backend stands instead at the *door* of each backend that may still take
//! it, so finding the next claim never means stepping over those that cannot go.

use super::heap::{Entry, Heap, Positions, entry, id};
use super::virtual_clock::VirtualClock;

/// A claim's place in a heap.
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
    heap: Heap,
    backend_heaps: Vec<BackendHeap>,
    last_tie_break: u32,
}

#[derive(Clone, Debug)]
struct BackendHeap {
    backend: u32,
    heap: Heap,
    positions: Positions,
}

// === impl Turn ===

impl ServiceOrder {
    fn entry(self) -> Entry {
        entry(self.tag, self.tie_break, self.flow_queue)
    }

    fn of(entry: Entry) -> Self {
        Self { tag: (entry >> 64) as u64, tie_break: (entry >> 32) as u32, flow_queue: id(entry) }
    }
}

// === impl Round ===

impl FairQueue {
    /// A fresh turn, behind all others of the same tag. It wraps after four billion moves; what is
    /// lost then is the order of one tie.
    pub(crate) fn next_tie_break(&mut self) -> u32 {
        self.last_tie_break = self.last_tie_break.wrapping_add(1);
        self.last_tie_break
    }

    /// Whether no claim takes part.
    pub(crate) fn is_idle(&self) -> bool {
        self.clock.weight() == 0
    }

    /// Lets a claim take part for every backend.
    pub(crate) fn enter(&mut self, order: ServiceOrder, positions: &mut Positions) {
        self.heap.push(order.entry(), positions);
    }

    /// Ends a claim's part everywhere.
    pub(crate) fn exit(&mut self, flow_queue: u32, positions: &mut Positions) {
        if self.heap.holds(flow_queue, positions) {
            self.heap.remove(flow_queue, positions);
            return;
        }
        for backend_heap in
            self.backend_heaps.iter_mut().filter(|backend_heap| backend_heap.holds(flow_queue))
        {
            backend_heap.heap.remove(flow_queue, &mut backend_heap.positions);
        }
    }

    /// Tells the heap that a claim's tag or turn has changed.
    pub(crate) fn moved(&mut self, order: ServiceOrder, positions: &mut Positions) {
        if self.heap.holds(order.flow_queue, positions) {
            self.heap.update(order.entry(), positions);
            return;
        }
        for backend_heap in self
            .backend_heaps
            .iter_mut()
            .filter(|backend_heap| backend_heap.holds(order.flow_queue))
        {
            backend_heap.heap.update(order.entry(), &mut backend_heap.positions);
        }
    }

    /// Lets a claim take part for one backend.
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

    /// Ends a claim's part for one backend; says whether any other door still holds it.
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

    /// The claim whose turn it is, among those that some backend with room may take.
    pub(crate) fn first(&self, has_room: impl Fn(u32) -> bool) -> Option<u32> {
        let backend_heaps =
            self.backend_heaps.iter().filter(|backend_heap| has_room(backend_heap.backend));
        let tops = backend_heaps.filter_map(|backend_heap| backend_heap.heap.top());
        self.heap.top().into_iter().chain(tops).min().map(id)
    }

    /// Brings every tag in the heaps down by `shift`.
    pub(crate) fn shift(&mut self, shift: u64) {
        let lower = |entry: &mut Entry| {
            let order = ServiceOrder::of(*entry);
            *entry = ServiceOrder { tag: order.tag.saturating_sub(shift), ..order }.entry();
        };
        self.heap.shift(lower);
        self.backend_heaps.iter_mut().for_each(|backend_heap| backend_heap.heap.shift(lower));
    }

    /// The turns of all claims that take part, for checking.
    pub(crate) fn service_orders(&self) -> impl Iterator<Item = ServiceOrder> + '_ {
        let backend_heaps =
            self.backend_heaps.iter().flat_map(|backend_heap| backend_heap.heap.iter());
        self.heap.iter().chain(backend_heaps).map(ServiceOrder::of)
    }
}

// === impl Door ===

impl BackendHeap {
    fn holds(&self, flow_queue: u32) -> bool {
        self.heap.holds(flow_queue, &self.positions)
    }
}
