//! N04, N05, R07: the effect of a backend failure on the request and on the backend.

use crate::support::gateway::{ONE, TWO, config};
use crate::support::scripted_response::Step;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// Two backends, of which the first is preferred.
fn preferring(sections: &str, first: &Backend, second: &Backend) -> String {
    let entry = |id: &str, backend: &Backend, latency: u32| {
        let url = format!("url = \"http://{}\"\nmodels = [\"m\"]", backend.address());
        format!("[[backends]]\nid = \"{id}\"\n{url}\nlatency_ms = {latency}\npower_watts = 1\n")
    };
    format!("{sections}{}{}", entry("first", first, 10), entry("second", second, 900))
}

fn urgent() -> HttpRequest {
    chat("m").header("X-Latency-Critical", "true")
}

#[test]
fn n05_a_reset_before_the_first_byte_is_tried_elsewhere_with_the_same_bytes() {
    let (bad, good) = (Backend::start(|_| ScriptedResponse::reset()), Backend::quick());
    let gateway = Gateway::start(&preferring(TWO, &bad, &good));
    let body = "{ \"model\":\"m\",\n\"messages\":[], \"unknown\" : 1.50 }";
    let ask = HttpRequest::post("/v1/chat/completions?x=1", body);
    let ask = ask.header("X-Latency-Critical", "1").header("x-own", "yes");
    let answer = gateway.ask(&ask.header("X-Request-ID", "r1"));
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("second")));
    let (first, second) = (bad.seen().remove(0), good.seen().remove(0));
    assert_eq!(first.body, body.as_bytes());
    assert_eq!((&first.path, &first.body), (&second.path, &second.body));
    let others = |seen: &crate::support::backend::Seen| {
        let own = |(name, _): &&(String, String)| name != "host";
        seen.headers.iter().filter(own).cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(&first), others(&second));
    assert_eq!(second.header("x-request-id"), Some("r1"));
    gateway.await_idle();
}

#[test]
fn n05_an_error_of_the_backend_is_tried_elsewhere() {
    for status in [500, 502, 503, 504, 507, 521, 599, 429] {
        let bad = Backend::start(move |_| ScriptedResponse::json(status, "{\"bad\":1}"));
        let good = Backend::quick();
        let gateway = Gateway::start(&preferring(TWO, &bad, &good));
        let answer = gateway.ask(&urgent());
        let used = answer.header("x-backend-used");
        assert_eq!((answer.status, used), (200, Some("second")), "{status}");
        assert_eq!((bad.seen().len(), good.seen().len()), (1, 1));
        gateway.await_idle();
    }
}

/// Engines report errors with status 200.
#[test]
fn n05_an_error_inside_a_response_is_tried_elsewhere() {
    let error = "{\"error\":{\"message\":\"EngineCore encountered an issue\",\"code\":500}}";
    let event = format!("data: {error}\n\n");
    let lines = ["content-type: application/x-ndjson"];
    let at = |path: &str| HttpRequest { path: path.into(), ..urgent() };
    let cases = [
        (urgent().streamed(), ScriptedResponse::stream(&[&event, "data: [DONE]\n\n"])),
        (urgent(), ScriptedResponse::json(200, error)),
        (
            at("/api/chat"),
            ScriptedResponse::with_headers(200, &lines, "{\"error\":\"CUDA error\"}\n"),
        ),
        // Anthropic's API, `/v1/responses`, older forms, and a page of a proxy.
        (
            at("/v1/messages").with("stream", true),
            ScriptedResponse::stream(&[
                "event: error\ndata: {\"type\":\"error\",\"error\":{}}\n\n",
            ]),
        ),
        (
            at("/v1/responses"),
            ScriptedResponse::json(
                200,
                r#"{"object":"response","status":"failed","error":{"code":"server_error"}}"#,
            ),
        ),
        (urgent(), ScriptedResponse::json(200, "{\"object\":\"error\",\"message\":\"CUDA\"}")),
        (urgent().streamed(), ScriptedResponse::stream(&["error: {\"code\":500}\n\n"])),
        (urgent(), ScriptedResponse::with_headers(200, &["content-type: text/html"], "<h1>Log in")),
    ];
    for (ask, answer) in cases {
        let bad = Backend::start(move |_| answer.clone());
        let good = Backend::quick();
        let gateway = Gateway::start(&preferring(TWO, &bad, &good));
        let answer = gateway.ask(&ask);
        let used = answer.header("x-backend-used");
        assert_eq!((answer.status, used), (200, Some("second")), "{}", answer.text());
        assert_eq!((bad.seen().len(), good.seen().len()), (1, 1));
        assert_eq!(gateway.backend("first")["failures"], 1);
    }
    // No other backend would answer this one better.
    let error = "{\"error\":{\"message\":\"too long\",\"code\":400}}";
    let bad = Backend::start(move |_| ScriptedResponse::json(200, error));
    let good = Backend::quick();
    let gateway = Gateway::start(&preferring(TWO, &bad, &good));
    assert_eq!(gateway.ask(&urgent()).text(), error);
    assert_eq!((bad.seen().len(), good.seen().len()), (1, 0));
}

