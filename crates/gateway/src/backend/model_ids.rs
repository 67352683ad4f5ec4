//! Model names and their ids.
//!
//! A name keeps its id while a backend lists it and for an hour after, because waiting requests
//! refer to the id. Names come from model servers, so their number is limited.

use std::collections::HashMap;
use std::sync::Arc;

use flow::{ModelId, Span, Time};

/// All names that no backend lists. Only backends that serve any name serve them.
pub(super) const ANY_OTHER: ModelId = ModelId(0);
/// The model for which requests wait while a model list is unknown.
pub(super) const NOT_YET: ModelId = ModelId(1);
const FIRST: u32 = 2;

/// Far below the limit of the core, so that lists of all names stay short.
const NAMES_MAX: usize = 16_384;
const _: () = assert!(NAMES_MAX < flow::MODELS_MAX as usize);
/// Longer than any request waits, so no request refers to the id any more.
const KEEP_FOR: Span = Span::from_secs(3600);

#[derive(Debug, Default)]
pub(super) struct ModelIds {
    known: HashMap<Arc<str>, KnownName>,
    free: Vec<ModelId>,
}

#[derive(Clone, Copy, Debug)]
struct KnownName {
    id: ModelId,
    listed: Time,
}

// === impl ModelIds ===

impl ModelIds {
    /// The id of a listed name; `None` if there are too many names.
    pub(super) fn number(&mut self, name: &str, now: Time) -> Option<ModelId> {
        if let Some(known) = self.known.get_mut(name) {
            known.listed = now;
            return Some(known.id);
        }
        if self.known.len() >= NAMES_MAX {
            self.forget(now);
        }
        let next = FIRST + (self.known.len() + self.free.len()) as u32;
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.known.len() < NAMES_MAX => ModelId(next),
            None => {
                tracing::warn!(name, "model ignored: there are more than {NAMES_MAX}");
                return None;
            }
        };
        self.known.insert(name.into(), KnownName { id, listed: now });
        Some(id)
    }

    /// Records that these names were listed until now.
    pub(super) fn touch<'a>(&mut self, names: impl Iterator<Item = &'a str>, now: Time) {
        for name in names {
            if let Some(known) = self.known.get_mut(name) {
                known.listed = now;
            }
        }
    }

    fn forget(&mut self, now: Time) {
        let free = &mut self.free;
        self.known.retain(|_, known| {
            let keep = now.since(known.listed) <= KEEP_FOR;
            if !keep {
                free.push(known.id);
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x01_a_name_keeps_its_number_and_there_is_a_limit_to_names() {
        let mut model_ids = ModelIds::default();
        let at = Time::from_millis;
        let first = model_ids.number("a", at(0));
        assert_eq!(first, Some(ModelId(FIRST)));
        for number in 1..NAMES_MAX {
            assert!(model_ids.number(&format!("m{number}"), at(1)).is_some());
        }
        assert_eq!(model_ids.number("one too many", at(2)), None);
        assert_eq!(model_ids.number("a", at(2)), first);
        let later = at(2).after(KEEP_FOR);
        model_ids.touch(["m1"].into_iter(), later);
        let reused = model_ids.number("new", later).unwrap();
        assert!(reused.0 < FIRST + NAMES_MAX as u32);
        assert_eq!(model_ids.number("a", later), first, "listed within the hour");
        assert_eq!(model_ids.number("m1", later), Some(ModelId(FIRST + 1)));
        let ids: std::collections::BTreeSet<u32> =
            model_ids.known.values().map(|known| known.id.0).collect();
        assert_eq!(ids.len(), model_ids.known.len(), "no number twice");
    }
}
