//! The distributions have the moments they promise, and the same draws everywhere.

use super::Random;
use super::elementary::{exp, ln};

const DRAWS: usize = 200_000;

/// Mean and coefficient of variation of many draws.
fn moments(seed: u64, mut draw: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
    let mut random = Random::new(seed);
    let values: Vec<f64> = (0..DRAWS).map(|_| draw(&mut random)).collect();
    let mean = values.iter().sum::<f64>() / DRAWS as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / DRAWS as f64;
    (mean, variance.sqrt() / mean)
}

fn assert_near(found: f64, wanted: f64, part: f64, what: &str) {
    assert!((found - wanted).abs() <= wanted.abs() * part, "{what}: {found}, wanted {wanted}");
}

#[test]
fn logarithm_and_exponential_agree_with_the_platform_to_the_last_digits() {
    let mut random = Random::new(1);
    for _ in 0..10_000 {
        let x = (random.unit() - 0.5) * 1300.0;
        assert_near(exp(x), x.exp(), 1e-13, &format!("exp {x}"));
        let y = x.exp();
        assert!((ln(y) - y.ln()).abs() <= 1e-15 * y.ln().abs().max(1.0), "ln {y}");
    }
    assert_eq!(ln(1.0), 0.0);
    assert_eq!(exp(0.0), 1.0);
    assert!(exp(-1e9) < 1e-300 && exp(1e9).is_finite());
}

#[test]
fn an_exponential_number_has_mean_and_deviation_one() {
    let (mean, cv) = moments(2, Random::exponential);
    assert_near(mean, 1.0, 0.01, "mean");
    assert_near(cv, 1.0, 0.01, "cv");
}

#[test]
fn a_normal_number_has_mean_zero_and_deviation_one() {
    let (mean, cv) = moments(3, Random::normal);
    assert!(mean.abs() < 0.01, "mean {mean}");
    assert_near((mean * cv).abs(), 1.0, 0.01, "deviation");
    let tail =
        (0..DRAWS).scan(Random::new(4), |random, _| Some(random.normal())).filter(|x| *x > 1.96);
    assert_near(tail.count() as f64 / DRAWS as f64, 0.025, 0.05, "above 1.96");
}

#[test]
fn a_gamma_number_has_its_shape_as_mean_and_variance() {
    for shape in [0.05, 0.5, 1.0, 1.7, 30.0] {
        let (mean, cv) = moments(5, |random| random.gamma(shape));
        assert_near(mean, shape, 0.03, &format!("mean of shape {shape}"));
        assert_near(cv, 1.0 / shape.sqrt(), 0.03, &format!("cv of shape {shape}"));
    }
}

#[test]
fn a_lognormal_number_has_the_mean_and_the_variation_asked_for() {
    for (mean_wanted, cv_wanted) in [(100.0, 0.2), (1155.0, 1.0), (50.0, 1.5)] {
        let (mean, cv) = moments(6, |random| random.lognormal(mean_wanted, cv_wanted));
        assert_near(mean, mean_wanted, 0.02, "mean");
        assert_near(cv, cv_wanted, 0.05, "cv");
    }
}

/// Written down once: a change here changes every history that a report has ever named by its seed.
#[test]
fn draws_are_the_same_on_every_machine() {
    let mut random = Random::new(7).fork("golden");
    let draws = [
        random.exponential(),
        random.normal(),
        random.gamma(0.25),
        random.gamma(4.0),
        random.lognormal(200.0, 1.0),
    ];
    let golden = [
        0x4000_d97c_ad44_71f7,
        0x3fe2_049b_7bab_3bf8,
        0x3fb7_443a_862f_8e65,
        0x401a_83a2_7e42_a80f,
        0x406d_c4d0_38c8_601e,
    ];
    assert_eq!(draws.map(f64::to_bits), golden, "{draws:?}");
}
