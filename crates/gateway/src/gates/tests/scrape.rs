//! The kind `scrape`.

use proptest::prelude::*;

use super::fake::{Fake, Reply, page};
use super::*;
use crate::gates::error::ReadError;
use crate::gates::kinds::scrape::split;

const PAGE: &str = "# HELP full How full.\n# TYPE full gauge\n\
    full{server=\"a\",pool=\"x\"} 0.2\nfull{server=\"b\",pool=\"x\"} 0.6\nfull{pool=\"y\"} 0.9\n\
    fuller 1\nbusy{server=\"a\"} 30\nbusy{server=\"b\"} 10 1700000000000\n\
    llm_d_epp_ready_endpoints{name=\"x\"} 2\n";

fn wanted(metric: &str, labels: &[(&str, &str)], says: MetricMeaning) -> ScrapeGate {
    let labels = labels.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    ScrapeGate { url: String::new(), metric: metric.into(), labels, says }
}

fn close(found: Result<(f64, f64), ReadError>, free: f64, capacity: f64) {
    let (is_free, is_capacity) = found.unwrap();
    assert!((is_free - free).abs() < 1e-9, "{is_free} is free, not {free}");
    assert_eq!(is_capacity, capacity);
}

#[test]
fn d02_shares_are_averaged_and_counts_added_up() {
    let page = PAGE.as_bytes();
    let fixed = Capacity::Fixed(80.0);
    close(
        wanted("full", &[("pool", "x")], MetricMeaning::Saturation).evaluate(page, &fixed),
        0.6,
        80.0,
    );
    close(
        wanted("full", &[("pool", "y")], MetricMeaning::Budget).evaluate(page, &fixed),
        0.9,
        80.0,
    );
    close(wanted("busy", &[], MetricMeaning::Count).evaluate(page, &fixed), 0.5, 80.0);
    close(wanted("fuller", &[], MetricMeaning::Saturation).evaluate(page, &fixed), 0.0, 80.0);
}

#[test]
fn d03_the_capacity_may_follow_from_the_page() {
    let page = PAGE.as_bytes();
    let busy = wanted("busy", &[], MetricMeaning::Count);
    let each =
        |ready: Option<&str>| Capacity::PerServer { each: 50.0, ready: ready.map(Into::into) };
    close(busy.evaluate(page, &each(None)), 0.6, 100.0);
    close(busy.evaluate(page, &each(Some("fuller"))), 0.2, 50.0);
    close(busy.evaluate(b"busy 4\ninference_pool_ready_pods 0\n", &each(None)), 0.0, 0.0);
    let error = busy.evaluate(b"busy 4\n", &each(None)).unwrap_err().to_string();
    assert!(error.contains("how many servers are ready (llm_d_epp_ready_endpoints, "), "{error}");
}

#[test]
fn d06_a_missing_or_non_numeric_metric_is_an_error() {
    let fixed = Capacity::Fixed(80.0);
    let full = wanted("full", &[("pool", "x")], MetricMeaning::Saturation);
    for (page, why) in [
        ("", "no line full{pool=\"x\"}"),
        ("full 0.5", "no line"),
        ("full{pool=\"xx\"} 0.5", "no line"),
        ("not_full{pool=\"x\"} 0.5", "no line"),
        ("# full{pool=\"x\"} 0.5", "no line"),
        ("full{pool=\"x\"} NaN", "full is NaN"),
        ("full{pool=\"x\"} 0.5\nfull{pool=\"x\"} +Inf", "full is inf"),
        ("full{pool=\"x\"} half", "full is NaN"),
        ("full{pool=\"x\"} 0.5\nfull{pool=\"x", "full is NaN"),
        ("full{pool=\"x\"} 0.5\nfull{pool=\"x\"}", "full is NaN"),
    ] {
        let error = full.evaluate(page.as_bytes(), &fixed).unwrap_err().to_string();
        assert!(error.contains(why), "{error} of {page:?}");
    }
}

#[test]
fn d02_the_address_of_a_page_may_have_a_path_and_a_query() {
    for (url, place, path) in [
        ("http://h", "h:80", "/metrics"),
        ("http://h:9/", "h:9", "/metrics"),
        ("http://h:9/a/b", "h:9", "/a/b"),
        ("http://h:9?x=/y", "h:9", "/?x=/y"),
        ("http://h:9/federate?match[]=x", "h:9", "/federate?match[]=x"),
    ] {
        let (base, found) = split(url).unwrap();
        assert_eq!((base.place.as_str(), found.as_str()), (place, path), "{url}");
    }
    assert!(split("http://h/a b").is_err());
}

