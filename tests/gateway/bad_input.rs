//! Invalid input from clients and from backends: each case ends with a clear error and leaves
//! nothing behind.

use std::thread;

use crate::support::gateway::{ONE, TWO};
use crate::support::scripted_response::Step;
use crate::support::tools::{run, tool};
use crate::support::{Backend, Call, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// Limits that a test can reach.
const TIGHT: &str = "[server]\nbody_limit = \"64KiB\"\nheader_timeout = \"1s\"\n\
    body_timeout = \"1s\"\nwrite_timeout = \"1s\"\n[upstream]\nanswer_timeout = \"1s\"\n\
    stall_timeout = \"1s\"\n[health]\neject_after = 1000\n[retry]\nattempts = 1\n";

fn tight(backend: &Backend) -> Gateway {
    Gateway::before(&format!("{TIGHT}{TWO}"), backend)
}

/// Sends raw bytes, ends the request, and returns the status; 0 for no response.
fn status(gateway: &Gateway, bytes: &[u8]) -> u16 {
    let mut call = Call::open(gateway.address(), b"");
    // The gateway may refuse before it has read everything.
    let _ = call.send(bytes);
    call.end();
    call.answer().map_or(0, |answer| answer.status)
}

fn post(body: &str) -> HttpRequest {
    HttpRequest::post("/v1/chat/completions", body)
}

fn bodies() -> Vec<(HttpRequest, u16)> {
    let deep = format!("{{\"model\":\"m\",\"x\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let long = format!("{{\"model\":\"{}\"}}", "m".repeat(10_000));
    vec![
        (post(""), 400),
        (post("not json"), 400),
        (post("{\"model\":\"m\""), 400),
        (post("{\"model\":7}"), 400),
        (post("{\"model\":\"\"}"), 400),
        (post("{\"model\":null}"), 400),
        (post("{\"messages\":[]}"), 400),
        (post("[]"), 400),
        (post("\"m\""), 400),
        (post(&deep), 400),
        (HttpRequest::post("/v1/chat/completions", b"{\"model\":\"\xff\xfe\"}".as_slice()), 400),
        (post(&long), 400),
        (post("{\"model\":\"../../etc/passwd\\u0000\"}"), 400),
        (HttpRequest::post("/v1/embeddings", "{"), 400),
        (HttpRequest::post("/api/chat", "{"), 400),
    ]
}

#[test]
fn x03_bodies_that_make_no_sense_are_refused_with_a_reason() {
    let backend = Backend::quick();
    let gateway = tight(&backend);
    for (ask, expected) in bodies() {
        let answer = gateway.ask(&ask);
        let shown = String::from_utf8_lossy(&ask.body).chars().take(60).collect::<String>();
        // Deep nesting is not a fault of the gateway: it may forward or refuse the body.
        if answer.status == 200 && shown.contains("[[[") {
            continue;
        }
        assert_eq!(answer.status, expected, "{shown}: {}", answer.text());
        assert!(!answer.code().is_empty());
    }
    gateway.await_idle();
}

/// An operator who asks why a request was refused finds it in the log by its id.
#[test]
fn x03_refused_requests_are_in_the_access_log() {
    let backend = Backend::quick();
    let gateway = tight(&backend);
    let answer = gateway.ask(&post("not json").header("X-Request-ID", "lost-1"));
    assert_eq!((answer.status, answer.header("x-request-id")), (400, Some("lost-1")));
    let unnamed = gateway.ask(&post("not json"));
    let made = unnamed.header("x-request-id").unwrap();
    eventually("their lines", || {
        let lines = gateway.process.access();
        let told =
            |id: &str| lines.lines().any(|line| line.contains(id) && line.contains("bytes_in=8 "));
        if told("lost-1") && told(made) { Ok(()) } else { Err(lines) }
    });
}

#[test]
fn x03_bodies_that_are_too_large_are_refused_before_they_are_read() {
    let backend = Backend::quick();
    let gateway = tight(&backend);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";
    let mut told = Call::open(gateway.address(), b"");
    told.send(format!("{head}content-length: 99999999999\r\n\r\n").as_bytes()).unwrap();
    let answer = told.finish();
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    let mut chunked = Call::open(gateway.address(), b"");
    chunked.send(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let piece = [b"2000\r\n".as_slice(), &[b'x'; 0x2000], b"\r\n"].concat();
    // The gateway may close the connection while the client still sends.
    while chunked.send(&piece).is_ok() && backend.seen().is_empty() {}
    let refused = chunked.answer();
    assert!(refused.as_ref().map_or(true, |answer| answer.status == 413), "{refused:?}");
    assert!(backend.seen().is_empty());
    gateway.await_idle();
}

#[test]
fn x03_bodies_are_bounded_all_together() {
    let backend = Backend::held();
    // One address may use three quarters of it.
    let limits = "[server]\nbody_limit = \"64KiB\"\nbodies_limit = \"192KiB\"\n";
    let gateway = Gateway::before(&format!("{limits}{ONE}"), &backend);
    let large = || chat("m").with("prompt", "x".repeat(60 << 10));
    let running = gateway.send(&chat("m"));
    backend.await_running(1);
    let waiting = [0, 1].map(|others| gateway.enqueue(&large(), others));
    gateway.ask(&large()).refused(503, "overloaded");
    backend.open();
    assert!([running].into_iter().chain(waiting).all(|call| call.finish().status == 200));
    assert_eq!(gateway.ask(&large()).status, 200, "what was held is given back");
    gateway.await_idle();
}

/// The bodies of best-effort requests that wait leave memory to others, also of the same client.
#[test]
fn p07_waiting_bodies_of_lower_bands_refuse_no_critical_request() {
    let backend = Backend::held();
    let limits = "[server]\nbody_limit = \"64KiB\"\nbodies_limit = \"256KiB\"\n";
    let (gateway, running) = Gateway::occupied(&format!("{limits}{ONE}"), &backend, &chat("m"));
    let of = |band: &str| chat("m").with("prompt", "x".repeat(30 << 10)).priority(band);
    let mut waiting = Vec::new();
    let refused = loop {
        let mut call = gateway.send(&of("best-effort"));
        let depth = waiting.len() + 1;
        let decided = || match (call.has_begun(), gateway.depth()) {
            (true, _) => Ok(true),
            (_, found) if found == depth => Ok(false),
            (_, found) => Err(found.to_string()),
        };
        if eventually("waits or is refused", decided) {
            break call.head().status;
        }
        waiting.push(call);
        assert!(waiting.len() < 9, "nothing is refused");
    };
    assert_eq!(refused, 503);
    let critical = gateway.enqueue(&of("critical"), waiting.len());
    backend.open();
    for call in waiting.into_iter().chain([running, critical]) {
        assert_eq!(call.finish().status, 200);
    }
    gateway.await_idle();
}

/// Requests that no proxy may forward, because two parsers would read them differently.
fn smuggled() -> Vec<Vec<u8>> {
    let body = "{\"model\":\"m\"}";
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";
    let second = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
    let with = |headers: &str, rest: &str| format!("{head}{headers}\r\n\r\n{rest}").into_bytes();
    vec![
        with("content-length: 5\r\ncontent-length: 13", body),
        with("content-length: 13, 5", body),
        with("content-length: 5\r\ntransfer-encoding: chunked", &format!("0\r\n\r\n{second}")),
        with("content-length: -1", body),
        with("content-length: +13", body),
        with("content-length: 0x0d", body),
        with("content-length: 99999999999999999999999", body),
        with("transfer-encoding: gzip", body),
        with("transfer-encoding: chunked, identity", &format!("0\r\n\r\n{second}")),
        with("transfer-encoding : chunked", "0\r\n\r\n"),
        with("transfer-encoding: chunked", "zz\r\nabc\r\n0\r\n\r\n"),
        with("transfer-encoding: chunked", "ffffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
        with("bad header", body),
        with("x: a\r\n folded", body),
        with("x-bad: \u{0}", body),
    ]
}

/// Servers read other codings differently, so that one could see a request that another does not.
#[test]
fn x03_transfer_codings_besides_chunked_alone_are_refused() {
    let backend = Backend::quick();
    let gateway = Gateway::before("", &backend);
    let body = "{\"model\":\"m\"}";
    let answered = |coding: &str| {
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        let request = format!("{head}transfer-encoding: {coding}\r\n\r\n{chunks}");
        Call::open(gateway.address(), request.as_bytes()).finish().status
    };
    let twice = "chunked\r\ntransfer-encoding: chunked";
    for coding in ["gzip, chunked", "identity, chunked", "chunked, chunked", twice] {
        assert_eq!(answered(coding), 400, "{coding}");
    }
    assert!(backend.seen().is_empty());
    assert_eq!(answered("Chunked"), 200);
}

/// A client of HTTP/2 can name thousands of fields in a few bytes.
#[test]
fn x03_heads_of_too_many_fields_are_refused_over_either_version() {
    let backend = Backend::quick();
    let gateway = Gateway::before("", &backend);
    let url = format!("{}/v1/chat/completions", gateway.url());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let mut curl = tool("curl");
        curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", version, &url, "-d", "{}"]);
        for number in 0..120 {
            curl.args(["-H", &format!("x-{number}: 1")]);
        }
        assert_eq!(run(&mut curl), "431", "{version}");
    }
    assert!(backend.seen().is_empty());
}

#[test]
fn x03_conflicting_lengths_and_broken_heads_are_never_passed_on() {
    let backend = Backend::quick();
    let gateway = tight(&backend);
    for request in smuggled() {
        let got = status(&gateway, &request);
        let shown = String::from_utf8_lossy(&request).into_owned();
        assert!(got == 0 || (400..500).contains(&got) || got == 501, "{got} for {shown}");
    }
    assert!(backend.seen().is_empty(), "{:?}", backend.seen());
    for noise in [b"\x16\x03\x01\x02\x00\x01\x00\x01".as_slice(), b"\r\n\r\n\r\n", b"GET\r\n\r\n"] {
        let got = status(&gateway, noise);
        assert!(got == 0 || got == 400, "{got}");
    }
    assert_eq!(gateway.ask(&chat("m")).status, 200);
}

#[test]
fn x03_floods_of_headers_are_refused() {
    let backend = Backend::quick();
    let gateway = tight(&backend);
    let large = chat("m").header("x-large", &"x".repeat(70 << 10));
    let many = (0..2000).fold(chat("m"), |ask, number| ask.header(&format!("x-{number}"), "1"));
    for ask in [large, many] {
        let got = status(&gateway, &ask.bytes());
        assert!(got == 0 || got == 431 || got == 400, "{got}");
    }
    let path = HttpRequest::get(&format!("/v1/{}", "x".repeat(100 << 10)));
    assert!(matches!(status(&gateway, &path.bytes()), 0 | 400 | 414 | 431));
    let fits = chat("m").header("x-large", &"x".repeat(16 << 10));
    assert_eq!(gateway.ask(&fits).status, 200);
    assert_eq!(backend.seen().len(), 1);
}

#[test]
fn x03_slow_senders_are_timed_out() {
    let backend = Backend::quick();
    let gateway = tight(&backend);
    let slow_head = Call::open(gateway.address(), b"POST /v1/chat/comp");
    let body = chat("m").bytes();
    let slow_body = Call::open(gateway.address(), &body[..body.len() - 5]);
    let silent = Call::open(gateway.address(), b"");
    for mut call in [slow_head, slow_body, silent] {
        if let Ok(answer) = call.answer() {
            assert_eq!(answer.status, 408, "{}", answer.text());
        }
    }
    gateway.await_idle();
}

#[test]
fn x03_a_client_that_sends_a_byte_now_and_then_is_timed_out() {
    let backend = Backend::quick();
    let gateway = tight(&backend);
    let body = chat("m").with("long", "x".repeat(60_000)).bytes();
    let mut call = Call::open(gateway.address(), &body[..400]);
    let mut rest = body[400..].iter();
    let mut cut = || match rest.next() {
        Some(byte) if call.send(&[*byte]).is_ok() => Err("it is still listened to".into()),
        sent => Ok(sent.is_some()),
    };
    assert!(eventually("cut", &mut cut), "a slow sender was waited for");
    gateway.await_idle();
}

#[test]
fn x03_a_client_that_never_reads_holds_nothing_for_ever() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n";
    let backend = Backend::start(move |_| {
        ScriptedResponse::raw(head).then(Step::Endless(vec![b'x'; 64 << 10]))
    });
    let gateway = tight(&backend);
    let deaf = gateway.send(&chat("m"));
    backend.await_left(1);
    gateway.await_idle();
    gateway.await_metrics("counted", |metrics| {
        let label = "outcome=\"client_stalled\"";
        let stalled = metrics.sum_where("tidegate_requests_total", label);
        if stalled == 1.0 { Ok(()) } else { Err(stalled.to_string()) }
    });
    drop(deaf);
}

/// The response of a broken backend, by the tag of the request.
fn broken(tag: &str) -> ScriptedResponse {
    let said = |text: &str| ScriptedResponse::raw(text).then(Step::Close);
    match tag {
        "garbage" => said("\u{1}\u{2}\u{3} this is no HTTP\r\n\r\n"),
        "nothing" => said(""),
        "half a head" => said("HTTP/1.1 200 OK\r\ncontent-le"),
        "short" => said("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort"),
        "two lengths" => said("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 9\r\n\r\nx"),
        "long" => said("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n"),
        "mid-chunk" => {
            said("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nhalf of it")
        }
        "bad chunk" => said("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n"),
        "large head" => said(&format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20))),
        "silent" => ScriptedResponse::silence(),
        "stalls" => ScriptedResponse::stream_begun("a").then(Step::Silence),
        "reset" => ScriptedResponse::reset(),
        "endless" => {
            ScriptedResponse::stream_begun("a").then(Step::Endless(b"1\r\nx\r\n".repeat(999)))
        }
        _ => ScriptedResponse::ok(),
    }
}

const BROKEN: [&str; 13] = [
    "garbage",
    "nothing",
    "half a head",
    "short",
    "two lengths",
    "long",
    "mid-chunk",
    "bad chunk",
    "large head",
    "silent",
    "stalls",
    "reset",
    "endless",
];

#[test]
fn bad_backends_end_in_a_clear_error_and_leave_nothing_behind() {
    let backend = Backend::start(|seen| broken(&seen.tag()));
    let gateway = tight(&backend);
    for tag in BROKEN {
        // A backend that answers nothing at all would be waited for.
        assert_eq!(gateway.ask(&chat("m")).status, 200, "before {tag}");
        let mut call = gateway.send(&chat("m").tag(tag));
        match tag {
            "long" => assert_eq!(call.finish().status, 200, "{tag}"),
            // A response that has begun can only be cut.
            "short" | "mid-chunk" | "bad chunk" | "stalls" => {
                let cut = call.answer().map_or(true, |answer| answer.status == 502);
                assert!(cut, "{tag}");
            }
            // The response lasts for as long as the client stays.
            "endless" => drop(call),
            _ => {
                let answer = call.finish();
                let told = (answer.status, answer.code());
                assert!(matches!(told.0, 502 | 504), "{tag}: {told:?}");
            }
        }
    }
    gateway.await_idle();
    assert_eq!(gateway.ask(&chat("m")).status, 200, "and the next one is served");
}

#[test]
fn x03_the_head_of_a_response_has_a_limit() {
    let head = |size: usize| {
        let line = format!("x-long: {}\r\n", "x".repeat(4 << 10));
        let lines = line.repeat(size / line.len());
        format!("HTTP/1.1 200 OK\r\n{lines}content-length: 2\r\n\r\n{{}}")
    };
    let backend = Backend::start(move |seen| match seen.tag().as_str() {
        "long" => ScriptedResponse::raw(head(400 << 10)),
        _ => ScriptedResponse::raw(head(200 << 10)),
    });
    let gateway = Gateway::before(&format!("[retry]\nattempts = 1\n{TWO}"), &backend);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let answer = gateway.ask(&chat("m").tag("long"));
    assert_eq!((answer.status, answer.code().as_str()), (502, "backend_error"));
    assert!(answer.text().contains("its head is larger than 256 KiB"), "{}", answer.text());
    gateway.await_idle();
}

/// Sends all kinds of invalid requests.
fn send_nonsense(gateway: &Gateway) {
    bodies().iter().for_each(|(ask, _)| _ = gateway.send(ask).answer());
    smuggled().iter().for_each(|bytes| _ = status(gateway, bytes));
}

/// Sends a request to every broken backend, and reads to the end or leaves at once.
fn meet_broken_backends(gateway: &Gateway, stay: bool) {
    for tag in BROKEN {
        let mut call = gateway.send(&chat("m").tag(tag));
        if stay && tag != "endless" {
            let _ = call.answer();
        }
    }
}

/// Begins a request and leaves, after every seventh byte of it.
fn leave_half_way(gateway: &Gateway) {
    let whole = chat("m").streamed().bytes();
    for cut in (0..whole.len()).step_by(7) {
        drop(Call::open(gateway.address(), &whole[..cut]));
    }
}

#[test]
fn a_flood_of_everything_bad_leaves_every_count_at_zero() {
    let backend = Backend::start(|seen| broken(&seen.tag()));
    let gateway = tight(&backend);
    thread::scope(|scope| {
        for round in 0..3 {
            scope.spawn(|| send_nonsense(&gateway));
            scope.spawn(|| leave_half_way(&gateway));
            let gateway = &gateway;
            scope.spawn(move || meet_broken_backends(gateway, round == 0));
        }
    });
    gateway.await_idle();
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    gateway.await_idle();
}
