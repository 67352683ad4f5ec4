//! Long series keep what an eye would look for.

use super::xml::attributes;
use super::{chart, line};
use crate::plot::thin::thin;
use crate::random::Random;

const COLUMNS: usize = 250;

fn seen(points: &[(f64, f64)]) -> Vec<(f64, Option<f64>)> {
    points.iter().map(|(x, y)| (*x, Some(*y))).collect()
}

#[test]
fn a_short_series_is_kept_as_it_is() {
    let points: Vec<(f64, f64)> = (0..1000).map(|at| (f64::from(at), f64::from(at % 7))).collect();
    assert_eq!(thin(seen(&points), COLUMNS), [points]);
}

#[test]
fn a_long_series_keeps_its_ends_and_the_extremes_of_every_column() {
    for seed in 0..4 {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let points: Vec<(f64, f64)> =
            (0..50_000).map(|at| (f64::from(at), random.unit() * random.unit())).collect();
        let runs = thin(seen(&points), COLUMNS);
        assert_eq!(runs.len(), 1);
        let kept = &runs[0];
        assert!(kept.len() <= 4 * COLUMNS, "{} points", kept.len());
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.is_sorted_by(|one, next| one.0 < next.0));
        let width = 49_999.0 / COLUMNS as f64;
        for column in 0..COLUMNS {
            let within = |(x, _): &&(f64, f64)| ((x / width) as usize).min(COLUMNS - 1) == column;
            let extremes = |points: &[(f64, f64)]| {
                let heights = || points.iter().filter(within).map(|(_, y)| *y);
                (heights().fold(f64::MAX, f64::min), heights().fold(f64::MIN, f64::max))
            };
            assert_eq!(extremes(kept), extremes(&points), "column {column}");
        }
    }
}

#[test]
fn no_column_has_more_than_four_points() {
    let height = |at: u32| match at % 200 {
        50 => 0.0,
        150 => 1.0,
        _ => 0.5,
    };
    let points: Vec<(f64, f64)> = (0..50_000).map(|at| (f64::from(at), height(at))).collect();
    assert_eq!(thin(seen(&points), COLUMNS).concat().len(), 4 * COLUMNS);
}

#[test]
fn a_single_peak_among_a_million_points_is_drawn() {
    let mut points: Vec<(f64, f64)> = (0..1_000_000).map(|at| (f64::from(at), 1.0)).collect();
    points[654_321].1 = 100.0;
    let svg = chart(vec![line("a", &points)]).svg();
    let paths = attributes(&svg, "d");
    let drawn = paths.iter().find(|path| path.contains('L')).unwrap();
    let heights = drawn.split(['M', 'L', ' ']).skip(2).step_by(2);
    let heights: Vec<f64> = heights.map(|height| height.parse().unwrap()).collect();
    assert!(heights.iter().copied().fold(f64::MAX, f64::min) < heights[0] - 200.0);
}

/// Slopes where there was a step would tell of a slow change that never was.
#[test]
fn a_step_in_a_long_series_stays_a_step() {
    for (before, after) in [(1.0, 2.0), (2.0, 1.0)] {
        let height = |at: u32| if at < 54_321 { before } else { after };
        let points: Vec<(f64, f64)> = (0..100_000).map(|at| (f64::from(at), height(at))).collect();
        let kept = thin(seen(&points), COLUMNS).concat();
        assert!(kept.contains(&(54_320.0, before)) && kept.contains(&(54_321.0, after)));
    }
}

#[test]
fn points_are_put_in_order() {
    let points = [(3.0, 1.0), (1.0, 2.0), (2.0, 3.0)];
    assert_eq!(thin(seen(&points), COLUMNS), [[(1.0, 2.0), (2.0, 3.0), (3.0, 1.0)]]);
}

#[test]
fn values_that_cannot_be_shown_leave_a_gap() {
    let points =
        vec![(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, None), (4.0, Some(3.0))];
    assert_eq!(thin(points, COLUMNS), [vec![(0.0, 1.0), (1.0, 2.0)], vec![(4.0, 3.0)]]);
    let hidden = |at: u32| (40_000..60_000).contains(&at) || at.is_multiple_of(2);
    let points = (0..100_000).map(|at| (f64::from(at), (!hidden(at)).then_some(1.0)));
    let runs = thin(points.collect(), COLUMNS);
    assert_eq!(runs.len(), 2, "single gaps in a long series do not tear it");
    assert!(runs[0].last().unwrap().0 < 40_000.0 && runs[1][0].0 > 60_000.0);
    assert!(thin(vec![(1.0, None); 5000], COLUMNS).is_empty());
}
