//! Bytes for each waiting ask, counted by the allocator.
//!
//! Counting replaces the allocator of the whole program, so it is behind the feature `memory`.

#[cfg(feature = "memory")]
mod count;

use anyhow::Result;

use super::report::Memory;
use crate::runner::Runner;

pub(crate) fn measure(run: &mut Runner<'_>) -> Result<Option<Memory>> {
    if !run.wants("memory")? {
        return Ok(None);
    }
    count().map(Some)
}

#[cfg(feature = "memory")]
fn count() -> Result<Memory> {
    count::count()
}

#[cfg(not(feature = "memory"))]
fn count() -> Result<Memory> {
    Ok(Memory::NotCounted)
}
