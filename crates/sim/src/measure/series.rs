//! The state of the world from moment to moment, for plots.

use flow::{AutoBound, BANDS, Span, Time};

use super::shares::Share;

/// Samples at equal distances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The distance.
    pub every: Span,
    /// The samples.
    pub moments: Vec<Moment>,
}

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// Requests that wait at the gateway, from best-effort to critical.
    pub waiting: [u32; BANDS],
    /// The engines, in their order.
    pub engines: Vec<EngineMoment>,
    /// What each tenant that has been seen so far got since the start, by its number.
    pub shares: Vec<Share>,
}

/// One engine at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineMoment {
    /// Whether it is alive.
    pub up: bool,
    /// Requests that the gateway has sent there and that have not ended.
    pub in_flight: u32,
    /// How many of these the gateway allows, where it has a limit.
    pub limit: Option<f64>,
    /// What keeps it closed, under a stock that tunes itself.
    pub binding: Option<AutoBound>,
    /// Jobs in its batch.
    pub running: u32,
    /// Jobs that wait inside it.
    pub waiting: u32,
    /// The part of its KV cache that is in use.
    pub kv_used: f64,
}

// === impl Series ===

impl Series {
    /// The tenants that got most by the end, the first of them first.
    pub fn top(&self, count: usize) -> Vec<u32> {
        let Some(last) = self.moments.last() else { return Vec::new() };
        let mut tenants: Vec<u32> = (0..last.shares.len() as u32).collect();
        tenants.sort_by(|&one, &other| {
            last.shares[other as usize].got.total_cmp(&last.shares[one as usize].got)
        });
        tenants.truncate(count);
        tenants
    }
}
