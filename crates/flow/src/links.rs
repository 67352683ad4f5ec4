//! Links of intrusive lists, with indices instead of pointers.

/// The absence of an index.
pub(crate) const NONE: u32 = u32::MAX;

/// The neighbours in a doubly linked list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

// === impl Link ===

impl Link {
    pub(crate) const UNLINKED: Self = Self { prev: NONE, next: NONE };
}
