//! Numbers off a page of metrics.

use proptest::prelude::*;

use super::fake::{Fake, Reply, page};
use super::*;
use crate::config::resolved::dispatch::Says;
use crate::dispatch::gates::scrape::{MetricSelector, read, split};

const PAGE: &str = "# HELP full How full.\n# TYPE full gauge\n\
    full{server=\"a\",pool=\"x\"} 0.2\nfull{server=\"b\",pool=\"x\"} 0.6\nfull{pool=\"y\"} 0.9\n\
    fuller 1\nbusy{server=\"a\"} 30\nbusy{server=\"b\"} 10 1700000000000\n\
    llm_d_epp_ready_endpoints{name=\"x\"} 2\n";

fn wanted(metric: &str, labels: &[(&str, &str)], says: Says) -> MetricSelector {
    let labels = labels.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    MetricSelector { metric: metric.into(), labels, says }
}

fn close(found: Result<(f64, f64), String>, free: f64, system: f64) {
    let (is_free, is_system) = found.unwrap();
    assert!((is_free - free).abs() < 1e-9, "{is_free} is free, not {free}");
    assert_eq!(is_system, system);
}

#[test]
fn d02_shares_are_averaged_and_counts_added_up() {
    let page = PAGE.as_bytes();
    let fixed = System::Fixed(80.0);
    close(read(page, &wanted("full", &[("pool", "x")], Says::Saturation), &fixed), 0.6, 80.0);
    close(read(page, &wanted("full", &[("pool", "y")], Says::Budget), &fixed), 0.9, 80.0);
    close(read(page, &wanted("busy", &[], Says::Count), &fixed), 0.5, 80.0);
    close(read(page, &wanted("fuller", &[], Says::Saturation), &fixed), 0.0, 80.0);
}

#[test]
fn d03_the_size_of_the_system_may_be_on_the_page() {
    let page = PAGE.as_bytes();
    let busy = wanted("busy", &[], Says::Count);
    let each = |ready: Option<&str>| System::PerServer { each: 50.0, ready: ready.map(Into::into) };
    close(read(page, &busy, &each(None)), 0.6, 100.0);
    close(read(page, &busy, &each(Some("fuller"))), 0.2, 50.0);
    close(read(b"busy 4\ninference_pool_ready_pods 0\n", &busy, &each(None)), 0.0, 0.0);
    let error = read(b"busy 4\n", &busy, &each(None)).unwrap_err();
    assert!(error.contains("how many servers are ready (llm_d_epp_ready_endpoints, "), "{error}");
}

#[test]
fn d06_what_is_not_there_or_not_a_number_is_an_error() {
    let fixed = System::Fixed(80.0);
    let full = wanted("full", &[("pool", "x")], Says::Saturation);
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
        let error = read(page.as_bytes(), &full, &fixed).unwrap_err();
        assert!(error.contains(why), "{error} of {page:?}");
    }
}

#[test]
fn d02_a_pages_address_may_have_a_path_and_a_query() {
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
    let kind = GateKind::Scrape { url, metric: "full".into(), labels, says: Says::Saturation };
    spec("g", kind, System::Fixed(100.0))
}

#[tokio::test]
async fn d02_d06_a_page_is_read_again_and_again_and_what_is_wrong_is_said() {
    let mut fake = Fake::start(vec![page(200, "full{pool=\"x\"} 0.5\n")]).await;
    let gates = gates(&[scrape(fake.url())]);
    let _watching = watched(&gates);
    let found = until(&gates, "read", |gate| gate.open).await;
    assert_eq!((found.left, found.system), (30, Some(100.0)));
    let address = format!("full{{pool=\"x\"}} on {}/metrics", fake.url());
    assert_eq!(found.source, address);
    for (reply, why) in [
        (page(500, "no\x1b"), "unreadable: it answered 500 Internal Server Error: no"),
        (page(200, "empty 1\n"), "unreadable: the page has no line full{pool=\"x\"}"),
        (page(200, "full{pool=\"x\"} NaN\n"), "unreadable: full is NaN"),
        (page(200, &"x".repeat(5 << 20)), "unreadable: the answer is too long"),
        (Reply::Gone, "unreadable: the connection broke: "),
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
async fn d06_a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let fake = Fake::start(vec![Reply::Silent]).await;
    let slow = GateSettings { stale_after: Duration::from_millis(100), ..scrape(fake.url()) };
    let gates = gates(&[slow]);
    let _watching = watched(&gates);
    until(&gates, "given up", |gate| gate.state == "unreadable: no answer within 0.1 s").await;
}

#[tokio::test]
async fn d06_a_reading_that_is_not_renewed_is_stale() {
    let fake = Fake::start(vec![page(200, "full{pool=\"x\"} 0.5\n")]).await;
    let gates =
        gates(&[GateSettings { stale_after: Duration::from_millis(60), ..scrape(fake.url()) }]);
    let mut watching = watched(&gates);
    until(&gates, "read", |gate| gate.open).await;
    watching.shutdown().await;
    until(&gates, "stale", |gate| gate.state.starts_with("stale: what was read is 0.")).await;
}

/// A server may close a connection that rests: that is no trouble.
#[tokio::test]
async fn d06_a_connection_that_was_closed_between_two_looks_is_no_trouble() {
    let succeeded = page(200, "full{pool=\"x\"} 0.5\n");
    let replies = [succeeded.clone(), Reply::Gone].into_iter().cycle().take(40);
    let fake = Fake::start(replies.chain([succeeded]).collect()).await;
    let gates = gates(&[scrape(fake.url())]);
    let _watching = watched(&gates);
    until(&gates, "read", |gate| gate.open).await;
    until(&gates, "through", |gate| {
        assert!(gate.open, "{gate:?}");
        fake.heard.lock().unwrap().len() > 41
    })
    .await;
}

proptest! {
    #[test]
    fn d06_no_page_is_too_strange(page in ".{0,200}", metric in "[a-z{ ]{1,4}") {
        let wanted = wanted(&metric, &[("a", "b")], Says::Count);
        _ = read(page.as_bytes(), &wanted, &System::Fixed(1.0));
    }

    /// Lines that almost fit.
    #[test]
    fn d06_no_line_is_too_strange(line in "m[{} \",=\\\\\\n01.a-]{0,40}") {
        _ = read(line.as_bytes(), &wanted("m", &[("a", "0")], Says::Saturation), &System::Known);
    }
}
