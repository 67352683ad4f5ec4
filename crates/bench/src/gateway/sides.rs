//! Gateways side by side: each has a crowd of clients, and they take turns in short rounds.
//!
//! The speed of the machine changes every few seconds. So a figure of one side is compared with
//! the figure of another in the same round, and the median over the rounds counts.

use anyhow::Result;

use super::load::Crowd;
use super::origin::Origin;
use super::process::Process;
use super::proxies::Proxy;
use crate::report::{median, percentile};
use crate::runner::{Bench, turns};

/// A gateway, its clients, and the figures of its rounds.
pub(super) struct Side {
    pub(super) proxy: Process,
    crowd: Crowd,
    /// Requests per second.
    pub(super) rates: Vec<f64>,
    /// Processor time per request.
    pub(super) micros: Vec<f64>,
    /// Milliseconds of a request.
    pub(super) p50: Vec<f64>,
    pub(super) p99: Vec<f64>,
}

// === impl Side ===

impl Side {
    /// Starts a gateway in front of `origin`.
    pub(super) async fn start(
        bench: &mut Bench,
        origin: &Origin,
        proxy: &Proxy,
        crowd: Crowd,
    ) -> Result<Self> {
        let proxy = bench.fixture.start(proxy, origin.address).await?;
        let [rates, micros, p50, p99] = [const { Vec::new() }; 4];
        Ok(Self { proxy, crowd: crowd.afresh(), rates, micros, p50, p99 })
    }

    /// One round with so many requests of each client.
    async fn play(&mut self, each: usize, counts: bool) -> Result<()> {
        let served = self.crowd.ask(&self.proxy, each).await?;
        if counts {
            self.rates.push(served.rate());
            self.micros.push(served.cpu_micros_each());
            self.p50.push(median(&served.millis));
            self.p99.push(percentile(&served.millis, 990));
        }
        Ok(())
    }
}

/// Plays so many rounds on all sides by turns. One more comes first and does not count: it opens
/// the connections to the backend and makes workloads known.
pub(super) async fn play(sides: &mut [Side], rounds: usize, each: usize) -> Result<()> {
    for round in 0..=rounds {
        for at in turns(sides.len(), round) {
            sides[at].play(each, round > 0).await?;
        }
    }
    Ok(())
}

/// The ratio of two figures within each round.
pub(super) fn ratios(own: &[f64], other: &[f64]) -> Vec<f64> {
    own.iter().zip(other).map(|(own, other)| own / other).collect()
}

/// The difference of two figures within each round.
pub(super) fn differences(own: &[f64], other: &[f64]) -> Vec<f64> {
    own.iter().zip(other).map(|(own, other)| own - other).collect()
}
