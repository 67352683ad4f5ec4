//! One number for each band, under the names that the source's users know.

use flow::BANDS;
use serde::Serialize;

/// See the module's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Bands {
    best_effort: u32,
    normal: u32,
    high: u32,
    critical: u32,
}

// === impl Bands ===

impl From<[u32; BANDS]> for Bands {
    fn from([best_effort, normal, high, critical]: [u32; BANDS]) -> Self {
        Self { best_effort, normal, high, critical }
    }
}
