//! What all rooms share: one value, made at the start, handed to whoever needs it.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::backend::Fleet;
use crate::clock::Clock;
use crate::config::Settled;
use crate::keeper::Keeper;
use crate::observe::Observer;

/// The running gateway's shared parts.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) clock: Clock,
    /// The configuration in force; a reload replaces it whole.
    pub(crate) settled: ArcSwap<Settled>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) observer: Arc<Observer>,
}
