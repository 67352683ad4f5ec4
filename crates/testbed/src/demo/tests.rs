//! The demonstration, shortened, and how it is shown.

use std::time::Duration;

use super::screen::Screen;
use super::summary::{Comparison, Phase, Prologue};
use super::{DemoOptions, play, run, setup};
use crate::load::{Quantiles, Report, Summary, Waits};
use crate::progress::Progress;

fn options() -> DemoOptions {
    DemoOptions { length: Duration::from_secs(4), keep: false, seed: 1 }
}

fn summary(name: &str, half: Option<u64>) -> Summary {
    Summary {
        name: name.into(),
        sent: 123_456,
        ok: 100_000,
        failed: [].into(),
        unfinished: 23_456,
        bytes: 0,
        latency: Quantiles::default(),
        first_byte: Quantiles::default(),
        waits: Waits { half: half.map(Duration::from_millis), nine_tenths: None },
    }
}

fn report() -> Report {
    let classes = setup::TENANTS.iter().map(|tenant| summary(tenant.name, Some(1234)));
    Report { elapsed: Duration::from_secs(30), classes: classes.collect() }
}

/// Real engines, the real gateway, two seconds each: everyone is heard of in both acts.
#[test]
fn both_acts_run_and_every_request_through_tidegate_gets_a_response() {
    let mut log = Vec::new();
    let mut progress = Progress { out: &mut log, live: false };
    let (story, gateway, stage) = play(&options(), &mut progress).unwrap();
    gateway.shut_down();
    gateway.join();
    for act in [&story.without, &story.with] {
        assert!(act.joules > 0.0 && act.report.classes.iter().any(|class| class.ok > 0), "{act:?}");
    }
    let with = &story.with.report;
    let failed: u64 = with.classes.iter().flat_map(|class| class.failed.values()).sum();
    assert_eq!(failed, 0, "no request is refused: {with}");
    assert!(with.class("flood").unwrap().ok > 0, "{with}");
    let left = stage.engines.iter().map(|engine| engine.control().counters().in_flight);
    assert_eq!(left.sum::<u32>(), 0, "the engines are empty");

    let text = story.to_string();
    for tenant in &setup::TENANTS {
        assert!(text.contains(&format!("  {:10} {}", tenant.name, tenant.band)), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "it fits a terminal:\n{text}");
    let log = String::from_utf8(log).unwrap();
    assert!(log.starts_with("1 of 2") && log.contains("\n2 of 2"), "{log}");
}

#[test]
fn a_demonstration_that_shows_nothing_is_refused() {
    let short = DemoOptions { length: Duration::from_secs(39), ..options() };
    let progress = Progress { out: &mut Vec::new(), live: false };
    let error = run(&short, &mut Vec::new(), progress).unwrap_err();
    assert!(error.to_string().contains("at least 40 seconds"), "{error}");
}

#[test]
fn in_a_terminal_the_table_is_drawn_over_itself() {
    let mut drawn = Vec::new();
    let mut progress = Progress { out: &mut drawn, live: true };
    let engines = setup::engines(1).unwrap();
    let mut screen = Screen::new("1 of 2", Duration::from_secs(60), &mut progress);
    screen.show(&report(), &engines).unwrap();
    screen.show(&report(), &engines).unwrap();
    let drawn = String::from_utf8(drawn).unwrap();
    let lines = drawn.lines().count() / 2;
    let (first, second) = drawn.split_once(&format!("\x1b[{lines}A")).unwrap();
    assert_eq!(first, second, "the same again, over the first");
    assert!(first.contains("30 of 60 s") && first.contains("1.2 s /"), "{first}");
    let widest = first.replace("\x1b[2K", "").lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns:\n{first}");
}

#[test]
fn without_a_terminal_a_line_reports_the_progress() {
    let mut text = Vec::new();
    let mut progress = Progress { out: &mut text, live: false };
    let mut screen = Screen::new("1 of 2", Duration::from_secs(60), &mut progress);
    screen.show(&report(), &[]).unwrap();
    let expected = "1 of 2, 30 of 60 s: 500000 answered, 117280 waiting, quiet team waits 1.2 s\n";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[test]
fn a_team_without_a_response_is_marked() {
    for (ok, told) in [(0, "quiet team: no answer yet\n"), (3, "most have no answer yet\n")] {
        let mut text = Vec::new();
        let mut progress = Progress { out: &mut text, live: false };
        let mut screen = Screen::new("1 of 2", Duration::from_secs(60), &mut progress);
        let classes = vec![Summary { ok, ..summary("quiet", None) }];
        screen.show(&Report { classes, ..report() }, &[]).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with(told), "{text}");
    }
}

#[test]
fn the_story_boasts_of_nothing_that_did_not_happen() {
    let act = |half, ok| {
        let classes = vec![Summary { ok, ..summary("quiet", half) }];
        Phase { report: Report { classes, ..report() }, joules: 1.0 }
    };
    let told = |without, with| Comparison { without, with }.to_string();
    let better = told(act(None, 100), act(Some(300), 180));
    assert!(better.contains("wait at most 0.3 s;\nwithout Tidegate most of them"), "{better}");
    assert!(better.ends_with("The engines give 1.8 times as many answers.\n"), "{better}");
    let slower = told(act(Some(5000), 100), act(Some(300), 90));
    assert!(slower.contains("wait at most 0.3 s instead of 5.0 s."), "{slower}");
    assert!(!slower.contains("times as many"), "{slower}");
    assert!(slower.contains("The engines give 10% fewer answers."), "{slower}");
    let nothing = told(act(None, 100), act(None, 180));
    assert!(
        nothing.ends_with("too short to show a difference: try more --seconds.\n"),
        "{nothing}"
    );
    for text in [better, slower, nothing, Prologue(Duration::from_secs(3600)).to_string()] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