/// Some servers write such a member into each answer.
#[test]
fn n05_an_empty_error_beside_an_answer_is_none() {
    for member in ["{}", "[]", "\"\"", "false", "0", "null", "{\"code\":500}"] {
        let body = format!("{{\"error\":{member},\"choices\":[{{\"text\":\"a\"}}]}}");
        let told = body.clone();
        let first = Backend::start(move |_| ScriptedResponse::json(200, &told));
        let second = Backend::quick();
        let gateway = Gateway::start(&preferring(TWO, &first, &second));
        assert_eq!(gateway.ask(&urgent()).text(), body);
        assert_eq!(first.seen().len(), 1);
    }
}

#[test]
fn n05_an_error_of_the_request_itself_is_passed_on() {
    for status in [400, 401, 404, 409, 422] {
        let bad = Backend::start(move |_| ScriptedResponse::json(status, "{\"no\":1}"));
        let good = Backend::quick();
        let gateway = Gateway::start(&preferring(TWO, &bad, &good));
        let answer = gateway.ask(&urgent());
        assert_eq!((answer.status, answer.text().as_str()), (status, "{\"no\":1}"));
        assert_eq!((bad.seen().len(), good.seen().len()), (1, 0));
    }
}

#[test]
fn n05_a_refused_connection_makes_a_backend_unready_at_once() {
    let (gone, good) = (Backend::quick(), Backend::quick());
    let quiet = "[health]\ninterval = \"1h\"\n";
    let gateway = Gateway::start(&preferring(&format!("{quiet}{TWO}"), &gone, &good));
    gone.stop();
    let answer = gateway.ask(&urgent());
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("second")));
    assert_eq!(gateway.backend("first")["state"], "unready");
}

#[test]
fn n05_waiting_for_the_last_backend_to_return_uses_no_attempt() {
    let backend = Backend::quick();
    let sections = format!("[retry]\nattempts = 2\n{TWO}");
    let gateway = Gateway::before(&sections, &backend);
    backend.stop();
    let call = gateway.enqueue(&chat("m"), 0);
    let again = Backend::start_at(backend.address(), |_| ScriptedResponse::ok());
    assert_eq!(call.finish().status, 200);
    assert_eq!(again.seen().len(), 1);
    gateway.await_idle();
}

#[test]
fn n05_after_the_first_byte_nothing_is_tried_again() {
    let bad = Backend::start(|_| ScriptedResponse::stream_begun("half").then(Step::Reset));
    let good = Backend::quick();
    let gateway = Gateway::start(&preferring(TWO, &bad, &good));
    let mut call = gateway.send(&urgent().streamed());
    assert_eq!(call.head().status, 200);
    assert!(call.answer().is_err(), "the client must see that the stream was cut");
    assert_eq!(good.seen().len(), 0);
    gateway.await_idle();
}

#[test]
fn n05_without_any_response_the_gateway_reports_a_backend_error() {
    let backend = Backend::start(|_| ScriptedResponse::reset());
    let gateway = Gateway::before(&format!("[retry]\nattempts = 1\n{TWO}"), &backend);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.code().as_str()), (502, "backend_error"));
    assert_eq!(backend.seen().len(), 1);
    gateway.await_idle();
}

