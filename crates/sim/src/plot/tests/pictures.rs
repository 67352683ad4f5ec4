//! The kinds of pictures, piece by piece.

use super::xml::{assert_well_formed, attributes, texts};
use super::{chart, line};
use crate::plot::text::width;
use crate::plot::{Axis, Chart, Series, Style, Unit, page};

const RISING: [(f64, f64); 3] = [(0.0, 0.0), (5.0, 10.0), (10.0, 40.0)];

fn drawn(style: Style, points: &[(f64, f64)]) -> String {
    let svg = chart(vec![Series::new("", style, 3, points.to_vec())]).svg();
    assert_well_formed(&svg);
    let begin = svg.find("<g class=\"h3\">").unwrap_or_else(|| panic!("no series in {svg}"));
    let end = begin + svg[begin..].find("</g>").unwrap();
    svg[begin..end].to_owned()
}

#[test]
fn a_line_goes_straight_and_a_step_holds_its_value() {
    let line = drawn(Style::Line, &RISING);
    let path = attributes(&line, "d")[0];
    assert_eq!(path.matches('L').count(), 1, "{path}");
    let numbers: Vec<&str> = path.split(['M', 'L', ' ']).skip(1).collect();
    let [x0, y0, x1, y1, x2, y2] = numbers.try_into().unwrap();
    let steps = format!("M{x0} {y0}H{x1}V{y1}H{x2}V{y2}");
    assert_eq!(attributes(&drawn(Style::Step, &RISING), "d"), [steps]);
    assert!(drawn(Style::Dashed, &RISING).contains("class=\"line dash\""));
}

#[test]
fn a_single_point_is_a_dot() {
    for style in [Style::Line, Style::Step, Style::Dashed] {
        for points in [&[(1.0, 1.0)][..], &[(1.0, 1.0), (1.0, 1.0)]] {
            let svg = drawn(style.clone(), points);
            assert!(attributes(&svg, "d")[0].ends_with("h0"), "{svg}");
        }
    }
}

#[test]
fn markers_are_drawn_while_they_have_room() {
    let svg = drawn(Style::Markers, &RISING);
    let marks = attributes(&svg, "d")[1];
    assert_eq!(marks.matches('M').count(), 3, "{svg}");
    let many: Vec<(f64, f64)> = (0..500).map(|at| (f64::from(at), 1.0)).collect();
    assert!(!drawn(Style::Markers, &many).contains("\"mark\""));
}

#[test]
fn an_area_lies_between_its_edges_or_stands_on_zero() {
    let low = RISING.map(|(x, y)| (x, y / 2.0)).to_vec();
    let band = drawn(Style::Area { low }, &RISING);
    let path = attributes(&band, "d")[0];
    assert!(path.ends_with('z') && path.split(['L', ' ']).count() == 12, "{path}");
    let standing = drawn(Style::Area { low: Vec::new() }, &[(0.0, 90.0), (1.0, 97.0)]);
    let numbers = attributes(&standing, "d")[0].trim_end_matches('z').split(['M', 'L', ' ']);
    let numbers: Vec<f64> = numbers.skip(1).map(|number| number.parse().unwrap()).collect();
    let [top, foot] = [numbers[1], numbers[5]];
    assert!(foot - top > 150.0, "the zero belongs to the picture: {standing}");
}

#[test]
fn areas_lie_below_lines() {
    let area = Series::new("bounds", Style::Area { low: vec![] }, 1, RISING.to_vec());
    let svg = chart(vec![line("stock", &RISING), area]).svg();
    let at = |what: &str| svg.find(what).unwrap();
    assert!(at("<title>bounds") < at("<title>stock"), "{svg}");
}

#[test]
fn series_of_one_hue_share_a_colour_and_the_palette_goes_on_softer() {
    let points = RISING.to_vec();
    let hues = [2, 2, 10].map(|hue| Series::new("", Style::Line, hue, points.clone()));
    let svg = chart(hues.to_vec()).svg();
    assert_eq!(svg.matches("<g class=\"h2\">").count(), 2);
    assert_eq!(svg.matches("<g class=\"h2 soft\">").count(), 1);
}

#[test]
fn a_chart_brings_its_colours_for_day_and_night_and_nothing_from_elsewhere() {
    let svg = chart(vec![line("a", &RISING)]).svg();
    assert!(svg.contains("@media (prefers-color-scheme:dark)"));
    assert_eq!(svg.matches("class=\"paper\"").count(), 1);
    for elsewhere in ["href", "url(", "@import", "@font-face", " id="] {
        assert!(!svg.contains(elsewhere), "{elsewhere}");
    }
    assert_eq!(svg.matches("http").count(), 1, "the name of the format");
}

