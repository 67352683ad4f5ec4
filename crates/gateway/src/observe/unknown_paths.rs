//! The last requests to paths that do not exist. A client with a wrong base URL sends many to one
//! path, and scanners send few to each of many. Anybody can send them, so that few are kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use flow::Time;

/// How many are kept, and of each path so many bytes.
const KEPT: usize = 1024;
const PATH_MAX: usize = 64;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct UnknownPaths(Mutex<VecDeque<(Time, Box<str>)>>);

// === impl UnknownPaths ===

impl UnknownPaths {
    pub(super) fn add(&self, path: &str, now: Time) {
        let path = &path[..path.floor_char_boundary(PATH_MAX)];
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back((now, path.into()));
    }

    /// The paths of the requests since then, with their numbers.
    pub(super) fn since(&self, since: Time) -> BTreeMap<String, usize> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = BTreeMap::new();
        for (_, path) in last.iter().filter(|(at, _)| *at >= since) {
            *counts.entry(path.to_string()).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m03_unknown_paths_are_counted_for_a_time_and_a_bounded_number() {
        let paths = UnknownPaths::default();
        let at = Time::from_millis;
        paths.add("/old", at(1));
        paths.add("/a", at(2));
        paths.add("/a", at(3));
        paths.add(&format!("/{}", "x".repeat(1000)), at(3));
        let counts: Vec<_> =
            paths.since(at(2)).into_iter().map(|(path, n)| (path.len(), n)).collect();
        assert_eq!(counts, [(2, 2), (PATH_MAX, 1)]);
        (0..2 * KEPT).for_each(|number| paths.add(&number.to_string(), at(4)));
        assert_eq!(paths.since(at(0)).len(), KEPT);
    }
}
