//! The gates against servers that say what they are told to say, and against real ones.

mod aimd;
mod fake;
mod local_load;
mod prometheus;
mod promql;
mod redis;
mod scrape;

use std::sync::Arc;
use std::time::Duration;

use flow::Span;
use flow::budget::Allowance;

use super::{GatePermit, GateSet, GateStatus, Gates};
use crate::clock::Clock;
use crate::config::resolved::dispatch::{Gate as GateSettings, GateKind, System, Unit};

/// A gate with this name that is read soon.
fn spec(name: &str, kind: GateKind, system: System) -> GateSettings {
    GateSettings {
        name: name.into(),
        kind,
        baseline: 0.2,
        system,
        unit: Unit::Requests,
        interval: Duration::from_millis(20),
        stale_after: Duration::from_secs(30),
        hold: Duration::from_millis(50),
    }
}

fn constant(name: &str, free: f64, system: f64) -> GateSettings {
    spec(name, GateKind::Constant(free), System::Fixed(system))
}

fn made(settings: &[GateSettings]) -> Result<Arc<Gates>, String> {
    Gates::new(settings, None, Clock::start(), Arc::default())
}

fn gates(settings: &[GateSettings]) -> Arc<Gates> {
    made(settings).unwrap()
}

/// The way through all of them.
fn set(gates: &Gates) -> GateSet {
    let names: Vec<String> = gates.settings.iter().map(|settings| settings.name.clone()).collect();
    gates.named(&names).unwrap()
}

/// All that may go now.
fn take_all(gates: &Arc<Gates>) -> Vec<GatePermit> {
    let set = set(gates);
    std::iter::from_fn(|| gates.take(&set, 1).ok()).take(10_000).collect()
}

/// Watches for as long as the handle lives.
fn watched(gates: &Arc<Gates>) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(Arc::clone(gates).watch());
    tasks
}

