//! Closed loops in scenarios, and the figures that show how they fare.

use std::sync::Arc;

use flow::{Span, Time};

use super::{SMALL, error_with, first, small};
use crate::measure::{History, Outcome, Record};
use crate::scenario::{Cell, Figure, Measure, Point, Scenario, Scope, Traces};
use crate::trace::Trace;

const CLOSED: &str = "arrivals = \"closed\"\noutstanding = 6";

/// The small scenario with a closed loop.
fn closed(text: &str) -> Scenario {
    let open = "arrivals = \"poisson\"\nrate = 2.0";
    assert!(SMALL.contains(open));
    Scenario::parse(&SMALL.replace(open, text)).unwrap()
}

fn play(scenario: &Scenario, load: f64) -> History {
    scenario.run(&Traces::new(), Cell { load, ..first(scenario) }).unwrap()
}

/// The requests that are open just after the start.
fn at_once(history: &History) -> usize {
    let at = Time::from_millis(10);
    history.records.iter().filter(|record| record.arrival <= at && record.end > at).count()
}

#[test]
fn a_closed_loop_keeps_its_requests_outstanding() {
    let scenario = closed(CLOSED);
    let history = play(&scenario, 1.0);
    assert_eq!(at_once(&history), 6);
    assert!(history.records.len() > 20, "{}", history.records.len());
    assert_eq!(at_once(&play(&scenario, 2.5)), 15, "the load multiplies it");
    assert_eq!(play(&scenario, 1.0).records, history.records, "one seed, one history");
}

#[test]
fn clients_of_a_trace_that_stay_away_leave_their_places_to_the_others() {
    let text = SMALL
        .replace("prompt = 100\noutput = 20", "trace = \"t\"")
        .replace("tenant = \"one\"", "")
        .replace("arrivals = \"poisson\"\nrate = 2.0", CLOSED);
    let trace = "arrived_at_s,client,prompt_tokens,output_tokens\n0,a,9,9\n1,b,9,9\n";
    let traces = Traces::from([("t".to_owned(), Arc::new(Trace::parse(trace).unwrap()))]);
    for (without, expected) in [("[\"b\"]", 6), ("[\"a\", \"b\"]", 0)] {
        let text = text.replace("watermark = 4", &format!("watermark = 4\nwithout = {without}"));
        let scenario = Scenario::parse(&text).unwrap();
        let history = scenario.run(&traces, first(&scenario)).unwrap();
        assert_eq!(at_once(&history), expected, "{without}");
    }
}

#[test]
fn what_is_wrong_with_a_closed_loop_is_named() {
    let wrong = [
        ("arrivals = \"closed\"", "traffic[0].outstanding: give a number of requests"),
        ("arrivals = \"closed\"\noutstanding = 0", "traffic[0].outstanding: give a number"),
        ("arrivals = \"closed\"\noutstanding = 5\nrate = 1.0", "traffic[0].rate: closed arrivals"),
        ("arrivals = \"closed\"\noutstanding = 5\npause = \"1ms\"", "traffic[0].pause: must be"),
        ("arrivals = \"closed\"\noutstanding = 5\npatience = \"0s\"", "traffic[0].patience: must"),
        ("arrivals = \"closed\"\noutstanding = 90000\npause = \"10ms\"", "duration: 270000000"),
        (
            "arrivals = \"poisson\"\nrate = 2.0\nthink = \"1s\"",
            "traffic[0].think: poisson arrivals",
        ),
    ];
    for (text, message) in wrong {
        let error = error_with("arrivals = \"poisson\"\nrate = 2.0", text);
        assert!(error.starts_with(message), "{text}: {error}");
    }
}