#[test]
fn texts_stand_at_their_positions() {
    let mut chart = chart(vec![line("tidegate", &RISING)]);
    chart.subtitle = "p99 of 4 engines".into();
    chart.y = Axis::log("wait", Unit::Seconds);
    let svg = chart.svg();
    assert_eq!(texts(&svg)[..2], ["Waits", "p99 of 4 engines"]);
    assert!(["wait", "time", "10s", "tidegate"].iter().all(|word| texts(&svg).contains(word)));
    assert!(svg.contains("width=\"760\" height=\"360\""), "the size for a README");
    assert!(svg.contains("aria-label=\"Waits\""));
}

#[test]
fn a_page_sets_charts_row_by_row() {
    let charts: Vec<Chart> =
        (0..5).map(|index| Chart { title: format!("chart {index}"), ..chart(vec![]) }).collect();
    let svg = page(&charts, 2);
    assert_well_formed(&svg);
    let places = attributes(&svg, "transform");
    let at = |left: f64, row: f64| {
        let height = attributes(&svg, "height")[0].parse::<f64>().unwrap() / 3.0;
        format!("translate({left} {})", row * height)
    };
    assert_eq!(places, [at(0.0, 0.0), at(480.0, 0.0), at(0.0, 1.0), at(480.0, 1.0), at(0.0, 2.0)]);
    assert_eq!(svg.matches("<style>").count(), 1);
    let widest = page(&charts, 9);
    assert_eq!(attributes(&widest, "width")[0], "1520", "four are side by side at most");
    assert_eq!(page(&charts[..1], 3), charts[0].svg(), "no empty columns");
    assert_well_formed(&page(&[], 2));
}

#[test]
fn labels_of_the_horizontal_axis_do_not_touch() {
    let ranges = [(119.8, 120.2), (0.0, 7300.0), (1e-7, 3e-7), (86_390.0, 86_400.5), (0.6, 2.0)];
    for (low, high) in ranges {
        let narrow = chart(vec![line("a name of some length", &[(low, 1.0), (high, 2.0)])]);
        let svg = page(&[narrow.clone(), narrow.clone(), narrow], 3);
        let first = svg.split("class=\"foot\"").next().unwrap();
        let ticks: Vec<&str> = first.split("<text class=\"tick middle\"").skip(1).collect();
        let place = |tick: &str| attributes(tick, "x")[0].parse::<f64>().unwrap();
        let word = |tick: &str| tick.split(['>', '<']).nth(1).unwrap().to_owned();
        for pair in ticks.windows(2) {
            let words = (width(&word(pair[0]), 11.0) + width(&word(pair[1]), 11.0)) / 2.0;
            assert!(place(pair[1]) - place(pair[0]) > words, "{pair:?}");
        }
        assert!(!ticks.is_empty());
    }
}

#[test]
fn a_ragged_line_is_drawn_finer_than_a_smooth_one() {
    let heights = |height: fn(u32) -> f64| -> Vec<(f64, f64)> {
        (0..900).map(|at| (f64::from(at), height(at))).collect()
    };
    let smooth = drawn(Style::Line, &heights(f64::from));
    let ragged = drawn(Style::Line, &heights(|at| f64::from(at % 2)));
    let flat = drawn(Style::Line, &heights(|_| 1.0));
    assert!(!smooth.contains("line fine") && !flat.contains("line fine"));
    assert!(ragged.contains("line fine"));
}

/// Axes side by side can only be compared when they begin at one height.
#[test]
fn charts_of_a_row_have_their_data_at_one_height() {
    let long = Chart { subtitle: "many words ".repeat(12), ..chart(vec![]) };
    let svg = page(&[chart(vec![]), long, chart(vec![])], 3);
    let feet: Vec<&str> =
        attributes(&svg, "d").into_iter().filter(|path| path.contains('v')).collect();
    let height = |path: &&str| path.split(['M', ' ', 'H']).nth(2).map(str::to_owned);
    assert_eq!(feet.len(), 3);
    assert_eq!(attributes(&svg, "height")[0], "316", "with room for two lines more");
    assert!(feet.iter().all(|foot| height(foot) == height(&feet[0])), "{feet:?}");
}
