//! Names from users are harmless, cut to their room and do not cover each other.

use super::xml::{assert_well_formed, texts};
use super::{chart, line};
use crate::plot::legend::spread;
use crate::plot::text::{escape, fit, fit_middle, width, wrap};
use crate::plot::{Chart, Series, Style};
use crate::random::Random;

#[test]
fn signs_of_markup_lose_their_meaning() {
    assert_eq!(escape("a<b>&\"c\"'d'"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;");
    assert_eq!(
        escape("bell\u{7} turn\u{202e} none\u{ffff}"),
        "bell\u{fffd} turn\u{fffd} none\u{fffd}"
    );
    assert_eq!(escape("größe 漢字"), "größe 漢字");
}

#[test]
fn every_text_of_a_chart_is_escaped() {
    let evil = "</text><script>alert(\"1\")</script>&'";
    let mut chart = chart(vec![line(evil, &[(0.0, 1.0), (1.0, 2.0)])]);
    chart.title = evil.into();
    chart.subtitle = evil.into();
    chart.x.label = evil.into();
    chart.y.label = evil.into();
    let svg = chart.svg();
    assert_well_formed(&svg);
    assert!(!svg.contains("<script"));
    assert_eq!(svg.matches("&lt;script&gt;alert").count(), 7, "title twice, name twice: {svg}");
}

#[test]
fn long_names_are_cut() {
    assert_eq!(fit("short", 12.0, 100.0), "short");
    assert_eq!(fit_middle("short", 12.0, 100.0), "short");
    let name = "production/search/interactive/eu-west";
    let cut = fit(name, 12.0, 100.0);
    assert!(cut.starts_with("production") && cut.ends_with('…'), "{cut}");
    let middle = fit_middle(name, 12.0, 100.0);
    assert!(middle.starts_with("prod") && middle.ends_with("west"), "{middle}");
    for cut in [cut, middle, fit("x", 12.0, 0.0)] {
        assert!(width(&cut, 12.0) <= 100.0, "{cut}");
    }
}

#[test]
fn long_texts_are_wrapped_once() {
    assert!(wrap("", 12.0, 100.0).is_empty());
    assert_eq!(wrap("one two", 12.0, 100.0), ["one two"]);
    assert_eq!(wrap("one two three four", 12.0, 80.0), ["one two", "three four"]);
    let lines = wrap(&"word ".repeat(30), 12.0, 80.0);
    assert!(lines.len() == 2 && lines[1].ends_with('…'), "{lines:?}");
    assert_eq!(wrap(&"w".repeat(30), 12.0, 40.0).len(), 1);
}

#[test]
fn names_that_differ_only_at_the_end_are_cut_in_the_middle() {
    let shared = "a-very-long-prefix-that-is-the-same-for-all-of-them-";
    let series =
        ["one", "two"].map(|end| line(&format!("{shared}{end}"), &[(0.0, 1.0), (1.0, 2.0)]));
    let svg = chart(series.to_vec()).svg();
    let names: Vec<&str> = texts(&svg).into_iter().filter(|name| name.contains('…')).collect();
    assert!(
        names.len() == 2 && names[0].ends_with("one") && names[1].ends_with("two"),
        "{names:?}"
    );
}

#[test]
fn series_beyond_the_twelfth_are_counted() {
    let many = |count: u32| -> Chart {
        let flat = |index| line(&format!("flow {index}"), &[(0.0, f64::from(index)), (1.0, 1.0)]);
        chart((0..count).map(flat).collect())
    };
    assert!(!many(12).svg().contains("more"));
    let svg = many(40).svg();
    assert!(texts(&svg).contains(&"and 28 more"));
    assert!(svg.contains(">flow 11<") && !svg.contains(">flow 12<"));
    assert!(texts(&svg).contains(&"12") && !texts(&svg).contains(&"40"), "only the drawn count");
}

#[test]
fn a_series_without_a_name_has_no_row_and_one_without_data_is_marked() {
    let dashed = Series::new("", Style::Dashed, 0, vec![(0.0, 1.0), (1.0, 1.0)]);
    let svg =
        chart(vec![line("served", &[(0.0, 0.0), (1.0, 2.0)]), dashed, line("idle", &[])]).svg();
    assert!(texts(&svg).contains(&"served") && texts(&svg).contains(&"idle: no data"));
    assert_eq!(svg.matches("<path class=\"line dash\"").count(), 1, "the line and no sample");
    assert!(!texts(&svg).contains(&"no data"), "the chart as a whole has some");
    assert!(texts(&chart(Vec::new()).svg()).contains(&"no data"));
}

#[test]
fn names_stand_at_the_ends_of_their_lines_in_their_order() {
    let ends = [("low", 1.0), ("high", 9.0), ("middle", 5.0)];
    let svg = chart(ends.map(|(name, end)| line(name, &[(0.0, 0.0), (1.0, end)])).to_vec()).svg();
    let named = texts(&svg);
    let named = named.into_iter().filter(|text| ends.iter().any(|(name, _)| name == text));
    assert_eq!(named.collect::<Vec<_>>(), ["high", "middle", "low"]);
}

#[test]
fn rows_are_apart_inside_and_near_to_where_they_want_to_be() {
    assert_eq!(spread(&[10.0, 50.0, 90.0], 14.0, 0.0, 100.0), [10.0, 50.0, 90.0]);
    assert_eq!(spread(&[50.0, 50.0, 50.0], 10.0, 0.0, 100.0), [40.0, 50.0, 60.0]);
    assert_eq!(spread(&[100.0, 100.0], 10.0, 0.0, 100.0), [90.0, 100.0]);
    assert_eq!(spread(&[0.0, 0.0, 55.0], 10.0, 0.0, 100.0), [0.0, 10.0, 55.0]);
    assert!(spread(&[], 10.0, 0.0, 100.0).is_empty());
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let mut wanted: Vec<f64> = (0..random.below(14)).map(|_| random.unit() * 180.0).collect();
        wanted.sort_by(f64::total_cmp);
        let rows = spread(&wanted, 14.0, 0.0, 182.0);
        let apart = rows.windows(2).all(|pair| pair[1] - pair[0] >= 14.0 - 1e-9);
        let inside = rows.iter().all(|row| (-1e-9..182.0 + 1e-9).contains(row));
        assert!(apart && inside && rows.len() == wanted.len(), "seed {seed}: {rows:?}");
    }
}
