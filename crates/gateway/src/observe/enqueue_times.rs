//! How long the scheduler takes to queue requests, or to grant or refuse them at once.
//!
//! Only dashboards of other pickers ask for it, so it is measured where they are served.

use flow::{BANDS, Band, Span};

use super::histogram::Histogram;

/// By band, then refused or taken.
#[derive(Debug, Default)]
pub(super) struct EnqueueTimes(pub(super) [[Histogram; 2]; BANDS]);

// === impl EnqueueTimes ===

impl EnqueueTimes {
    pub(super) fn add(&self, band: Band, taken: bool, span: Span) {
        self.0[band as usize][usize::from(taken)].add(span);
    }
}
