//! M03: the page `/dashboard` in a real browser.

use std::process::Command;

use serde_json::Value;

use crate::support::browser::Browser;
use crate::support::gateway::{ONE, config};
use crate::support::keys::Keys;
use crate::support::queueing::succeed;
use crate::support::tools::run;
use crate::support::{Backend, Gateway, HttpRequest, Nowhere, Process, chat, eventually};

/// Two flows, of which one floods, in front of a busy backend and of one that is down.
const SECTIONS: &str = "[queue]\nflow_by = [\"header:x-team\"]\n";

/// The figure under a title.
fn figure(browser: &mut Browser, title: &str) -> String {
    let found = format!(
        "[...document.querySelectorAll('#figures div')]\
         .find((one) => one.firstChild.textContent === {title:?})?.lastChild.firstChild.textContent"
    );
    browser.eval(&found).as_str().unwrap_or_default().to_owned()
}

#[test]
fn m03_the_page_shows_the_truth_and_reconnects_after_a_restart() {
    let (backend, nowhere) = (Backend::held(), Nowhere::reserve());
    let text = config(
        &format!("{ONE}{SECTIONS}"),
        &[("gpu-a", backend.address()), ("gpu-b", nowhere.address())],
    );
    let mut gateway = Gateway::launch(&text);
    gateway.await_ready(1);
    let mut calls: Vec<_> = vec![gateway.send(&chat("m").header("x-team", "search"))];
    backend.await_running(1);
    for (others, (team, band)) in [
        ("search", "critical"),
        ("agents", "high"),
        ("agents", "normal"),
        ("agents", "best-effort"),
    ]
    .into_iter()
    .enumerate()
    {
        let ask = chat("m").header("x-team", team).priority(band);
        calls.push(gateway.enqueue(&ask.header("x-request-id", &format!("r{others}")), others));
    }
    let mut browser = Browser::start();
    browser.size(1280, 900);
    browser.open(&format!("{}/dashboard", gateway.url()));
    browser.wait("document.querySelector('#sentence').textContent.includes('gpu-b is down')");
    let metrics = gateway.metrics();
    assert_eq!(figure(&mut browser, "Waiting"), metrics.sum("nexus_queue_depth").to_string());
    let in_flight = metrics.sum("tidegate_requests_in_flight").to_string();
    assert_eq!(figure(&mut browser, "In flight"), in_flight);
    assert!(browser.text("#flows tbody tr td").contains("agents"));
    assert!(browser.text("#backends tbody tr").contains("down"), "as the sentence says it");
    assert!(
        browser.text("#backends tbody tr").contains("refused"),
        "those that are down come first"
    );
    assert!(browser.text("#waiting").is_empty());
    let chart = "document.querySelector('#waiting').getAttribute('aria-label')";
    assert_eq!(browser.eval(chart), "best effort 1, normal 1, high 1, critical 1");

    browser.eval(
        "document.querySelector('#request-id').value = 'r2', \
         document.querySelector('#lookup button').click()",
    );
    browser.wait("document.querySelector('#request').textContent.includes('at place 1')");
    browser.eval(
        "document.querySelector('#filter').value = 'search', \
         document.querySelector('#filter').dispatchEvent(new Event('input'))",
    );
    assert_eq!(browser.eval("document.querySelectorAll('#flows tbody tr').length"), 1);
    let overflow = "document.documentElement.scrollWidth > innerWidth";
    assert_eq!(browser.eval(overflow), false);
    // The legend of a chart stands above its lines, and ends within it.
    let covered = "[...document.querySelectorAll('canvas')].some((chart) => \
                   !(Number(chart.dataset.legendEnd) <= Number(chart.dataset.plotTop) \
                   && Number(chart.dataset.legendRight) <= chart.clientWidth))";
    assert_eq!(browser.eval(covered), false);
    browser.size(390, 844);
    assert_eq!(browser.eval(overflow), false, "it fits a phone");
    assert_eq!(browser.eval(covered), false);
    assert_eq!(browser.errors(), [""; 0]);

    let listen = gateway.address().to_string();
    gateway.process.kill();
    browser.wait("document.querySelector('#link').dataset.live === 'no'");
    let file = gateway.folder().join("tidegate.toml");
    let arguments = ["serve", "--config", file.to_str().unwrap(), "--listen", &listen];
    let again = Process::start(&arguments);
    browser.wait("document.querySelector('#link').dataset.live === 'yes'");
    browser.wait("document.querySelector('#figures dd span').textContent === '0'");
    drop((again, calls));
    backend.open();
}

