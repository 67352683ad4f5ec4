//! The live requests, counted by model names.

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BANDS, ModelId, Stage};

use super::Targets;
use crate::observe::backend_counters::OTHER;
use crate::observe::labels::{ModelLabels, ModelNames};
use crate::observe::snapshot::{LiveAsk, Snapshot};

/// The live requests with the same pair of model names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LiveCounts {
    /// Waiting, and at a backend, by band.
    pub(super) waiting: [u64; BANDS],
    pub(super) in_flight: [u64; BANDS],
    /// Of the bodies that wait, by band.
    pub(super) waiting_bytes: [u64; BANDS],
    pub(super) stock: u64,
}

// === impl LiveCounts ===

impl LiveCounts {
    fn add(&mut self, more: &Self) {
        let counts = [&mut self.waiting, &mut self.in_flight, &mut self.waiting_bytes];
        let more_counts = [more.waiting, more.in_flight, more.waiting_bytes];
        for (count, more) in counts.into_iter().flatten().zip(more_counts.into_iter().flatten()) {
            *count += more;
        }
        self.stock += more.stock;
    }
}

/// Counts live requests by model names. The label index of a ticket is used if it matches the
/// target of the ask; otherwise the target also serves as the requested model.
pub(super) fn count(
    snapshot: &Snapshot,
    targets: &Targets,
    model_labels: &ModelLabels,
) -> BTreeMap<ModelNames, LiveCounts> {
    let all_names: Vec<ModelNames> =
        model_labels.all().into_iter().map(|(names, _)| names).collect();
    let other = model_labels.label(OTHER);
    let names_of = |(label_index, model): (Option<u32>, ModelId)| {
        let target = targets.get(&model).unwrap_or(&other);
        let noted = label_index.and_then(|label_index| all_names.get(label_index as usize));
        let noted = noted.filter(|names| names.target == *target).cloned();
        noted
            .unwrap_or_else(|| ModelNames { model: Arc::clone(target), target: Arc::clone(target) })
    };
    let mut alive: BTreeMap<ModelNames, LiveCounts> =
        all_names.iter().map(|names| (names.clone(), LiveCounts::default())).collect();
    for (numbers, counts) in by_numbers(&snapshot.asks) {
        alive.entry(names_of(numbers)).or_default().add(&counts);
    }
    alive
}

/// Counts live requests by label index and target, which is faster than by names.
fn by_numbers(asks: &[LiveAsk]) -> BTreeMap<(Option<u32>, ModelId), LiveCounts> {
    let mut alive: BTreeMap<(Option<u32>, ModelId), LiveCounts> = BTreeMap::new();
    for ask in asks {
        let counts = alive.entry((ask.label_index, ask.model)).or_default();
        match ask.stage {
            Stage::Waiting => {
                counts.waiting[ask.band as usize] += 1;
                counts.waiting_bytes[ask.band as usize] += ask.bytes;
            }
            Stage::InFlight => {
                counts.in_flight[ask.band as usize] += 1;
                counts.stock += ask.stock;
            }
        }
    }
    alive
}
