//! Engines that come and go.

use super::*;

const MINUTE: Span = Span::from_secs(60);

/// Four engines with two places each, of which one is there at the start.
fn scaled(requests: Vec<Request>, signal: Option<ScaleSignal>) -> Setup {
    let scaling = Scaling {
        min: 1,
        max: 4,
        start_up: MINUTE,
        poll: Span::from_secs(15),
        cool_down: Span::from_secs(300),
    };
    let source = Source::new("all", requests.into_iter());
    let length = Span::from_secs(3600);
    let scaling = signal.map(|signal| (scaling, signal));
    Setup { scaling, ..Setup::new(vec![plain(2); 4], vec![source], length) }
}

/// Ten minutes of three times what one engine completes, then little for the rest of an hour. A
/// request takes two seconds, so one engine completes one a second.
fn rush() -> Vec<Request> {
    let rush = (0..1800).map(|count| count * 1000 / 3);
    let calm = (600..3600).step_by(10).map(|secs| secs * 1000);
    rush.chain(calm).map(|millis| request(millis, 1000, 1000)).collect()
}

fn hours(history: &History) -> f64 {
    history.engine_secs / 3600.0
}

/// How many engines were up at a minute of the run.
fn up_at(history: &History, minute: u64) -> usize {
    let at = Time::ZERO.after(Span::from_secs(60 * minute));
    let moment = history.series.moments.iter().rfind(|moment| moment.at <= at).unwrap();
    moment.engines.iter().filter(|engine| engine.up).count()
}

#[test]
fn engines_come_with_the_demand_and_go_after_the_cool_down() {
    let wanted = ScaleSignal::Wanted;
    for signal in [wanted, ScaleSignal::QueueSize(10.0), ScaleSignal::Utilization(0.7)] {
        let mut policy = ours(fixed(2.0));
        let history = run(scaled(rush(), Some(signal)), &mut policy);
        let served = history.records.iter().filter(|one| one.outcome == Outcome::Served).count();
        assert!(served > 1700, "{signal:?}: {served} of {}", history.records.len());
        let failed = history.records.iter().any(|one| one.outcome == Outcome::Failed);
        assert!(!failed, "{signal:?}: an engine that stops finishes what it has");
        assert_eq!(up_at(&history, 0), 1, "{signal:?}");
        let most = (1..=10).map(|minute| up_at(&history, minute)).max();
        assert!(most >= Some(3), "{signal:?}: {most:?}");
        // An empty queue says that there are too many engines, so its length alone goes up and
        // down.
        let holds = signal != wanted || up_at(&history, 9) >= 3;
        assert!(holds, "{}", up_at(&history, 9));
        assert_eq!(up_at(&history, 59), 1, "{signal:?}");
        assert!((1.2..2.5).contains(&hours(&history)), "{signal:?}: {}", hours(&history));
    }
}

#[test]
fn an_engine_that_starts_takes_no_request_and_is_paid_for() {
    let mut policy = ours(fixed(2.0));
    let history = run(scaled(rush(), Some(ScaleSignal::Wanted)), &mut policy);
    let others = history.records.iter().filter(|one| one.engine.is_some_and(|at| at > 0));
    let first = others.map(|one| one.sent).min().unwrap();
    // The first look is at 15 s, and an engine takes a minute.
    assert!(first >= Time::ZERO.after(Span::from_secs(75)), "{first:?}");
    let mut policy = ours(fixed(2.0));
    let all = run(scaled(rush(), None), &mut policy);
    assert_eq!(hours(&all), 4.0, "four engines for an hour");
    assert_eq!(up_at(&all, 0), 4);
}