/// Two requests in time, one late, one served too slowly, and one refused.
fn five() -> (Scenario, History) {
    let scenario = small();
    let mut history = scenario.run(&Traces::new(), first(&scenario)).unwrap();
    let kept = |record: &Record| record.outcome == Outcome::Served && record.streamed == 20;
    history.records.retain(kept);
    history.records.truncate(5);
    for (at, record) in history.records.iter_mut().enumerate() {
        let wait = [1000, 2000, 4000, 500, 0][at];
        record.first = record.arrival.after(Span::from_millis(wait));
        record.end = record.first.after(Span::from_millis(if at == 3 { 1901 } else { 1900 }));
    }
    history.records[4].outcome = Outcome::Refused(crate::policy::RefusalReason::Full);
    history.records[4].streamed = 0;
    (scenario, history)
}

#[test]
fn goodput_is_a_rate_and_a_share_of_what_was_served() {
    let (scenario, history) = five();
    let value = |name: &str| {
        let measure = Measure::parse("figure".to_owned(), name).unwrap();
        Figure::of_all(measure).value(&history, &scenario.slo).unwrap()
    };
    let secs = history.window.secs();
    assert_eq!(value("goodput"), 2.0 / secs);
    assert_eq!(value("goodput-share"), 2.0 / 4.0);
    assert_eq!(value("within.2s"), 3.0 / secs, "the pace does not count");
    assert_eq!(value("within.30s"), 4.0 / secs);
    assert_eq!(value("within.900ms"), 1.0 / secs);
    assert_eq!(value("ttft.max"), 4.0);
}

#[test]
fn goodput_is_that_of_a_tenant_and_of_a_band() {
    let (scenario, mut history) = five();
    history.tenants.push(crate::policy::Tenant { name: "two".to_owned(), weight: 1.0 });
    history.records[0].tenant = 1;
    history.records[2].band = flow::Band::Critical;
    let share = |tenant: Option<&str>, band| {
        let scope = Scope { tenant: tenant.map(str::to_owned), band, ..Scope::default() };
        Figure { measure: Measure::GoodputShare, scope }.value(&history, &scenario.slo)
    };
    assert_eq!(share(Some("two"), None), Some(1.0));
    assert_eq!(share(Some("one"), None), Some(1.0 / 3.0));
    assert_eq!(share(None, Some(flow::Band::Critical)), Some(0.0));
    assert_eq!(share(None, Some(flow::Band::High)), None, "none was served there");
}

#[test]
fn an_expectation_may_divide_by_another_figure() {
    let expects = "[[expect]]\nfigure = \"goodput\"\nover = \"fifo 4\"\n\
        over_figure = \"requests\"\nmin = 0.5\n";
    let scenario = Scenario::parse(&format!("{SMALL}\n{expects}")).unwrap();
    let cell = first(&scenario);
    let history = scenario.run(&Traces::new(), cell).unwrap();
    let verdicts = scenario.verdicts(&[scenario.sample(cell, &history)]);
    let value = |measure| Figure::of_all(measure).value(&history, &scenario.slo).unwrap();
    let [verdict] = &verdicts[..] else { panic!("{verdicts:?}") };
    let words = "goodput under fifo 4 over requests under fifo 4 is at least 0.5";
    assert_eq!(verdict.expected, words, "its own policy, because the figures differ");
    let expected = value(Measure::Goodput) / value(Measure::Requests);
    assert_eq!(verdict.value, Some(expected));
    let alone = format!("{SMALL}\n{}", expects.replace("over = \"fifo 4\"\n", ""));
    let error = Scenario::parse(&alone).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "expect[0].over_figure: needs `over`");
}

#[test]
fn the_worst_is_a_point_of_every_distribution() {
    for (name, measure) in [
        ("ttft.max", Measure::Ttft(Point::Max)),
        ("wait.max", Measure::Wait(Point::Max)),
        ("within.1.5s", Measure::Within(Span::from_millis(1500))),
        ("goodput-share", Measure::GoodputShare),
    ] {
        assert_eq!(Measure::parse("figure".to_owned(), name), Ok(measure));
        assert_eq!(Figure::of_all(measure).to_string(), name);
    }
    for wrong in ["within", "within.", "within.2", "within.2s.p50"] {
        assert!(Measure::parse("figure".to_owned(), wrong).is_err(), "{wrong}");
    }
}
