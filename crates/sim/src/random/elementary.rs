//! Logarithm and exponential in plain arithmetic.
//!
//! The standard library leaves the last bits of `ln` and `exp` to the platform, and one differing
//! bit is enough to give a simulation another history. These cost a little more and agree
//! everywhere; their relative error is below 1e-14.

use std::f64::consts::{LN_2, SQRT_2};

const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: i64 = 1023;
/// Beyond this, up or down, a power of e does not fit or is as good as zero.
const EXP_RANGE: f64 = 700.0;
/// Terms of the logarithm's series: the argument is below 0.03, so the rest is under 1e-17.
const LN_TERMS: u32 = 11;
/// Terms of the exponential's series: the argument is below 0.35, so the rest is under 1e-17.
const EXP_TERMS: u32 = 14;

/// The natural logarithm of a positive number that is neither subnormal nor infinite.
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> MANTISSA_BITS) as i64 - EXPONENT_BIAS;
    let fraction = bits & ((1 << MANTISSA_BITS) - 1);
    let mut mantissa = f64::from_bits(fraction | ((EXPONENT_BIAS as u64) << MANTISSA_BITS));
    // Between the root of 1/2 and the root of 2 the series below is shortest.
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1)
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series =
        (0..=LN_TERMS).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    exponent as f64 * LN_2 + 2.0 * s * series
}

/// e to the power of `x`, which is held between -700 and 700.
pub(super) fn exp(x: f64) -> f64 {
    let x = x.clamp(-EXP_RANGE, EXP_RANGE);
    let doublings = (x / LN_2).round();
    let rest = x - doublings * LN_2;
    let series = (1..=EXP_TERMS).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((doublings as i64 + EXPONENT_BIAS) as u64) << MANTISSA_BITS)
}