#[test]
fn n05_a_failed_request_goes_to_the_back_and_a_refused_one_keeps_its_place() {
    for (status, order) in [(500, ["a", "b", "a"]), (503, ["a", "a", "b"])] {
        let backend = Backend::start(move |seen| match seen.number {
            0 => ScriptedResponse::json(status, "{}").held(),
            _ => ScriptedResponse::ok(),
        });
        let (gateway, first) = Gateway::occupied(
            &format!("[retry]\nshare = 10\n{ONE}"),
            &backend,
            &chat("m").tag("a"),
        );
        let second = gateway.enqueue(&chat("m").tag("b"), 0);
        backend.open();
        assert_eq!((first.finish().status, second.finish().status), (200, 200));
        assert_eq!(backend.tags(), order, "{status}");
        gateway.await_idle();
    }
}

/// The deadline is that of its arrival. If each return began a new time to live, the request would
/// outlive one that came later and was never sent before it.
#[test]
fn n05_a_request_that_comes_back_keeps_its_deadline() {
    let backend = Backend::start(|_| ScriptedResponse::json(503, "{}"));
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"3s\"\n{ONE}"), &backend);
    let returning = gateway.send(&chat("m").tag("returning").header("X-Request-ID", "returning"));
    backend.await_seen(3);
    let later = gateway.send(&chat("m").tag("later").header("X-Request-ID", "later"));
    for call in [later, returning] {
        call.finish().refused(503, "queue_timeout");
    }
    let ends = eventually("logged", || {
        let log = gateway.process.access();
        let ends = ["returning", "later"].map(|id| log.find(&format!("request_id={id} ")));
        if ends.iter().all(Option::is_some) { Ok(ends) } else { Err(log) }
    });
    assert!(ends[0] < ends[1], "the one that came first ends first: {}", gateway.process.access());
    assert_eq!(backend.tags()[..3], ["returning"; 3]);
    gateway.await_idle();
}

#[test]
fn n05_a_refusal_that_comes_after_the_time_to_live_is_that_of_the_queue() {
    let backend = Backend::start(|_| ScriptedResponse::json(503, "{}").held());
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"1s\"\n{ONE}"), &backend);
    let refused = gateway.send(&chat("m"));
    backend.await_running(1);
    // When the time of a later request has passed, that of the first has too.
    gateway.ask(&chat("m")).refused(503, "queue_timeout");
    backend.open();
    let answer = refused.finish();
    assert!(answer.header("retry-after").is_some());
    answer.refused(503, "queue_timeout");
}

#[test]
fn n04_a_dequeued_request_is_routed_by_the_present_state() {
    let (first, second) = (Backend::held(), Backend::quick());
    second.set_healthy(false);
    let sections = format!("[health]\ninterval = \"100ms\"\n{ONE}");
    let addresses = [("first", first.address()), ("second", second.address())];
    let gateway = Gateway::launch(&config(&sections, &addresses));
    gateway.await_ready(1);
    let running = gateway.send(&chat("m"));
    first.await_running(1);
    let waiting = gateway.enqueue(&chat("m"), 0);
    second.set_healthy(true);
    let answer = waiting.finish();
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("second")));
    first.open();
    assert_eq!(running.finish().status, 200);
}

#[test]
fn r07_failures_in_a_row_eject_a_backend_and_time_brings_it_back() {
    let bad = Backend::start(|seen| match seen.number {
        0..3 => ScriptedResponse::reset(),
        _ => ScriptedResponse::ok(),
    });
    let good = Backend::quick();
    let sections = "[health]\ninterval = \"100ms\"\neject_after = 3\neject_for = \"3s\"\n\
        slow_start = \"0s\"\n[retry]\nshare = 10\n";
    let gateway = Gateway::start(&preferring(&format!("{sections}{TWO}"), &bad, &good));
    for _ in 0..3 {
        assert_eq!(gateway.ask(&urgent()).status, 200);
    }
    let state = gateway.backend("first")["state"].clone();
    assert_eq!(state, "ejected", "a passing health check does not lift it");
    assert_eq!(gateway.ask(&urgent()).header("x-backend-used"), Some("second"));
    gateway.await_ready(2);
    assert_eq!(gateway.ask(&urgent()).header("x-backend-used"), Some("first"));
}

