//! Names that clients invent do not grow the text.

use flow::{BackendId, BackendSupply, Controller, ModelId, Settings, Time};

use super::{named, parsed, served, sum};
use crate::backend::Attempt;
use crate::observe::{MetricsFormat, Observer, ProcessStatus, RequestCounters};

fn series(observer: &Observer, models: &[&str]) -> std::collections::BTreeMap<String, f64> {
    let mut core = Controller::new(Settings::default());
    let named = named(&[], models);
    let snapshot = observer.snapshot(&mut core, Time::ZERO, &named);
    parsed(&observer.metrics(
        &snapshot,
        &named,
        &ProcessStatus::default(),
        MetricsFormat::default(),
    ))
}

#[test]
fn m01_invented_model_names_share_one_series() {
    let observer = Observer::default();
    observer.known(["chat"]);
    observer.ended(&served("chat", "chat"), &RequestCounters::default());
    observer.ended(&served("invented", "chat"), &RequestCounters::default());
    observer.ended(&served("chat", "invented"), &RequestCounters::default());
    observer.ended(&served("invented", "invented"), &RequestCounters::default());
    let before = series(&observer, &[]);
    for number in 0..10_000 {
        let name = format!("invented-{number}");
        observer.ended(&served(&name, "chat"), &RequestCounters::default());
        observer.ended(&served(&name, &name), &RequestCounters::default());
    }
    let after = series(&observer, &[]);
    assert_eq!(before.len(), after.len());
    assert_eq!(sum(&after, "tidegate_requests_total", &["{model=\"other\""]), 20_002.0);
    assert_eq!(sum(&after, "tidegate_requests_total", &[]), 20_004.0);
}

/// A server that lists ten thousand models is limited as well, and so are the pairs of its names.
#[test]
fn m01_listed_names_are_bounded_too() {
    let observer = Observer::default();
    let names: Vec<String> = (0..10_000).map(|number| format!("model-{number}")).collect();
    observer.known(names.iter().map(String::as_str));
    for name in &names {
        observer.ended(&served(name, name), &RequestCounters::default());
        observer.ended(&served(name, "model-0"), &RequestCounters::default());
    }
    let listed: Vec<&str> = names.iter().map(String::as_str).collect();
    let samples = series(&observer, &listed);
    let pages = samples.keys().filter(|series| series.starts_with("tidegate_bypass_total"));
    assert!(pages.count() <= 1000);
    let bounds = samples.keys().filter(|series| series.starts_with("tidegate_watermark"));
    assert!(bounds.count() <= 1000);
    assert_eq!(sum(&samples, "tidegate_requests_total", &[]), 20_000.0);
}

#[test]
fn a_name_that_is_too_long_is_no_label() {
    let observer = Observer::default();
    let long = "m".repeat(257);
    observer.known([long.as_str()]);
    observer.ended(&served(&long, &long), &RequestCounters::default());
    assert!(!series(&observer, &[]).keys().any(|series| series.contains("mmm")));
}

#[test]
fn a_name_that_is_learnt_late_counts_from_then_on() {
    let observer = Observer::default();
    observer.ended(&served("chat", "chat"), &RequestCounters::default());
    observer.known(["chat"]);
    observer.ended(&served("chat", "chat"), &RequestCounters::default());
    let samples = series(&observer, &[]);
    assert_eq!(sum(&samples, "tidegate_bypass_total", &["{model=\"chat\""]), 1.0);
    assert_eq!(sum(&samples, "tidegate_bypass_total", &["{model=\"other\""]), 1.0);
}

/// A request without a model, and a model with the name of a shared label.
#[test]
fn the_shared_labels_cannot_be_taken() {
    let observer = Observer::default();
    observer.known(["other", "-", ""]);
    for name in ["other", "-", "", "unknown"] {
        observer.ended(&served(name, name), &RequestCounters::default());
    }
    let samples = series(&observer, &["other", "-", ""]);
    assert_eq!(sum(&samples, "tidegate_bypass_total", &["{model=\"other\""]), 2.0);
    assert_eq!(sum(&samples, "tidegate_bypass_total", &["{model=\"-\""]), 2.0);
}

#[test]
fn backends_beyond_the_bound_are_summed_up() {
    let observer = Observer::default();
    let names: Vec<String> = (0..1200).map(|number| format!("pod-{number}")).collect();
    let listed: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in &listed {
        observer.attempt(name, Attempt::Failed, &mut RequestCounters::default());
    }
    let mut core = Controller::new(Settings::default());
    let supply = |id| BackendSupply::new(BackendId(id), vec![ModelId(0)]);
    core.supply(&(0..1200).map(supply).collect::<Vec<_>>(), Time::ZERO);
    let named = named(&listed, &["llama"]);
    let snapshot = observer.snapshot(&mut core, Time::ZERO, &named);
    let samples = parsed(&observer.metrics(
        &snapshot,
        &named,
        &ProcessStatus::default(),
        MetricsFormat::default(),
    ));
    let failed = ["result=\"failed\""];
    assert_eq!(sum(&samples, "tidegate_backend_attempts_total", &failed), 1200.0);
    assert_eq!(sum(&samples, "tidegate_backend_ready", &[]), 1200.0);
    let count = |family| samples.keys().filter(|series| series.starts_with(family)).count();
    assert!(count("tidegate_backend_ready{") <= 1001);
    assert!(count("tidegate_backend_in_flight{") <= 4 * 1001);
    assert!(count("tidegate_backend_attempts_total{") <= 4 * 1001);
}

/// A fleet whose members change names keeps the series of the present ones only.
#[test]
fn m03_the_series_of_a_backend_go_with_it() {
    let observer = Observer::default();
    let scrape = |present: &[&str]| {
        let mut core = Controller::new(Settings::default());
        let named = named(present, &["llama"]);
        let snapshot = observer.snapshot(&mut core, Time::ZERO, &named);
        parsed(&observer.metrics(
            &snapshot,
            &named,
            &ProcessStatus::default(),
            MetricsFormat::default(),
        ))
    };
    let serve = |backend: &str| {
        let mut counters = RequestCounters::default();
        observer.attempt(backend, Attempt::Answered, &mut counters);
        observer.ended(&served("llama", "llama"), &counters);
    };
    for number in 0..1100 {
        let pod = format!("pod-{number}");
        serve(&pod);
        let samples = scrape(&[pod.as_str()]);
        let of_backends = samples.keys().filter(|series| series.contains("backend=\""));
        assert!(of_backends.clone().all(|series| series.contains(&pod)), "{of_backends:?}");
        let count =
            format!("tidegate_backend_time_to_first_byte_seconds_count{{backend=\"{pod}\"}}");
        assert_eq!(samples[&count], 1.0, "{pod}");
    }
    // One that was away for a scrape goes on counting.
    serve("pod-1099");
    scrape(&[]);
    let samples = scrape(&["pod-1099"]);
    assert_eq!(sum(&samples, "tidegate_backend_attempts_total", &["answered"]), 2.0);
}
