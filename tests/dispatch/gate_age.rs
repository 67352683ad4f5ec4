//! The age of readings: old numbers close a gate, and after an overload only a number that was made
//! later opens it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::fixture::{Dispatcher, QUICK, await_results, config, count, results, submit, unix};
use crate::support::{Backend, Prometheus, Redis, ScriptedResponse, eventually};

/// The key of the Redis gates.
const KEY: &str = "dispatch-gate-budget";

/// A metrics page whose samples have a time of their own, as some exporters write them.
struct DatedPage {
    millis: Arc<AtomicU64>,
    server: Backend,
}

// === impl DatedPage ===

impl DatedPage {
    /// A page with the sample `free 0.9`, made at this time.
    fn start(millis: u64) -> Self {
        let millis = Arc::new(AtomicU64::new(millis));
        let shown = Arc::clone(&millis);
        let server = Backend::start(move |_| {
            let line = format!("free 0.9 {}\n", shown.load(Ordering::Relaxed));
            let kind = "content-type: text/plain; version=0.0.4";
            ScriptedResponse::with_headers(200, &[kind], &line)
        });
        Self { millis, server }
    }

    /// Dates the sample anew.
    fn renew(&self) {
        self.millis.store(unix_millis(), Ordering::Relaxed);
    }

    /// A Prometheus that scrapes it. Its path is no probe, which the server would answer itself.
    fn scraped(&self) -> Prometheus {
        Prometheus::scraping(&[(self.server.address(), &[("__metrics_path__", "/page")])])
    }
}

fn unix_millis() -> u64 {
    UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}

/// A gate with these keys, without a reserve and with a short hold.
fn gate(keys: &str) -> String {
    format!(
        "{QUICK}[[dispatch.gates]]\nname = \"seen\"\nbaseline = 0.0\ncapacity = 10\n\
         interval = \"50ms\"\nhold = \"10ms\"\n{keys}\n"
    )
}

/// The gate of these tests on `/dispatch`.
fn seen(dispatcher: &Dispatcher) -> Value {
    let page = dispatcher.page("/dispatch").json();
    let gates = page["gates"].as_array().unwrap().clone();
    gates.into_iter().find(|gate| gate["name"] == "seen").unwrap()
}

/// Waits until the gate says this.
fn await_state(dispatcher: &Dispatcher, words: &str) {
    eventually(words, || match seen(dispatcher) {
        gate if gate["state"].as_str().unwrap().contains(words) => Ok(()),
        gate => Err(gate.to_string()),
    });
}

/// A target that refuses the first request, and accepts all others.
fn full_once() -> Backend {
    Backend::start(|seen| match seen.number {
        0 => ScriptedResponse::json(429, "{}"),
        _ => ScriptedResponse::ok(),
    })
}

/// Asserts that the gate stays closed after an overload until `renew` makes a new number.
fn assert_waits_for_a_later_number(keys: &str, redis: &Redis, renew: impl Fn()) {
    let target = full_once();
    let keys = format!("{keys}stale_after = \"10m\"\n");
    let dispatcher = Dispatcher::start(&config(&gate(&keys), "\"seen\"", redis, target.address()));
    submit(redis, "patient", unix() + 600);
    target.await_seen(1);
    let age = || seen(&dispatcher)["age_seconds"].as_f64().unwrap_or_default();
    let before = age();
    // The number is read many times meanwhile, and grows old.
    eventually("an older number", || {
        assert_eq!(target.seen().len(), 1, "sent again by a number from before the overload");
        if age() >= before + 2.0 { Ok(()) } else { Err(age().to_string()) }
    });
    await_state(&dispatcher, "congested until there is a newer reading");
    renew();
    assert_eq!(await_results(redis, 1)[0]["status_code"], 200);
}

/// Prometheus evaluates an expression over a range long after the last sample.
#[test]
fn d06_an_expression_over_a_range_is_as_old_as_its_samples() {
    let (redis, target) = (Redis::start(), Backend::quick());
    let page = DatedPage::start(unix_millis() - 13_000);
    let prometheus = page.scraped();
    eventually("scraped", || match prometheus.query("free")[..] {
        [free] => Ok(free),
        _ => Err("no sample".into()),
    });
    let keys = format!(
        "kind = \"prometheus-query\"\nurl = \"{}\"\nquery = \"avg_over_time(free[5m])\"\n\
         stale_after = \"5s\"\n",
        prometheus.url()
    );
    let dispatcher = Dispatcher::start(&config(&gate(&keys), "\"seen\"", &redis, target.address()));
    submit(&redis, "one", unix() + 600);
    await_state(&dispatcher, "unreadable: the last sample of free is ");
    assert_eq!((target.seen().len(), count(&redis)), (0, 1), "nothing is sent by old data");
    page.renew();
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
    let age = seen(&dispatcher)["age_seconds"].as_f64().unwrap();
    assert!(age > 0.0, "the age of the sample, not of the query: {age}");
}

