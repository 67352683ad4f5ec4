//! Gates that read scripted servers, and real ones.

mod aimd;
mod fake;
mod gateway;
mod prometheus;
mod promql;
mod redis;
mod scrape;
mod scrape_interval;

use flow::Span;
use flow::budget::Allowance;

use super::*;
use crate::gates::error::GateError;

/// A gate with this name and a short interval.
fn gate(name: &str, kind: GateKind, capacity: Capacity) -> GateSettings {
    GateSettings {
        name: name.into(),
        kind,
        baseline: 0.2,
        capacity,
        unit: Unit::Requests,
        interval: Duration::from_millis(20),
        stale_after: Some(Duration::from_secs(30)),
        hold: Duration::from_millis(50),
        implied: false,
    }
}

fn constant(name: &str, free: f64, capacity: f64) -> GateSettings {
    gate(name, constant_kind(free), Capacity::Fixed(capacity))
}

fn constant_kind(free: f64) -> GateKind {
    GateKind::Constant(ConstantGate { free })
}

fn redis_gate(url: &str, key: &str) -> RedisGate {
    RedisGate { url: url.into(), ca_file: None, key: key.into(), time_key: None, missing: None }
}

fn gateway_kind() -> GateKind {
    GateKind::Gateway(GatewayGate { rest: 1.0 })
}

fn opened(settings: &[GateSettings]) -> Result<Arc<Gates>, GateError> {
    let context = GateContext { local: None, clock: Clock::start(), client: Arc::default() };
    Gates::new(settings, &context)
}

/// Acquires a permit for a request of this many bytes.
fn acquire(gates: &Arc<Gates>, set: &GateSet, bytes: u64) -> Result<GatePermit, GateClosed> {
    gates.try_acquire(set, RequestSize { bytes, tokens: bytes.div_ceil(4) })
}

fn gates(settings: &[GateSettings]) -> Arc<Gates> {
    opened(settings).unwrap()
}

/// The set of all gates.
fn set(gates: &Gates) -> GateSet {
    let names: Vec<String> = gates.settings.iter().map(|settings| settings.name.clone()).collect();
    gates.named(&names).unwrap()
}

impl Gates {
    fn room(&self, set: &GateSet) -> u64 {
        self.rooms().of(set).unwrap_or(0)
    }
}

/// Permits for all requests that may be sent now.
fn take_all(gates: &Arc<Gates>) -> Vec<GatePermit> {
    let set = set(gates);
    std::iter::from_fn(|| acquire(gates, &set, 1).ok()).take(10_000).collect()
}

/// Polls the gates for as long as the handle lives.
fn polled(gates: &Arc<Gates>) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(Arc::clone(gates).poll());
    tasks
}

