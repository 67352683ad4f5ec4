//! The queue: the asks that wait, their order, and the next ask to go.
//!
//! Read it from the inside out. [`ordered_asks`] orders the asks of one flow: by arrival
//! ([`fifo`]), by deadline or by [`urgency`]. A [`flow_queue`] holds the waiting asks of one flow
//! and the tag that says when its turn comes. A [`fair_queue`] is one start-time fair queue: the
//! flow queues of one band that need the same set of backends, under one [`virtual_clock`]. The
//! [`hierarchy`] chooses among fair queues: first the band, then the set of backends. The
//! [`timing_wheel`] has every deadline, [`eviction`] the next victim of preemption.

pub(crate) mod asks;
pub(crate) mod eviction;
pub(crate) mod fair_queue;
pub(crate) mod fifo;
pub(crate) mod flow_queue;
pub(crate) mod heap;
pub(crate) mod hierarchy;
pub(crate) mod line;
pub(crate) mod ordered_asks;
pub(crate) mod overload_duration;
pub(crate) mod session_counts;
pub(crate) mod session_order;
pub(crate) mod timing_wheel;
pub(crate) mod urgency;
pub(crate) mod virtual_clock;
pub(crate) mod warm_asks;
