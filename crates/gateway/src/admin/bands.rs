//! One count for each band, under the names that the pages and D-Bus use.

use flow::BANDS;
use serde::Serialize;

/// See the module documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct BandCounts {
    best_effort: u32,
    normal: u32,
    high: u32,
    critical: u32,
}

// === impl BandCounts ===

#[cfg(feature = "dbus")]
impl BandCounts {
    /// The counts with their names.
    pub(crate) fn named(self) -> [(&'static str, u32); BANDS] {
        let Self { best_effort, normal, high, critical } = self;
        [("best_effort", best_effort), ("normal", normal), ("high", high), ("critical", critical)]
    }
}

impl From<[u32; BANDS]> for BandCounts {
    fn from([best_effort, normal, high, critical]: [u32; BANDS]) -> Self {
        Self { best_effort, normal, high, critical }
    }
}