fn scrape(url: String) -> GateSettings {
    let labels = vec![("pool".into(), "x".into())];
    let says = MetricMeaning::Saturation;
    let kind = GateKind::Scrape(ScrapeGate { url, metric: "full".into(), labels, says });
    gate("g", kind, Capacity::Fixed(100.0))
}

#[tokio::test]
async fn d02_d06_a_page_is_polled_and_its_errors_are_reported() {
    let mut fake = Fake::start(vec![page(200, "full{pool=\"x\"} 0.5\n")]).await;
    let gates = gates(&[scrape(fake.url())]);
    let _polling = polled(&gates);
    let found = until(&gates, "read", |gate| gate.open).await;
    assert_eq!((found.left, found.system), (30, Some(100.0)));
    let address = format!("full{{pool=\"x\"}} on {}/metrics", fake.url());
    assert_eq!(found.source, address);
    for (reply, why) in [
        (page(500, "no\x1b"), "unreadable: it answered 500 Internal Server Error: no"),
        (page(200, "empty 1\n"), "unreadable: the page has no line full{pool=\"x\"}"),
        (page(200, "full{pool=\"x\"} NaN\n"), "unreadable: full is NaN"),
        (page(200, &"x".repeat(5 << 20)), "unreadable: the response is too long"),
        (Reply::Closed, "unreadable: the connection broke: "),
    ] {
        fake.set(reply);
        let now = until(&gates, why, |gate| gate.state.starts_with(why)).await;
        assert_eq!((now.left, now.value), (0, None), "{why}");
        fake.set(page(200, "full{pool=\"x\"} 0.5\n"));
        until(&gates, "read again", |gate| gate.open).await;
    }
    fake.stop().await;
    until(&gates, "refused", |gate| gate.state.starts_with("unreadable: cannot connect")).await;
}

#[tokio::test]
async fn d06_a_silent_server_is_given_up_after_the_limit() {
    let fake = Fake::start(vec![Reply::Silent]).await;
    let slow = GateSettings { stale_after: Some(Duration::from_millis(100)), ..scrape(fake.url()) };
    let gates = gates(&[slow]);
    let _polling = polled(&gates);
    until(&gates, "given up", |gate| gate.state == "unreadable: no response within 0.1 s").await;
}

#[tokio::test]
async fn d06_a_reading_that_is_not_renewed_is_stale() {
    let fake = Fake::start(vec![page(200, "full{pool=\"x\"} 0.5\n")]).await;
    let gates = gates(&[GateSettings {
        stale_after: Some(Duration::from_millis(60)),
        ..scrape(fake.url())
    }]);
    let mut polling = polled(&gates);
    until(&gates, "read", |gate| gate.open).await;
    polling.shutdown().await;
    until(&gates, "stale", |gate| gate.state.starts_with("stale: the reading is 0.")).await;
}

/// A server may close an idle connection; the next reading uses a new one.
#[tokio::test]
async fn d06_a_connection_closed_between_two_readings_is_no_error() {
    let good = page(200, "full{pool=\"x\"} 0.5\n");
    let replies = [good.clone(), Reply::Closed].into_iter().cycle().take(40);
    let fake = Fake::start(replies.chain([good]).collect()).await;
    let gates = gates(&[scrape(fake.url())]);
    let _polling = polled(&gates);
    until(&gates, "read", |gate| gate.open).await;
    until(&gates, "through", |gate| {
        assert!(gate.open, "{gate:?}");
        fake.received.lock().unwrap().len() > 41
    })
    .await;
}

proptest! {
    #[test]
    fn d06_no_page_causes_a_panic(page in ".{0,200}", metric in "[a-z{ ]{1,4}") {
        let wanted = wanted(&metric, &[("a", "b")], MetricMeaning::Count);
        _ = wanted.evaluate(page.as_bytes(), &Capacity::Fixed(1.0));
    }

    /// Lines that almost match.
    #[test]
    fn d06_no_line_causes_a_panic(line in "m[{} \",=\\\\\\n01.a-]{0,40}") {
        let gate = wanted("m", &[("a", "0")], MetricMeaning::Saturation);
        _ = gate.evaluate(line.as_bytes(), &Capacity::FromSource);
    }
}
