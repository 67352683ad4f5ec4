//! Many runs on all cores. Each is a function of its seed alone, so threads change nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result};

/// What `work` makes of each item, in the order of the items.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let toil = || {
        while let Some((at, item)) = take(&next, items) {
            let made = work(item);
            if let Ok(mut done) = done.lock() {
                done.push((at, made));
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    thread::scope(|scope| (0..cores).for_each(|_| _ = scope.spawn(toil)));
    let mut done = done.into_inner().ok().context("a run did not come to its end")?;
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

fn take<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, items.get(at)?))
}
