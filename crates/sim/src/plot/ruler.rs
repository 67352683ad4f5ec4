//! An axis laid over its data: the range it covers, its ticks and the place of a value.

use super::{Axis, Scale, Unit, number, ticks};

/// Beyond this no value is a measurement, and differences could overflow.
const HUGE: f64 = 1e100;

/// A range smaller than this part of its values is noise of their digits.
const FLAT: f64 = 1e-6;

/// A range that leaves out less than this part above zero begins at zero, so that heights can be
/// compared.
const NEAR_ZERO: f64 = 0.6;

/// An axis with its range. Places are from 0, the low end, to 1.
pub(super) struct Ruler {
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
    most: usize,
}

/// A tick, its place and its label.
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

// === impl Ruler ===

impl Ruler {
    /// A horizontal axis from the first value to the last, with about `most` ticks.
    pub(super) fn across(axis: &Axis, values: impl Iterator<Item = f64>, most: usize) -> Self {
        let (low, high) = extent(axis.scale, values);
        let (low, high) = match axis.scale {
            Scale::Log => ticks::opened_log(low, high, axis.unit),
            Scale::Linear if !is_flat(low, high) => (low, high),
            Scale::Linear if low == 0.0 => (0.0, 1.0),
            Scale::Linear => (low - low.abs() / 2.0, high + high.abs() / 2.0),
        };
        Self { scale: axis.scale, unit: axis.unit, low, high, most }
    }

    /// A vertical axis that begins and ends at round numbers, at zero if that is not far.
    pub(super) fn up(axis: &Axis, values: impl Iterator<Item = f64>, most: usize) -> Self {
        let (low, high) = extent(axis.scale, values);
        let (low, high, most) = match axis.scale {
            Scale::Log => {
                let (low, high) = ticks::opened_log(low, high, axis.unit);
                (low, high, most)
            }
            Scale::Linear => {
                let (low, high) = with_zero(low, high);
                let step = ticks::step(high - low, most, axis.unit);
                let (low, high) = ticks::opened(step, low, high);
                // The opened range keeps its step, so that both of its ends have a tick.
                (low, high, ((high - low) / step).round() as usize)
            }
        };
        Self { scale: axis.scale, unit: axis.unit, low, high, most }
    }

    /// Where `value` lies, if the axis can show it.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let value = usable(self.scale, value)?;
        Some(match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        })
    }

    /// Takes ticks away; false where none is left to take.
    pub(super) fn thin_out(&mut self) -> bool {
        let can = self.most > 1;
        self.most -= usize::from(can);
        can
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        match self.scale {
            Scale::Linear => {
                let step = ticks::step(self.high - self.low, self.most, self.unit);
                let top = self.low.abs().max(self.high.abs());
                let values = ticks::multiples(step, self.low, self.high);
                values.filter_map(|value| self.tick(value, step, top)).collect()
            }
            Scale::Log => {
                let values = ticks::log(self.low, self.high, self.most, self.unit);
                values.into_iter().filter_map(|value| self.tick(value, value, value)).collect()
            }
        }
    }

    fn tick(&self, value: f64, step: f64, top: f64) -> Option<Tick> {
        let label = number::label(value, step, top, self.unit);
        self.place(value).map(|at| Tick { at, label })
    }
}

/// The value as an axis of this scale can show it.
pub(super) fn usable(scale: Scale, value: f64) -> Option<f64> {
    let shown = value.abs() <= HUGE && (scale == Scale::Linear || value >= 1.0 / HUGE);
    // A value nearer to zero than any measurement would be lost in divisions.
    let nothing = value.abs() < 1.0 / HUGE;
    shown.then_some(if nothing { 0.0 } else { value })
}

/// The least and the greatest value; from nothing an empty chart from 0 or 1 on.
fn extent(scale: Scale, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let usable = values.filter_map(|value| usable(scale, value));
    let wider = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), wider);
    match scale {
        _ if low <= high => (low, high),
        Scale::Linear => (0.0, 1.0),
        Scale::Log => (1.0, 10.0),
    }
}

fn is_flat(low: f64, high: f64) -> bool {
    high - low <= FLAT * low.abs().max(high.abs())
}

fn with_zero(low: f64, high: f64) -> (f64, f64) {
    match (low, high) {
        (0.0, 0.0) => (0.0, 1.0),
        _ if low > 0.0 && (low < NEAR_ZERO * high || is_flat(low, high)) => (0.0, high),
        _ if high < 0.0 && (high > NEAR_ZERO * low || is_flat(low, high)) => (low, 0.0),
        _ => (low, high),
    }
}
