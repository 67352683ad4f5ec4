//! What each tenant got, against what it was entitled to while it wanted more.
//!
//! A line is one tenant in one band. It *wants* while one of its requests has no first token yet,
//! wherever that request stands, so that gates with and without a queue are measured alike. What
//! reaches lines that want is split among them by weight: that is what each is entitled to. It is
//! kept as a virtual time per band, so that a token costs a few additions however many lines there
//! are.

use flow::{BANDS, Time};

use super::Window;

/// A line must want for this part of the window to count in Jain's index: others have what they
/// asked for.
const WANTING_MIN: f64 = 0.5;

/// What one tenant got and should have got, in tokens of service.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// What it got.
    pub got: f64,
    /// What it got while it wanted nothing more, plus what it was entitled to while it did.
    pub fair: f64,
}

/// The accounts of all lines.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    lines: Vec<Line>,
    bands: [BandClock; BANDS],
    window_from: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    weight: f64,
    /// Requests without a first token.
    unanswered: u32,
    since: Time,
    joined_at: f64,
    tally: Tally,
    /// The tally when the window began.
    base: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    idle_got: f64,
    wanting_got: f64,
    entitled: f64,
    wanting_nanos: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct BandClock {
    /// Service per unit of weight that a line which always wants was entitled to.
    virtual_time: f64,
    /// The weights of the lines that want.
    weight: f64,
    /// How many want: the sum of weights is set to zero with it, so that no rounding remains.
    wanting: u32,
}

// === impl Shares ===

impl Shares {
    /// A request of a line arrives.
    pub(crate) fn wants(&mut self, at: usize, weight: f64, now: Time) {
        if self.lines.len() <= at {
            self.lines.resize(at + 1, Line::default());
        }
        let line = &mut self.lines[at];
        let band = &mut self.bands[at % BANDS];
        line.unanswered += 1;
        if line.unanswered == 1 {
            (line.weight, line.since, line.joined_at) = (weight, now, band.virtual_time);
            band.weight += weight;
            band.wanting += 1;
        }
    }

    /// A request of a line has its first token, or will never have one.
    pub(crate) fn answered(&mut self, at: usize, now: Time) {
        let line = &mut self.lines[at];
        let band = &mut self.bands[at % BANDS];
        line.unanswered -= 1;
        if line.unanswered == 0 {
            line.tally = line.tally_at(band, now, true);
            band.wanting -= 1;
            band.weight = if band.wanting == 0 { 0.0 } else { band.weight - line.weight };
        }
    }

    /// A line got service.
    pub(crate) fn delivered(&mut self, at: usize, cost: f64) {
        let line = &mut self.lines[at];
        if line.unanswered == 0 {
            line.tally.idle_got += cost;
            return;
        }
        line.tally.wanting_got += cost;
        let band = &mut self.bands[at % BANDS];
        band.virtual_time += cost / band.weight;
    }

    /// The window begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.window_from = Some(now);
        for (at, line) in self.lines.iter_mut().enumerate() {
            line.base = line.tally_at(&self.bands[at % BANDS], now, line.unanswered > 0);
        }
    }

    /// The run is over: lines that still want are settled up to here.
    pub(crate) fn finish(&mut self, now: Time) {
        for (at, line) in self.lines.iter_mut().enumerate() {
            let band = &self.bands[at % BANDS];
            line.tally = line.tally_at(band, now, line.unanswered > 0);
            line.since = now;
            line.joined_at = band.virtual_time;
        }
    }

    /// What a tenant got and should have got since the start.
    pub fn of(&self, tenant: usize) -> Share {
        let mut share = Share::default();
        for band in 0..BANDS {
            let Some(line) = self.lines.get(tenant * BANDS + band) else { break };
            let mut tally = line.tally;
            if line.unanswered > 0 {
                let passed = self.bands[band].virtual_time - line.joined_at;
                tally.entitled += line.weight * passed;
            }
            share.got += tally.idle_got + tally.wanting_got;
            share.fair += tally.idle_got + tally.entitled;
        }
        share
    }

    /// Jain's index of what lines got over what they were entitled to, among lines of one band that
    /// wanted more for at least half of the window; the lowest of the bands that have two of them.
    pub fn jain(&self, window: Window) -> Option<f64> {
        let least = WANTING_MIN * window.secs();
        let index = |band: usize| {
            let lines = self.lines.iter().skip(band).step_by(BANDS);
            let tallies = lines.map(|line| line.tally.since(&line.base));
            let wanting = tallies.filter(|tally| tally.wanting_nanos as f64 * 1e-9 >= least);
            let ratios = wanting.filter(|tally| tally.entitled > 0.0);
            jain(&ratios.map(|tally| tally.wanting_got / tally.entitled).collect::<Vec<_>>())
        };
        (0..BANDS).filter_map(index).min_by(f64::total_cmp)
    }
}

/// Jain's fairness index: 1 where all are equal, 1/n where one has everything.
fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (values.len() > 1 && squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

// === impl Line ===

impl Line {
    /// The tally with the current period of wanting added.
    fn tally_at(&self, band: &BandClock, now: Time, wanting: bool) -> Tally {
        let mut tally = self.tally;
        if wanting {
            tally.entitled += self.weight * (band.virtual_time - self.joined_at);
            tally.wanting_nanos += now.since(self.since).nanos();
        }
        tally
    }
}

// === impl Tally ===

impl Tally {
    fn since(&self, base: &Self) -> Self {
        Self {
            idle_got: self.idle_got - base.idle_got,
            wanting_got: self.wanting_got - base.wanting_got,
            entitled: self.entitled - base.entitled,
            wanting_nanos: self.wanting_nanos - base.wanting_nanos,
        }
    }
}