#[test]
fn r07_a_sick_backend_is_left_out_and_best_effort_is_served_all_the_same() {
    let (sick, well) = (Backend::quick(), Backend::quick());
    let sections = format!("[health]\ninterval = \"100ms\"\n{TWO}");
    let gateway = Gateway::start(&preferring(&sections, &sick, &well));
    sick.set_healthy(false);
    gateway.await_ready(1);
    for _ in 0..5 {
        let answer = gateway.ask(&urgent().priority("best-effort"));
        assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("second")));
    }
    sick.set_healthy(true);
    gateway.await_ready(2);
}

/// A backend that switches protocols unasked has not responded.
#[test]
fn x03_an_unrequested_protocol_switch_is_a_failure() {
    let switching = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    let bad = Backend::start(move |_| ScriptedResponse::raw(switching).then(Step::Close));
    let good = Backend::quick();
    let gateway = Gateway::start(&preferring(TWO, &bad, &good));
    let answer = gateway.ask(&urgent());
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("second")));
    gateway.await_idle();
}

/// A chunked body ends with its last chunk, also if a length is given beside it.
#[test]
fn x03_a_length_beside_chunks_cuts_nothing_off() {
    let sent = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n\
                5\r\nhello\r\n0\r\n\r\n";
    let backend = Backend::start(move |_| ScriptedResponse::raw(sent).then(Step::Close));
    let gateway = Gateway::before(ONE, &backend);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, &answer.body[..]), (200, &b"hello"[..]));
    gateway.await_idle();
}

/// With a single attempt no failure is repeated, and none is held against the backend.
#[test]
fn r07_requests_that_are_given_up_are_not_held_against_their_backend() {
    let backend = Backend::start(|_| ScriptedResponse::json(500, "{}"));
    let sections = format!("[retry]\nattempts = 1\nshare = 10\n[health]\neject_after = 3\n{TWO}");
    let gateway = Gateway::before(&sections, &backend);
    for request in 1..5 {
        assert_eq!(gateway.ask(&chat("m")).status, 500);
        let one = gateway.backend("one");
        assert_eq!((backend.seen().len(), &one["failures"]), (request, &0.into()));
        assert_eq!(one["state"], "ready");
    }
}

#[test]
fn r07_the_log_shows_when_a_backend_fails_and_returns() {
    let bad = Backend::start(|_| ScriptedResponse::reset());
    let good = Backend::quick();
    let sections = "[health]\neject_after = 1\neject_for = \"1s\"\n";
    let gateway = Gateway::start(&preferring(&format!("{sections}{TWO}"), &bad, &good));
    assert_eq!(gateway.ask(&urgent()).status, 200);
    eventually("its return is told", || {
        let log = gateway.process.log();
        let gone = log.lines().skip_while(|line| !line.contains("ejected"));
        let mut lines = gone.filter(|line| line.contains("first"));
        let went = lines.next().is_some_and(|line| line.contains("WARN"));
        let came = lines.any(|line| line.contains("INFO") && line.contains("on trial"));
        if went && came { Ok(()) } else { Err(log) }
    });
}

/// A requeued request has not bypassed the queue.
#[test]
fn n05_a_request_that_waited_after_an_attempt_did_not_bypass_the_queue() {
    let backend = Backend::quick();
    let sections = format!("[queue]\nqueue_ttl = \"1s\"\n[health]\ninterval = \"1h\"\n{TWO}");
    let gateway = Gateway::before(&sections, &backend);
    backend.stop();
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.code().as_str()), (503, "queue_timeout"));
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(after >= 5, "nothing can be served: {after}");
    let line = eventually("a line", || match gateway.process.access() {
        lines if lines.contains("queue_timeout") => Ok(lines),
        lines => Err(lines),
    });
    assert!(line.contains("bypassed=false"), "{line}");
}