#[test]
fn m03_the_page_asks_for_a_key_and_works_below_a_path() {
    let (backend, keys) = (Backend::quick(), Keys::new());
    let admin = keys.make(&["--admin", "read", "--name", "operator"]);
    let sections = format!("{}[[tenants]]\nname = \"alpha\"\n", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    for path in ["/status/stream", "/status/history", "/requests/r1"] {
        assert_eq!(gateway.ask(&HttpRequest::get(path)).status, 401, "{path}");
    }
    let page = gateway.ask(&HttpRequest::get("/dashboard"));
    assert_eq!(page.status, 200, "the page itself shows nothing");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    for word in ["http://", "https://", "src=\"/", "href=\"/", "style=\""] {
        assert!(!page.text().contains(word), "{word}: every address is relative");
    }
    let mut browser = Browser::start();
    browser.open(&format!("{}/dashboard", gateway.url()));
    browser.wait("!document.querySelector('#login').hidden");
    let enter = |browser: &mut Browser, key: &str| {
        browser.eval(&format!(
            "document.querySelector('#token').value = {key:?}, \
             document.querySelector('#login button').click()"
        ));
    };
    enter(&mut browser, "wrong");
    browser.wait("document.querySelector('#refused').textContent !== ''");
    enter(&mut browser, &admin);
    browser.wait("document.querySelector('#sentence').textContent.startsWith('All is well')");
    assert_eq!(browser.eval("document.querySelector('#login').hidden"), true);
}

/// Fresh requests go before a late one, so a time would be a promise.
#[test]
fn m03_a_late_request_has_no_estimate() {
    let backend = Backend::held();
    let sections = format!("{ONE}[queue]\nslo_ttft = \"100ms\"\n");
    let (gateway, running) = Gateway::occupied(&sections, &backend, &chat("m"));
    let waiting = gateway.enqueue(&chat("m").header("x-request-id", "late"), 0);
    let page = eventually("late", || {
        let page = gateway.get("/requests/late").json();
        if page["late"] == true { Ok(page) } else { Err(page.to_string()) }
    });
    assert!(page["estimated_wait_seconds"].is_null(), "{page}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let said = run(command.args(["explain", "late", "--url", &gateway.url()]));
    assert!(said.contains("it is late, so the fresh requests of its flow go first"), "{said}");
    backend.open();
    succeed([running, waiting]);
}

#[test]
fn m03_a_request_is_looked_up_by_its_id() {
    let backend = Backend::held();
    let (gateway, running) =
        Gateway::occupied(ONE, &backend, &chat("m").header("x-request-id", "first"));
    let waiting = gateway.enqueue(&chat("m").header("x-request-id", "second"), 0);
    let high = chat("m").header("x-request-id", "third").priority("high");
    let third = gateway.enqueue(&high, 1);
    let page = |id: &str| gateway.get(&format!("/requests/{id}")).json();
    let first = page("first");
    assert_eq!((&first["stage"], &first["backend"]), (&"in_flight".into(), &"one".into()));
    assert_eq!(first["reason"], "only-backend", "{first}");
    let second = page("second");
    assert_eq!((&second["stage"], &second["position"]), (&"waiting".into(), &1.into()));
    assert_eq!((&second["higher_bands_waiting"], &second["flow"]), (&1.into(), &"m".into()));
    assert_eq!(page("third")["higher_bands_waiting"], 0);
    assert_eq!(gateway.get("/requests/fourth").status, 404);
    let list = gateway.get("/requests").json();
    let waits = list["waiting"].as_array().unwrap_or_else(|| panic!("{list}"));
    assert_eq!((waits.len(), &list["waiting_left_out"]), (2, &0.into()), "{list}");
    assert_eq!((&waits[0]["band"], &waits[1]["band"]), (&"normal".into(), &"high".into()));
    assert_eq!(list["in_flight"][0]["backend"], "one", "{list}");
    backend.open();
    succeed([running, waiting, third]);
    gateway.await_idle();
    let list = gateway.get("/requests").json();
    let ids: Vec<&Value> = list["ended"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids.len(), 3, "{list}");
    assert!(ids.contains(&&"second".into()), "{list}");
    let ended = page("second");
    assert_eq!((&ended["stage"], &ended["outcome"]), (&"ended".into(), &"ok".into()), "{ended}");
    assert_eq!((&ended["status"], &ended["backend"]), (&200.into(), &"one".into()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let said = run(command.args(["explain", "second", "--url", &gateway.url()]));
    assert!(said.starts_with("It ended ") && said.contains("ok, status 200 at one"), "{said}");
    let json = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["explain", "second", "--json", "--url", &gateway.url()])
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["id"], "second");
}