/// Waits until the status of the first gate is as expected.
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
    let page = |url: &str| {
        let says = MetricMeaning::default();
        let (url, metric) = (url.into(), "m".into());
        GateKind::Scrape(ScrapeGate { url, metric, labels: Vec::new(), says })
    };
    let redis = |url: &str| GateKind::Redis(redis_gate(url, "k"));
    let query =
        |url: &str| GateKind::PrometheusQuery(QueryGate { url: url.into(), query: "1".into() });
    let budget = |max_concurrency| {
        let (url, pool) = ("http://h".into(), "p".into());
        GateKind::PrometheusBudget(BudgetGate { url, pool, max_concurrency })
    };
    let aimd = |min, max| GateKind::Aimd(AimdGate { min, max });
    let fixed = || Capacity::Fixed(10.0);
    let each = || Capacity::PerServer { each: 10.0, ready: None };
    let bytes =
        GateSettings { unit: Unit::Bytes, ..gate("g", gateway_kind(), Capacity::FromSource) };
    let hasty =
        GateSettings { stale_after: Some(Duration::from_millis(1)), ..constant("g", 1.0, 1.0) };
    let wrong = [
        (gate("g", constant_kind(1.5), fixed()), "from 0 to 1"),
        (gate("g", constant_kind(f64::NAN), fixed()), "from 0 to 1"),
        (gate("g", constant_kind(1.0), Capacity::FromSource), "set it"),
        (gate("g", constant_kind(1.0), each()), "how many servers are ready"),
        (gate("g", constant_kind(1.0), Capacity::Fixed(0.0)), "more than 0"),
        (gate("g", constant_kind(1.0), Capacity::Fixed(f64::INFINITY)), "more than 0"),
        (GateSettings { baseline: 1.5, ..constant("g", 1.0, 1.0) }, "baseline is 1.5"),
        (hasty, "until the next one"),
        (bytes, "in the unit"),
        (gate("g", gateway_kind(), Capacity::FromSource), "no gateway in this process"),
        (gate("g", redis("http://h"), fixed()), "redis://host:port"),
        (gate("g", redis("redis://h"), Capacity::FromSource), "set it"),
        (gate("g", redis("redis://h"), each()), "how many servers are ready"),
        (gate("g", page("ftp://h/metrics"), fixed()), "http:// or https://"),
        (gate("g", page("h/metrics"), fixed()), "http://"),
        (gate("g", page("http://h/m"), Capacity::FromSource), "set it"),
        (gate("g", query("http://h?x=1"), fixed()), "no query"),
        (gate("g", query("http://h"), Capacity::FromSource), "set it"),
        (gate("g", budget(0.0), Capacity::FromSource), "more than 0"),
        (gate("g", aimd(0, 5), Capacity::FromSource), "min is 0"),
        (gate("g", aimd(9, 5), Capacity::FromSource), "max is 5"),
    ];
    for (settings, why) in wrong {
        let error = opened(&[constant("good", 1.0, 1.0), settings.clone()]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("gate \"g\": ") && error.contains(why),
            "{error} of {settings:?}"
        );
    }
    assert!(opened(&[gate("g", budget(100.0), Capacity::FromSource)]).is_ok());
}

#[test]
fn d02_an_unknown_gate_is_reported_with_the_known_gates() {
    let gates = gates(&[constant("one", 1.0, 1.0), constant("two", 1.0, 1.0)]);
    let error = gates.named(&["two".into(), "three".into()]).unwrap_err();
    assert_eq!(error.to_string(), "there is no gate \"three\"; there are: one, two");
    let twice = gates.named(&["two".into(), "one".into(), "two".into()]).unwrap();
    assert_eq!(twice, gates.named(&["one".into(), "two".into()]).unwrap());
    assert_eq!(gates.room(&gates.named(&[]).unwrap()), u64::MAX, "without a gate nothing bounds");
}

#[test]
fn d03_a_constant_bounds_the_requests_in_flight() {
    let gates = gates(&[constant("g", 0.7, 50.0)]);
    let set = set(&gates);
    assert_eq!(gates.room(&set), 25);
    let permits = take_all(&gates);
    assert_eq!((permits.len(), gates.room(&set)), (25, 0));
    let closed = acquire(&gates, &set, 1).unwrap_err();
    assert_eq!(closed.to_string(), "gate \"g\" is spent: the whole budget is in flight");
    drop(permits);
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
    assert_eq!(gates.room(&set), 1, "where sizes count, the number is unknown");
    let first = acquire(&gates, &set, 200).unwrap();
    let closed = acquire(&gates, &set, 101).unwrap_err();
    assert_eq!(closed.gate, "bytes", "300 were free and 200 are taken");
    let state = |gates: &Gates| -> Vec<(u64, u64)> {
        gates.status().iter().map(|gate| (gate.in_flight, gate.held)).collect()
    };
    assert_eq!(
        state(&gates),
        [(1, 1), (1, 50), (1, 200)],
        "nothing was taken from a part of the gates"
    );
    let second = acquire(&gates, &set, 0).unwrap();
    assert_eq!(state(&gates), [(2, 2), (2, 51), (2, 201)], "an empty request counts too");
    drop((first, second));
    assert_eq!(state(&gates), [(0, 0); 3]);
    let alone = acquire(&gates, &set, 1000).unwrap();
    assert_eq!(acquire(&gates, &set, 1).unwrap_err().gate, "tokens");
    drop(alone);
}

