//! The queue: who waits, in which order, and who goes next.
//!
//! Read it from the inside out. A *line* ([`mod@line`]) orders the asks of one flow. A *claim*
//! ([`flow_queue`]) is a flow's place in one round: its line, and the tag that says when its turn
//! comes. A *round* ([`fair_queue`]) is one fair queue: the claims of one band that need the same set of
//! backends, under one virtual clock ([`fair`]). A *cascade* ([`band`]) chooses among rounds.
//! [`expiry`] knows every deadline, [`evict`] the next victim.

pub(crate) mod asks;
pub(crate) mod eviction;
pub(crate) mod fair_queue;
pub(crate) mod fifo;
pub(crate) mod flow_queue;
pub(crate) mod heap;
pub(crate) mod hierarchy;
pub(crate) mod ordered_asks;
pub(crate) mod timing_wheel;
pub(crate) mod urgency;
pub(crate) mod virtual_clock;
