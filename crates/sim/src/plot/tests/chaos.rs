//! Whatever comes in, a picture that can be read comes out, and it is small.

use super::xml::{assert_well_formed, attributes};
use super::{chart, line};
use crate::plot::{Axis, Chart, Scale, Series, Style, Unit, page};
use crate::random::Random;

const SIZE_MAX: usize = 200_000;

const NASTY: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    3.0,
    59.999_999_999,
    60.0,
    1e-9,
    1e9,
    1e9 + 1.0,
    1e15,
    1e-300,
    -1e-300,
    1e300,
    -1e300,
    1e100,
    1e-100,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// No coordinate of a path or text lies outside a picture of this size or is not a number.
fn assert_drawn_inside(svg: &str, width: f64, height: f64) {
    let is_path = |path: &&str| !path.contains('a') && !path.contains('v');
    for path in attributes(svg, "d").into_iter().filter(is_path) {
        for number in path.split(|letter: char| letter.is_alphabetic() || letter == ' ') {
            let inside = number.is_empty()
                || number.parse().is_ok_and(|at: f64| (0.0..=width.max(height)).contains(&at));
            // Markers are drawn with steps from their middle, minus signs and all.
            let relative = path.contains('m') || path.contains('l');
            assert!(inside || relative, "{number} in {path} of {svg}");
        }
    }
    for (name, most) in [("x", width), ("y", height)] {
        for value in attributes(svg, name) {
            let at: f64 = value.parse().unwrap();
            assert!((0.0..=most).contains(&at), "{name} = {value} in {svg}");
        }
    }
    for word in ["NaN", "inf", "e+", "E+"] {
        assert!(!attributes(svg, "d").iter().any(|path| path.contains(word)), "{word} in {svg}");
    }
}

fn nasty(random: &mut Random) -> f64 {
    match random.below(3) {
        0 => NASTY[random.below(NASTY.len() as u64) as usize],
        1 => f64::from_bits(random.bits()),
        _ => random.unit(),
    }
}

fn points(random: &mut Random) -> Vec<(f64, f64)> {
    let count = [0, 1, 2, 5, 40, 3000][random.below(6) as usize];
    let same = nasty(random);
    let flat = random.below(4) == 0;
    (0..count).map(|_| (nasty(random), if flat { same } else { nasty(random) })).collect()
}

fn series(random: &mut Random) -> Series {
    let style = match random.below(6) {
        0 => Style::Line,
        1 => Style::Step,
        2 => Style::Dashed,
        3 => Style::Markers,
        4 => Style::Area { low: Vec::new() },
        _ => Style::Area { low: points(random) },
    };
    let letters = ['a', '<', '&', '"', '\'', ' ', '\u{7}', '\u{202e}', '\u{ffff}', '漢', 'W', '…'];
    let name = (0..random.below(60)).map(|_| letters[random.below(letters.len() as u64) as usize]);
    let name: String = name.collect();
    Series::new(name, style, random.bits() as usize, points(random))
}

fn axis(random: &mut Random) -> Axis {
    let scale = if random.below(2) == 0 { Scale::Linear } else { Scale::Log };
    let unit = [Unit::Plain, Unit::Seconds, Unit::Share][random.below(3) as usize];
    Axis { label: "\"<&>\" \0".into(), scale, unit }
}

fn nasty_chart(random: &mut Random) -> Chart {
    let count = random.below(16);
    let series = (0..count).map(|_| series(random)).collect();
    let title = "a <title> & more ".repeat(random.below(20) as usize);
    Chart { subtitle: title.clone(), title, x: axis(random), y: axis(random), series }
}

#[test]
fn every_chart_is_well_formed_and_stays_inside_its_frame() {
    for seed in 0..150 {
        eprintln!("seed {seed}");
        let chart = nasty_chart(&mut Random::new(seed));
        let svg = chart.svg();
        assert_well_formed(&svg);
        let height = attributes(&svg, "height")[0].parse().unwrap();
        assert_drawn_inside(&svg, 760.0, height);
        assert!(svg.len() < SIZE_MAX, "{} bytes", svg.len());
        assert_eq!(svg, chart.svg(), "the same chart gives the same bytes");
    }
}

#[test]
fn every_page_is_well_formed() {
    for seed in 0..40 {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let charts: Vec<Chart> = (0..random.below(6)).map(|_| nasty_chart(&mut random)).collect();
        let columns = [0, 1, 2, 3, 9, usize::MAX][random.below(6) as usize];
        let svg = page(&charts, columns);
        assert_well_formed(&svg);
        let size = |name| attributes(&svg, name)[0].parse().unwrap();
        assert_drawn_inside(&svg, size("width"), size("height"));
    }
}

#[test]
fn the_largest_chart_is_small() {
    let endless = "name ".repeat(100_000);
    let mut random = Random::new(1);
    let mut noise = || (0..20_000).map(|at| (f64::from(at), random.unit())).collect::<Vec<_>>();
    for area in [true, false] {
        let style = |low| if area { Style::Area { low } } else { Style::Step };
        let series = (0..12).map(|hue| Series::new(&endless, style(noise()), hue, noise()));
        let svg = Chart { title: endless.clone(), ..chart(series.collect()) }.svg();
        assert!(svg.len() < SIZE_MAX, "{} bytes", svg.len());
    }
}

#[test]
fn values_that_an_axis_cannot_show_are_left_out() {
    let usable = [(0.0, 1.0), (1.0, 2.0)];
    let mut broken = usable.to_vec();
    broken.extend([(f64::NAN, 1.0), (f64::INFINITY, 2.0), (2.0, f64::NAN), (3.0, f64::INFINITY)]);
    assert_eq!(chart(vec![line("a", &broken)]).svg(), chart(vec![line("a", &usable)]).svg());

    let mut zeros = usable.to_vec();
    zeros.extend([(2.0, 0.0), (3.0, -5.0)]);
    let logged = |points: &[(f64, f64)]| {
        let y = Axis::log("wait", Unit::Seconds);
        Chart { y, ..chart(vec![line("a", points)]) }.svg()
    };
    assert_eq!(logged(&zeros), logged(&usable));
}

#[test]
fn an_area_whose_lower_edge_cannot_be_shown_stays_inside() {
    let low = vec![(f64::NAN, 1.0), (1.0, f64::NAN)];
    let area = Series::new("a", Style::Area { low }, 0, vec![(0.0, 90.0), (1.0, 97.0)]);
    assert_drawn_inside(&chart(vec![area]).svg(), 760.0, 360.0);
}