#[test]
fn d08_dispatchers_share_the_budget() {
    let gates = gates(&[constant("g", 1.0, 10.0)]);
    let set = set(&gates);
    let [shared] = &gates.groups(&[("q", &set), ("r", &set)])[..] else { panic!("one gate") };
    assert_eq!(shared.groups, ["g:q", "g:r"], "the number is for these queues");
    let parts = [0, 1, 2].map(|rank| {
        gates.share(shared, rank, 3);
        gates.room(&set)
    });
    assert_eq!(parts, [3, 3, 2]);
    assert!(gates.groups(&[]).is_empty(), "no queue of this dispatcher uses it");
}

#[tokio::test]
async fn d05_an_overload_closes_all_gates_of_the_set_until_the_hold_is_over() {
    let gates = gates(&[constant("a", 1.0, 10.0), constant("b", 1.0, 10.0)]);
    let _polling = polled(&gates);
    let (both, other) = (set(&gates), gates.named(&["b".into()]).unwrap());
    let permit = acquire(&gates, &gates.named(&["a".into()]).unwrap(), 1).unwrap();
    permit.congested(Some(Duration::from_millis(80)));
    let closed = acquire(&gates, &both, 1).unwrap_err();
    assert_eq!(closed.gate, "a");
    assert!(closed.why.starts_with("congested for 0."), "{closed}");
    assert_eq!(gates.room(&both), 0);
    assert_eq!(gates.room(&other), 8, "the request did not use the other gate");
    while gates.room(&both) == 0 {
        let changed = tokio::time::timeout(Duration::from_secs(30), gates.changed()).await;
        assert!(changed.is_ok(), "no notification at the end of the latch");
    }
    drop(permit);
}

#[tokio::test]
async fn d03_every_freed_place_notifies() {
    let gates = gates(&[constant("g", 1.0, 5.0)]);
    let set = set(&gates);
    let mut permits = take_all(&gates);
    assert_eq!(gates.room(&set), 0);
    drop(permits.pop());
    gates.changed().await;
    assert_eq!(gates.room(&set), 1);
}

#[test]
fn d02_a_gate_reports_its_status() {
    let gates = gates(&[
        constant("night", 0.7, 50.0),
        GateSettings { unit: Unit::Bytes, ..constant("closed", 0.1, 1e6) },
        gate("far", GateKind::Redis(redis_gate("redis://:pw@h/3", "k")), Capacity::Fixed(9.0)),
    ]);
    let _permit = acquire(&gates, &gates.named(&["night".into()]).unwrap(), 1).unwrap();
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
    let never = "closed: value 0.1 is not above the baseline 0.2: it never opens";
    assert_eq!(found[1]["state"], never);
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
    assert!(text.contains(&format!("\n    {never}\n    source: always 0.1\n")), "{text}");
    assert!(lines.iter().all(|line| line.trim_end().len() == line.len()), "{text}");
}

/// The text for every state of a budget.
#[test]
fn d06_every_state_has_a_text() {
    let gates = gates(&[constant("g", 1.0, 10.0)]);
    let words = |why| gates.states()[0].describe(&gates.settings[0], why);
    let long = Span::from_millis(31_250);
    assert_eq!(
        words(Allowance::Stale(long)),
        "stale: the reading is 31.2 s old, at most 30.0 s is allowed"
    );
    assert_eq!(words(Allowance::Congested(long)), "congested for 31.2 s more");
    assert_eq!(words(Allowance::Congested(Span::ZERO)), "congested until there is a newer reading");
    assert_eq!(words(Allowance::Invalid), "unreadable: the reading is not a number");
    assert_eq!(words(Allowance::NoShare), "closed: other dispatchers have the whole budget");
    assert_eq!(words(Allowance::Closed), "closed: no server is ready");
}
