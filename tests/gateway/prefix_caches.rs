//! K01, K02, K03: requests whose prompts begin alike go to the backend that has computed the
//! beginning, may go first there, and are charged with what is computed.

use serde_json::{Value, json};

use crate::support::gateway::{ONE, TWO, config};
use crate::support::keys::Keys;
use crate::support::queueing::succeed;
use crate::support::{
    Backend, Call, Gateway, HttpRequest, Picker, Recipe, ScriptedResponse, chat, eventually,
};

const JSON_LOG: &str = "[log]\nformat = \"json\"\n";

/// A question about a document of so many words; the document is the system prompt.
fn about(document: &str, words: usize, question: &str) -> HttpRequest {
    let text = format!("{document} ").repeat(words);
    let user = json!({"role": "user", "content": question});
    chat("m").with("messages", json!([{"role": "system", "content": text}, user]))
}

/// Two backends that report how much of a prompt they had in their caches.
fn two(sections: &str) -> ([Backend; 2], String) {
    let usage = json!({"prompt_tokens": 3000, "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 2500}});
    let body = json!({"choices": [], "usage": usage}).to_string();
    let backend = || {
        let body = body.clone();
        Backend::start(move |_| ScriptedResponse::json(200, &body))
    };
    let backends = [backend(), backend()];
    let [a, b] = &backends;
    let config = config(&format!("{sections}{TWO}"), &[("a", a.address()), ("b", b.address())]);
    (backends, config)
}

/// The backend that served each request, one request after the other.
fn served(gateway: &Gateway, asks: &[HttpRequest]) -> Vec<String> {
    let served = asks.iter().map(|ask| {
        let answer = gateway.ask(ask);
        gateway.await_idle();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("x-backend-used").unwrap_or_default().to_owned()
    });
    served.collect()
}

/// Questions about two documents, in this order.
fn questions(documents: &[&str]) -> Vec<HttpRequest> {
    let numbered = documents.iter().zip(0..);
    numbered.map(|(document, at)| about(document, 2000, &format!("question {at}?"))).collect()
}

#[test]
fn k01_prompts_that_begin_alike_go_to_the_same_backend() {
    let (_backends, config) = two("");
    let gateway = Gateway::start(&config);
    let order = ["tide", "moon", "moon", "tide", "tide", "moon", "moon", "moon", "tide"];
    let expected = order.map(|document| if document == "tide" { "a" } else { "b" });
    assert_eq!(served(&gateway, &questions(&order)), expected);
}

#[test]
fn k01_prompts_that_begin_differently_are_spread_as_before() {
    let (_backends, config) = two("");
    let gateway = Gateway::start(&config);
    let documents = ["one", "two", "three", "four", "five", "six"];
    assert_eq!(served(&gateway, &questions(&documents)), ["a", "b", "a", "b", "a", "b"]);
    // Short prompts have nothing worth looking for.
    let short = vec![chat("m"); 4];
    assert_eq!(served(&gateway, &short), ["a", "b", "a", "b"]);
}

#[test]
fn k01_the_index_can_be_turned_off() {
    let (_backends, config) = two("[router]\ncache_tokens = 0\n");
    let gateway = Gateway::start(&config);
    assert_eq!(served(&gateway, &questions(&["tide"; 4])), ["a", "b", "a", "b"]);
}

#[test]
fn k01_the_expected_cached_tokens_are_told_and_compared_with_the_true_ones() {
    let (_backends, config) = two(JSON_LOG);
    let gateway = Gateway::start(&config);
    let asks = questions(&["tide", "moon", "tide"]);
    served(&gateway, &asks[..2]);
    let answer = gateway.ask(&asks[2]);
    gateway.await_idle();
    let reason = answer.header("x-routing-reason").unwrap_or_default();
    let expected = reason.split_once("; cached-tokens=").map(|(_, tokens)| tokens);
    let expected: u64 = expected.and_then(|tokens| tokens.parse().ok()).unwrap_or_else(|| {
        panic!("{reason}");
    });
    // 2000 words of five letters are 2500 tokens of four.
    assert!((2300..=2520).contains(&expected), "{reason}");
    let line: Value = eventually("logged", || {
        let log = gateway.process.access();
        let line = log.lines().nth(2).ok_or("not yet")?;
        serde_json::from_str(line).map_err(|error| error.to_string())
    });
    assert_eq!(
        (&line["cached_expected"], &line["cached_tokens"]),
        (&json!(expected), &json!(2500))
    );
    let metrics = gateway.metrics();
    let count = |count| metrics.sum_where("tidegate_cached_tokens_total", count);
    assert_eq!((count("expected"), count("found")), (expected as f64, 7500.0));
}

#[test]
fn k01_behind_envoy_prompts_that_begin_alike_go_to_the_same_backend() {
    let (_backends, config) = two("");
    let picker = Picker::start(Recipe::original_dst(), &config);
    let order = ["tide", "moon", "moon", "tide", "tide", "moon"];
    let expected = order.map(|document| if document == "tide" { "a" } else { "b" });
    assert_eq!(served(&picker, &questions(&order)), expected);
}

/// One place. The cold request comes first, and both flows have a request of cost 1.
#[test]
fn k02_a_request_whose_prompt_is_cached_goes_first_within_the_slack() {
    for (slack, expected) in [(0, ["cold", "warm"]), (3, ["warm", "cold"])] {
        let teams = format!("[queue]\nflow_by = [\"header:x-team\"]\ncache_slack = {slack}\n");
        let backend = Backend::held();
        let of =
            |document, team: &str| about(document, 2000, "why?").header("x-team", team).tag(team);
        let first = of("tide", "first");
        let (gateway, running) = Gateway::occupied(&format!("{teams}{ONE}"), &backend, &first);
        let cold = gateway.enqueue(&of("moon", "cold"), 0);
        let warm = gateway.enqueue(&of("tide", "warm"), 1);
        backend.open();
        succeed([running, cold, warm]);
        assert_eq!(backend.tags()[1..], expected, "slack {slack}");
    }
}

/// The order of two requests of one flow at one place, of which the second has its prompt cached.
fn cold_before_warm(queue: &str) -> Vec<String> {
    let backend = Backend::held();
    let of = |document, tag: &str| about(document, 2000, "why?").tag(tag);
    let first = of("tide", "first");
    let (gateway, running) = Gateway::occupied(&format!("{queue}{ONE}"), &backend, &first);
    let cold = gateway.enqueue(&of("moon", "cold"), 0);
    let warm = gateway.enqueue(&of("tide", "warm"), 1);
    backend.open();
    succeed([running, cold, warm]);
    backend.tags()[1..].to_vec()
}

#[test]
fn k02_inside_a_flow_a_request_whose_prompt_is_cached_goes_first() {
    assert_eq!(cold_before_warm("[queue]\ncache_reorder = 0\n"), ["cold", "warm"]);
    assert_eq!(cold_before_warm(""), ["warm", "cold"]);
}

/// Without an objective the order is that of arrival, unless the key of the caches is set.
#[test]
fn q05_without_an_objective_the_order_of_arrival_holds_whatever_is_cached() {
    let off = "[queue]\nslo_ttft = \"0s\"\n";
    assert_eq!(cold_before_warm(off), ["cold", "warm"]);
    assert_eq!(cold_before_warm(&format!("{off}cache_reorder = 256\n")), ["warm", "cold"]);
}

/// One place, and costs in tokens. All prompts begin differently, so that only responses tell what
/// was cached. The flow whose prompts were cached has paid less, and goes on.
#[test]
fn k03_fairness_charges_the_tokens_that_were_computed() {
    let turns = ["warm", "cold", "warm", "cold", "warm", "cold"];
    let computed = ["warm", "cold", "warm", "warm", "cold", "cold"];
    for (charge_cached, expected) in [(true, turns), (false, computed)] {
        let backend = Backend::start(|seen| {
            let cached = if seen.tag() == "warm" { 2990 } else { 0 };
            let usage = json!({"prompt_tokens": 3000, "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": cached}});
            ScriptedResponse::json(200, &json!({"choices": [], "usage": usage}).to_string()).held()
        });
        let queue = format!(
            "[queue]\nflow_by = [\"header:x-team\"]\ncost = \"tokens\"\n\
             charge_cached = {charge_cached}\n"
        );
        let of = |document: &str, team: &str| {
            let ask = about(document, 2400, "why?").header("x-team", team).tag(team);
            ask.with("max_tokens", json!(2))
        };
        let first = of("first", "first");
        let (gateway, running) = Gateway::occupied(&format!("{queue}{ONE}"), &backend, &first);
        let documents = ["teal", "blue", "gold", "grey", "pink", "lime"];
        let asks = documents.iter().zip(turns).zip(0..);
        let waiting = asks.map(|((document, team), at)| gateway.enqueue(&of(document, team), at));
        let waiting: Vec<_> = waiting.collect();
        backend.open();
        succeed(std::iter::once(running).chain(waiting));
        assert_eq!(backend.tags()[1..], expected, "charge_cached: {charge_cached}");
    }
}

#[test]
fn k01_tenants_can_be_kept_apart() {
    for (apart, expected) in [(false, ["a", "a", "a"]), (true, ["a", "b", "a"])] {
        let keys = Keys::new();
        let [x, y] = ["x", "y"].map(|tenant| keys.tenant(tenant, "key"));
        let tenants = "[[tenants]]\nname = \"x\"\n[[tenants]]\nname = \"y\"\n";
        let router = format!("[router]\ncache_per_tenant = {apart}\n");
        let pages = "[admin]\nwithout_key = \"all\"\n";
        let (_backends, config) = two(&format!("{}{tenants}{router}{pages}", keys.section()));
        let gateway = Gateway::start(&config);
        let asks = [&x, &y, &x].map(|key| about("tide", 2000, "why?").key(key));
        assert_eq!(served(&gateway, &asks), expected, "apart: {apart}");
    }
}

/// Two backends with one place each. The first has served a document, and runs a request about it
/// for as long as the test wants. The second is idle.
fn beside_an_idle_backend() -> (Gateway, Call, [Backend; 2]) {
    let backends = [Backend::held(), Backend::start(|_| ScriptedResponse::ok())];
    let [a, b] = &backends;
    let config = config(ONE, &[("a", a.address()), ("b", b.address())]);
    let gateway = Gateway::start(&config);
    let first = gateway.send(&about("tide", 2000, "first?"));
    a.await_running(1);
    a.release(1);
    succeed([first]);
    gateway.await_idle();
    let running = gateway.send(&about("tide", 2000, "second?"));
    a.await_running(1);
    (gateway, running, backends)
}

/// C03: a critical request goes to the idle backend without a wait in the queue.
#[test]
fn c03_a_critical_request_is_not_held_beside_an_idle_backend() {
    let (gateway, running, [a, _b]) = beside_an_idle_backend();
    let answer = gateway.ask(&about("tide", 2000, "third?").header("x-priority", "critical"));
    assert_eq!(answer.header("x-backend-used"), Some("b"));
    let queued = |result| gateway.metrics().sum_where("tidegate_offers_total", result);
    assert_eq!(queued("result=\"queued\""), 0.0);
    a.open();
    succeed([running]);
}

/// C03: another request may wait for the busy backend, if its requests were short. This wait is
/// lost, which is counted.
#[test]
fn c03_a_wait_for_a_cache_that_loses_is_counted() {
    let (gateway, running, [a, _b]) = beside_an_idle_backend();
    let answer = gateway.ask(&about("tide", 2000, "third?"));
    assert_eq!(answer.header("x-backend-used"), Some("b"));
    let metrics = gateway.metrics();
    let queued = metrics.sum_where("tidegate_offers_total", "result=\"queued\"");
    let [won, lost] = ["result=\"won\"", "result=\"lost\""]
        .map(|result| metrics.sum_where("tidegate_cache_wait_seconds_total", result));
    assert_eq!((won, lost > 0.0), (0.0, queued > 0.0), "{lost} s lost, {queued} queued");
    a.open();
    succeed([running]);
}
