//! The study itself: it repeats, finds the best watermark, counts as it says, and errs clearly.

use std::path::PathBuf;

use super::*;
use crate::auto::report::{Report, Row, Spread, summary};
use crate::auto::run::Figures;
use crate::auto::{Plan, auto, cores};

fn plan() -> Plan {
    Plan { quick: true, only: None, seeds: vec![SEED], traces: PathBuf::from("no/such/folder") }
}

#[test]
fn traces_that_are_not_there_are_named_with_the_way_out() {
    let error = format!("{:#}", auto(&plan(), &mut Vec::new()).unwrap_err());
    assert!(error.contains("no/such/folder/azure_llm_2023_conv.csv"), "{error}");
    assert!(error.contains("--traces"), "{error}");
}

#[test]
fn a_study_without_a_seed_is_refused() {
    let plan = Plan { seeds: Vec::new(), ..plan() };
    let error = auto(&plan, &mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "no seed is given: name at least one");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let known = known("rtx4090-8b", "chat");
    let run = known.run(LOAD, (10, 30));
    let told = || format!("{:?}", effort().means(std::slice::from_ref(&run)).unwrap());
    assert_eq!(told(), told());
}

#[test]
fn no_other_watermark_does_as_well_with_less() {
    let known = known("ollama-4", "chat");
    assert_eq!(known.knee.watermark, 4, "as many as it has slots");
    let known = super::known("rtx4090-8b", "essays");
    let knee = known.knee;
    let tokens = |watermark: u32| {
        let stock = Stock::Fixed(f64::from(watermark));
        let run = known.run(LOAD, effort().window).with(stock, SEED);
        run.figures().unwrap().tokens
    };
    assert_eq!(tokens(knee.watermark), knee.figures.tokens);
    assert!(knee.figures.tokens >= 0.97 * knee.most);
    for other in [8, 32, 45, 64, 128, 256, 512] {
        assert!(tokens(other) <= 1.01 * knee.most, "{other} gives more");
        let enough = other < knee.watermark && tokens(other) >= 0.97 * knee.most;
        assert!(!enough, "{other} is enough, {} is not needed", knee.watermark);
    }
}

#[test]
fn who_is_never_served_counts_with_its_age() {
    let known = known("ollama-4", "chat");
    // So slow that most critical requests never see a token.
    let run = known.run(20.0, (0, 60)).with(Stock::Fixed(1.0), SEED);
    let figures = run.figures().unwrap();
    assert!(figures.critical > 60.0, "{figures:?}");
}

#[test]
fn bounds_are_sampled() {
    let known = known("ollama-4", "chat");
    let figures = known.run(LOAD, (40, 80)).with(Stock::Auto, SEED).figures().unwrap();
    let [unstarted, tokens, slots] = figures.bound;
    assert!(slots > 0.9, "{figures:?}");
    assert!(unstarted + tokens + slots <= 1.0, "{figures:?}");
    assert!((3.0..=5.0).contains(&figures.in_flight), "{figures:?}");
}

#[test]
fn every_item_is_worked_on_once_and_errors_come_through() {
    let items: Vec<u32> = (0..100).collect();
    assert_eq!(cores::each(&items, |item| Ok(item * 2)).unwrap()[99], 198);
    let failed = cores::each(&items, |&item| match item {
        50 => Err(anyhow::anyhow!("fifty")),
        item => Ok(item),
    });
    assert_eq!(failed.unwrap_err().to_string(), "fifty");
}

fn row(case: &str, tokens: f64, critical: f64) -> Row {
    let best = Figures { tokens: 1000.0, critical: 2.0, ..Figures::default() };
    let ours = Figures { tokens, critical, ..Figures::default() };
    let knee = crate::auto::case::Knee { watermark: 32, figures: best, most: 1020.0 };
    let case = case.to_owned();
    Row { case, capacity: 5.0, knee, metrics: ours, blind: ours, constants: [ours; 2] }
}

#[test]
fn the_summary_counts_what_meets_both_goals_and_names_the_worst() {
    let rows = vec![row("good", 990.0, 1.0), row("late", 980.0, 3.0), row("low", 600.0, 2.0)];
    let summary = summary(&rows);
    let Spread { cases, met, tokens_min, ref tokens_min_case, .. } = summary[0].spread;
    assert_eq!((cases, met, tokens_min, tokens_min_case.as_str()), (3, 1, 0.6, "low"));
    assert_eq!(summary[0].spread.critical_max_case, "late");
    let report = Report {
        quick: false,
        seeds: vec![SEED],
        rows,
        summary,
        robust: Vec::new(),
        mixed: Vec::new(),
        ramps: Vec::new(),
    };
    let text = report.to_string();
    assert!(text.contains("| auto with metrics    |      0.600 |"), "{text}");
    assert!(text.contains("- auto without metrics: 0.60 on low"), "{text}");
    let value: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(value["rows"][1]["case"], "late");
}