/// Samples as a Prometheus has them that scrapes every 15 s: they are up to 15 s old, and then one
/// comes anew. The times of the samples are those of the page, so that the test need not wait.
#[test]
fn d06_a_prometheus_that_scrapes_seldom_keeps_its_gate_open() {
    let (redis, target) = (Redis::start(), Backend::quick());
    let page = DatedPage::start(unix_millis() - 74_000);
    let prometheus = page.scraped();
    let query = "kind = \"prometheus-query\"\nquery = \"free\"\n";
    let keys = format!("{query}url = \"{}\"\n", prometheus.url());
    let dispatcher = Dispatcher::start(&config(&gate(&keys), "\"seen\"", &redis, target.address()));
    for (round, age) in [74, 59, 44, 29, 14].into_iter().enumerate() {
        page.millis.fetch_max(unix_millis() - age * 1000, Ordering::Relaxed);
        // The sample is `age` old when it comes, and a few seconds older at most.
        eventually("a newer sample", || match seen(&dispatcher) {
            gate if gate["age_seconds"].as_f64().is_some_and(|seen| seen < age as f64 + 10.0) => {
                Ok(())
            }
            gate => Err(gate.to_string()),
        });
        submit(&redis, &format!("sent-{round}"), unix() + 600);
        await_results(&redis, round + 1);
    }
    let open = seen(&dispatcher);
    assert_eq!(open["state"], "open", "{open}");
}

/// A target that repeats an old sample has missed its scrapes.
#[test]
fn d06_a_sample_of_a_prometheus_that_has_missed_a_few_scrapes_closes_its_gate() {
    let (redis, target) = (Redis::start(), Backend::quick());
    let page = DatedPage::start(unix_millis() - 2000);
    let prometheus = page.scraped();
    let query = "kind = \"prometheus-query\"\nquery = \"free\"\n";
    let keys = format!("{query}url = \"{}\"\n", prometheus.url());
    let dispatcher = Dispatcher::start(&config(&gate(&keys), "\"seen\"", &redis, target.address()));
    await_state(&dispatcher, "open");
    // The page is dated anew for each of five scrapes, and then no more.
    let (mut last, mut count) = (0.0, 0);
    eventually("five newer samples", || {
        page.renew();
        let age = seen(&dispatcher)["age_seconds"].as_f64().ok_or("not read")?;
        let taken = unix_millis() as f64 / 1000.0 - age;
        if taken > last + 0.5 {
            (last, count) = (taken, count + 1);
        }
        if count > 5 { Ok(()) } else { Err(format!("{count} samples")) }
    });
    await_state(&dispatcher, "unreadable: the last sample of free is ");
    submit(&redis, "one", unix() + 600);
    page.renew();
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
}

#[test]
fn d05_after_an_overload_an_expression_needs_a_sample_that_was_made_later() {
    let (redis, page) = (Redis::start(), DatedPage::start(unix_millis()));
    let prometheus = page.scraped();
    let keys = format!(
        "kind = \"prometheus-query\"\nurl = \"{}\"\nquery = \"max_over_time(free[5m])\"\n",
        prometheus.url()
    );
    assert_waits_for_a_later_number(&keys, &redis, || page.renew());
}

/// The time of a line on a metrics page, by the clock of its server.
#[test]
fn d05_after_an_overload_a_page_needs_a_line_that_was_made_later() {
    let (redis, page) = (Redis::start(), DatedPage::start(unix_millis()));
    let keys = format!(
        "kind = \"scrape\"\nurl = \"http://{}/page\"\nmetric = \"free\"\nsays = \"budget\"\n",
        page.server.address()
    );
    assert_waits_for_a_later_number(&keys, &redis, || page.renew());
}

#[test]
fn d05_after_an_overload_a_number_in_redis_needs_a_later_time() {
    let redis = Redis::start();
    let set = || {
        let number = format!("1.0 {:.3}", unix_millis() as f64 / 1000.0);
        redis.call(&["SET", KEY, &number]);
    };
    set();
    let keys = format!("kind = \"redis\"\nurl = \"{}\"\n", redis.url());
    assert_waits_for_a_later_number(&keys, &redis, set);
}

/// The time is in a key of its own, for programs that need the number alone.
#[test]
fn d06_a_number_in_redis_is_as_old_as_its_time() {
    let (redis, target) = (Redis::start(), Backend::quick());
    redis.call(&["MSET", KEY, "1.0", "budget-time", &(unix() - 13).to_string()]);
    let keys = format!("kind = \"redis\"\nurl = \"{}\"\ntime_key = \"budget-time\"\n", redis.url());
    let dispatcher = Dispatcher::start(&config(&gate(&keys), "\"seen\"", &redis, target.address()));
    submit(&redis, "one", unix() + 600);
    await_state(&dispatcher, "unreadable: the last sample of dispatch-gate-budget is 1");
    assert!(results(&redis).is_empty() && target.seen().is_empty());
    redis.call(&["SET", "budget-time", &unix().to_string()]);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
    redis.call(&["DEL", "budget-time"]);
    await_state(&dispatcher, "unreadable: the key \"budget-time\" does not exist");
}

/// Operators set such numbers by hand, and llm-d-async reads them so.
#[test]
fn d02_a_number_in_redis_without_a_time_has_no_age() {
    let (redis, target) = (Redis::start(), Backend::quick());
    redis.call(&["SET", KEY, "1.0"]);
    let keys = format!("kind = \"redis\"\nurl = \"{}\"\n", redis.url());
    let dispatcher = Dispatcher::start(&config(&gate(&keys), "\"seen\"", &redis, target.address()));
    submit(&redis, "one", unix() + 600);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
    let gate = seen(&dispatcher);
    assert!(gate["age_seconds"].is_null(), "no age is claimed: {gate}");
}
