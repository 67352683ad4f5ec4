//! The queue: who waits, in which order, and who goes next.
//!
//! Read it from the inside out. A *line* ([`mod@line`]) orders the asks of one flow. A *claim*
//! ([`claim`]) is a flow's place in one round: its line, and the tag that says when its turn
//! comes. A *round* ([`round`]) is one fair queue: the claims of one band that need the same set of
//! backends, under one virtual clock ([`fair`]). A *cascade* ([`band`]) chooses among rounds.
//! [`expiry`] knows every deadline, [`evict`] the next victim.

pub(crate) mod asks;
pub(crate) mod band;
pub(crate) mod claim;
pub(crate) mod evict;
pub(crate) mod expiry;
pub(crate) mod fair;
pub(crate) mod fifo;
pub(crate) mod heap;
pub(crate) mod line;
pub(crate) mod round;
pub(crate) mod urgency;