/// Looks at the only gate again and again until it is as wanted.
async fn until(
    gates: &Gates,
    what: &str,
    mut is_so: impl FnMut(&GateStatus) -> bool,
) -> GateStatus {
    let wait = async {
        loop {
            let now = gates.status().remove(0);
            if is_so(&now) {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.unwrap_or_else(|_| panic!("never {what}: {:?}", gates.status()))
}

#[test]
fn d02_gates_that_cannot_work_are_errors_at_the_start() {
    let page = |url: &str| GateKind::Scrape {
        url: url.into(),
        metric: "m".into(),
        labels: Vec::new(),
        says: Default::default(),
    };
    let redis = |url: &str| GateKind::RedisKey { url: url.into(), key: "k".into() };
    let query = |url: &str| GateKind::PrometheusQuery { url: url.into(), query: "1".into() };
    let budget = |each| GateKind::PrometheusBudget {
        url: "http://h".into(),
        pool: "p".into(),
        max_concurrency: each,
    };
    let fixed = || System::Fixed(10.0);
    let each = || System::PerServer { each: 10.0, ready: None };
    let bytes = GateSettings {
        unit: Unit::Bytes,
        ..spec("g", GateKind::Gateway { rest: 1.0 }, System::Known)
    };
    let hasty = GateSettings { stale_after: Duration::from_millis(1), ..constant("g", 1.0, 1.0) };
    let wrong = [
        (spec("g", GateKind::Constant(1.5), fixed()), "from 0 to 1"),
        (spec("g", GateKind::Constant(f64::NAN), fixed()), "from 0 to 1"),
        (spec("g", GateKind::Constant(1.0), System::Known), "say so"),
        (spec("g", GateKind::Constant(1.0), each()), "how many servers are ready"),
        (spec("g", GateKind::Constant(1.0), System::Fixed(0.0)), "more than 0"),
        (spec("g", GateKind::Constant(1.0), System::Fixed(f64::INFINITY)), "more than 0"),
        (GateSettings { baseline: 1.0, ..constant("g", 1.0, 1.0) }, "baseline is 1"),
        (hasty, "to the next one"),
        (bytes, "in the unit"),
        (spec("g", GateKind::Gateway { rest: 1.0 }, System::Known), "no gateway in this process"),
        (spec("g", redis("http://h"), fixed()), "redis://host:port"),
        (spec("g", redis("redis://h"), System::Known), "say so"),
        (spec("g", redis("redis://h"), each()), "how many servers are ready"),
        (spec("g", page("https://h/metrics"), fixed()), "only http"),
        (spec("g", page("h/metrics"), fixed()), "http://"),
        (spec("g", page("http://h/m"), System::Known), "say so"),
        (spec("g", query("http://h?x=1"), fixed()), "no query"),
        (spec("g", query("http://h"), System::Known), "say so"),
        (spec("g", budget(0.0), System::Known), "more than 0"),
        (spec("g", GateKind::Aimd { min: 0, max: 5 }, System::Known), "min is 0"),
        (spec("g", GateKind::Aimd { min: 9, max: 5 }, System::Known), "max is 5"),
    ];
    for (settings, why) in wrong {
        let error = made(&[constant("good", 1.0, 1.0), settings.clone()]).unwrap_err();
        assert!(
            error.starts_with("gate \"g\": ") && error.contains(why),
            "{error} of {settings:?}"
        );
    }
    assert!(made(&[spec("g", budget(100.0), System::Known)]).is_ok());
}

#[test]
fn d02_an_unknown_gate_is_named_with_those_that_there_are() {
    let gates = gates(&[constant("one", 1.0, 1.0), constant("two", 1.0, 1.0)]);
    let error = gates.named(&["two".into(), "three".into()]).unwrap_err();
    assert_eq!(error, "there is no gate \"three\"; there are: one, two");
    let twice = gates.named(&["two".into(), "one".into(), "two".into()]);
    assert_eq!(twice, gates.named(&["one".into(), "two".into()]));
    assert_eq!(gates.room(&gates.named(&[]).unwrap()), u64::MAX, "without a gate nothing bounds");
}

#[test]
fn d03_a_constant_bounds_what_is_under_way() {
    let gates = gates(&[constant("g", 0.7, 50.0)]);
    let set = set(&gates);
    assert_eq!(gates.room(&set), 25);
    let passes = take_all(&gates);
    assert_eq!((passes.len(), gates.room(&set)), (25, 0));
    let closed = gates.take(&set, 1).unwrap_err();
    assert_eq!(closed.to_string(), "gate \"g\" is spent: all that may go is under way");
    drop(passes);
    assert_eq!(gates.room(&set), 25);
}

/// A request takes from all of its gates or from none, each in its own unit.
#[test]
fn d02_d04_gates_compose_and_count_in_their_units() {
    let tokens =
        GateSettings { unit: Unit::Tokens, baseline: 0.0, ..constant("tokens", 1.0, 100.0) };
    let bytes = GateSettings { unit: Unit::Bytes, baseline: 0.0, ..constant("bytes", 1.0, 300.0) };
    let gates = gates(&[constant("requests", 1.0, 5.0), tokens, bytes]);
    let set = set(&gates);
    assert_eq!(gates.room(&set), 1, "where sizes count nobody knows how many");
    let first = gates.take(&set, 200).unwrap();
    let closed = gates.take(&set, 101).unwrap_err();
    assert_eq!(closed.gate, "bytes", "300 were free and 200 are taken");
    let state = |gates: &Gates| -> Vec<(u64, u64)> {
        gates.status().iter().map(|gate| (gate.in_flight, gate.held)).collect()
    };
    assert_eq!(state(&gates), [(1, 1), (1, 50), (1, 200)], "and nothing was taken in part");
    let second = gates.take(&set, 0).unwrap();
    assert_eq!(state(&gates), [(2, 2), (2, 51), (2, 201)], "nothing is for nothing");
    drop((first, second));
    assert_eq!(state(&gates), [(0, 0); 3]);
    let alone = gates.take(&set, 1000).unwrap();
    assert_eq!(gates.take(&set, 1).unwrap_err().gate, "tokens");
    drop(alone);
}

#[test]
fn d08_dispatchers_share_what_may_go() {
    let gates = gates(&[constant("g", 1.0, 10.0)]);
    let set = set(&gates);
    let parts = [0, 1, 2].map(|rank| {
        gates.share(rank, 3);
        gates.room(&set)
    });
    assert_eq!(parts, [3, 3, 2]);
}

#[tokio::test]
async fn d05_a_refusal_closes_all_gates_of_the_way_until_the_hold_is_over() {
    let gates = gates(&[constant("a", 1.0, 10.0), constant("b", 1.0, 10.0)]);
    let _watching = watched(&gates);
    let (both, other) = (set(&gates), gates.named(&["b".into()]).unwrap());
    let pass = gates.take(&gates.named(&["a".into()]).unwrap(), 1).unwrap();
    pass.congested(Some(Duration::from_millis(80)));
    let closed = gates.take(&both, 1).unwrap_err();
    assert_eq!(closed.gate, "a");
    assert!(closed.why.starts_with("congested for 0."), "{closed}");
    assert_eq!(gates.room(&both), 0);
    assert_eq!(gates.room(&other), 8, "the other was not asked for that request");
    while gates.room(&both) == 0 {
        let told = tokio::time::timeout(Duration::from_secs(30), gates.changed()).await;
        assert!(told.is_ok(), "the end of the latch was not told");
    }
    drop(pass);
}

#[tokio::test]
async fn d03_whoever_waits_hears_of_every_place_that_is_free_again() {
    let gates = gates(&[constant("g", 1.0, 5.0)]);
    let set = set(&gates);
    let mut passes = take_all(&gates);
    assert_eq!(gates.room(&set), 0);
    drop(passes.pop());
    gates.changed().await;
    assert_eq!(gates.room(&set), 1);
}

#[test]
fn d02_a_gate_explains_itself() {
    let gates = gates(&[
        constant("night", 0.7, 50.0),
        GateSettings { unit: Unit::Bytes, ..constant("closed", 0.1, 1e6) },
        spec(
            "far",
            GateKind::RedisKey { url: "redis://:pw@h/3".into(), key: "k".into() },
            System::Fixed(9.0),
        ),
    ]);
    let _pass = gates.take(&gates.named(&["night".into()]).unwrap(), 1).unwrap();
    let found = serde_json::to_value(gates.status()).unwrap();
    let night = &found[0];
    for (key, value) in
        [("name", "night"), ("kind", "constant"), ("source", "always 0.7"), ("state", "open")]
    {
        assert_eq!(night[key], value);
    }
    for (key, value) in [("n", 25), ("taken", 1), ("in_flight", 1), ("left", 24)] {
        assert_eq!(night[key], value, "{key}");
    }
    for (key, value) in [
        ("value", 0.7),
        ("threshold", 0.2),
        ("saturation", 0.3),
        ("system", 50.0),
        ("closes_at", 40.0),
    ] {
        assert!((night[key].as_f64().unwrap() - value).abs() < 1e-9, "{key}: {night}");
    }
    assert_eq!(found[1]["state"], "closed: 0.90 full, opens below 0.80");
    assert_eq!(found[1]["unit"], "bytes");
    assert_eq!(found[2]["state"], "not read yet");
    assert_eq!(found[2]["source"], "\"k\" in Redis at h:6379", "without its password");
    assert_eq!(found[2]["value"], serde_json::Value::Null);

    let text = GateStatus::table(&gates.status());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("GATE"), "{text}");
    let row: Vec<&str> = lines[1].split_whitespace().collect();
    let row: Vec<&str> = row[..10].to_vec();
    let numbers = ["0.70", "0.20", "0.30", "40", "50", "requests", "25", "1"];
    assert_eq!(row, [&["night", "constant"], &numbers[..]].concat(), "{text}");
    assert!(
        text.contains("\n    closed: 0.90 full, opens below 0.80\n    looks at always 0.1\n"),
        "{text}"
    );
    assert!(lines.iter().all(|line| line.trim_end().len() == line.len()), "{text}");
}

/// What is said of every state that a budget can be in.
#[test]
fn d06_every_state_has_words() {
    let gates = gates(&[constant("g", 1.0, 10.0)]);
    let words = |why| gates.states()[0].describe(&gates.settings[0], why);
    let long = Span::from_millis(31_250);
    assert_eq!(
        words(Allowance::Stale(long)),
        "stale: what was read is 31.2 s old, 30.0 s is the most"
    );
    assert_eq!(words(Allowance::Congested(long)), "congested for 31.2 s more");
    assert_eq!(words(Allowance::Congested(Span::ZERO)), "congested until there is a newer reading");
    assert_eq!(words(Allowance::Invalid), "unreadable: what was read is not a number");
    assert_eq!(words(Allowance::NoShare), "closed: what may go is with other dispatchers");
    assert_eq!(words(Allowance::Closed), "closed: no server is ready");
}
