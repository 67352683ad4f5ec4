//! Waiting requests as pending at the backends, in the words of an Ollama proxy that has no queue.
//!
//! That proxy sends each request at once, so that those which wait are at its backends. Here they
//! wait in the gateway. Each counts at one ready backend of its model, so the pages of both say the
//! same in sum.

use std::collections::BTreeMap;

use flow::{BANDS, BackendId, Controller, ModelId, Stage};

use crate::backend::Roster;

/// The waiting requests of each model, by band.
pub(super) type Waiting = BTreeMap<ModelId, [u32; BANDS]>;

/// The requests that wait now.
pub(super) fn waiting(core: &Controller) -> Waiting {
    let mut waiting = Waiting::new();
    for ask in core.asks().filter(|ask| ask.stage == Stage::Waiting) {
        waiting.entry(ask.model).or_default()[ask.band as usize] += 1;
    }
    waiting
}

/// The part of each backend: equal parts, and what is left over where the part is smallest so far.
pub(super) fn by_backend(waiting: &Waiting, roster: &Roster) -> BTreeMap<BackendId, [u32; BANDS]> {
    let mut parts: BTreeMap<BackendId, [u32; BANDS]> = BTreeMap::new();
    for (&model, counts) in waiting {
        let mut serving: Vec<BackendId> = roster.serving(model).collect();
        let number = serving.len() as u32;
        for (band, count) in counts.iter().enumerate().rev() {
            let Some(each) = count.checked_div(number) else { continue };
            serving.sort_by_key(|id| (parts.get(id).map_or(0, |part| part.iter().sum()), id.0));
            for (at, &id) in (0..).zip(&serving) {
                parts.entry(id).or_default()[band] += each + u32::from(at < count % number);
            }
        }
    }
    parts
}
