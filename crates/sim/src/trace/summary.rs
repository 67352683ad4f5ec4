//! What a trace holds, in a few numbers: printed after reading, so that a wrong file is noticed.

use std::fmt;

use flow::{Span, Time};

use super::{Trace, TraceRow};

/// A trace in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Requests.
    pub rows: usize,
    /// From the first arrival to the last.
    pub span: Span,
    /// Requests a second.
    pub rate: f64,
    /// Coefficient of variation of the gaps between arrivals: 1 for independent arrivals, more for
    /// bursts.
    pub gap_cv: f64,
    /// Tokens of the prompts.
    pub prompt: Spread,
    /// Tokens of the answers.
    pub output: Spread,
    /// Clients.
    pub clients: usize,
    /// The client with the most requests.
    pub top_client: String,
    /// Its part of all requests, from 0 to 1.
    pub top_share: f64,
}

/// How a count spreads over the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The average.
    pub mean: f64,
    /// Half of the requests have at most this many.
    pub p50: u32,
    /// 99 in 100 requests have at most this many.
    pub p99: u32,
}

// === impl Trace ===

impl Trace {
    /// From the first arrival to the last.
    pub fn span(&self) -> Span {
        self.rows.last().map_or(Span::ZERO, |row| row.at.since(Time::ZERO))
    }

    /// Arrivals a second; zero where all arrive at once, because no rate can be told then.
    pub fn mean_rate(&self) -> f64 {
        let gaps = self.rows.len().saturating_sub(1);
        if self.span() == Span::ZERO { 0.0 } else { gaps as f64 / self.span().secs_f64() }
    }

    /// The trace in numbers.
    pub fn summary(&self) -> Summary {
        let mut sent = vec![0usize; self.clients.len()];
        for row in &self.rows {
            if let Some(count) = sent.get_mut(row.client as usize) {
                *count += 1;
            }
        }
        let most = sent.iter().copied().max().unwrap_or(0);
        let top = self.clients.iter().zip(&sent).find(|(_, count)| **count == most);
        Summary {
            rows: self.rows.len(),
            span: self.span(),
            rate: self.mean_rate(),
            gap_cv: gap_cv(&self.rows),
            prompt: Spread::of(self.rows.iter().map(|row| row.prompt)),
            output: Spread::of(self.rows.iter().map(|row| row.output)),
            clients: self.clients.len(),
            top_client: top.map(|(name, _)| name.clone()).unwrap_or_default(),
            top_share: most as f64 / self.rows.len().max(1) as f64,
        }
    }
}

// === impl Summary ===

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, secs, rate, cv) = (self.rows, self.span.secs_f64(), self.rate, self.gap_cv);
        writeln!(out, "{rows} requests in {secs:.0} s, {rate:.2}/s, gaps with cv {cv:.2}")?;
        writeln!(out, "prompt tokens: {}", self.prompt)?;
        writeln!(out, "output tokens: {}", self.output)?;
        let (clients, top, percent) = (self.clients, &self.top_client, self.top_share * 100.0);
        write!(out, "clients: {clients}, the busiest {top} with {percent:.0}% of the requests")
    }
}

// === impl Spread ===

impl Spread {
    fn of(counts: impl Iterator<Item = u32>) -> Self {
        let mut sorted: Vec<u32> = counts.collect();
        sorted.sort_unstable();
        let total: f64 = sorted.iter().copied().map(f64::from).sum();
        let rank = |percent: usize| (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        let at = |percent| sorted.get(rank(percent)).copied().unwrap_or_default();
        Self { mean: total / sorted.len().max(1) as f64, p50: at(50), p99: at(99) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "mean {:.0}, p50 {}, p99 {}", self.mean, self.p50, self.p99)
    }
}

fn gap_cv(rows: &[TraceRow]) -> f64 {
    let gaps: Vec<f64> =
        rows.windows(2).map(|pair| pair[1].at.since(pair[0].at).secs_f64()).collect();
    let count = gaps.len().max(1) as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}
