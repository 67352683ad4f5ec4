//! N05: backends that accept requests and respond to none, and backends that only seem to.

use crate::support::gateway::{TWO, config};
use crate::support::scripted_response::Step;
use crate::support::{Backend, Call, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

const CLIENTS: usize = 40;
const SOON: &str = "[health]\nsilence_limit = \"500ms\"\n";

/// A response that comes as a whole and is short.
fn short() -> HttpRequest {
    chat("m").with("max_tokens", 1)
}

/// The state of a backend, once it is ejected.
fn ejected(gateway: &Gateway, id: &str) -> String {
    eventually("ejected", || match gateway.backend(id)["state"].to_string() {
        state if state.contains("ejected") => Ok(state),
        state => Err(state),
    })
}

fn served(calls: Vec<Call>) {
    for call in calls {
        let response = call.finish();
        assert_eq!(response.status, 200, "{}", response.text());
    }
}

/// How often the backend got the request with this tag.
fn sent(backend: &Backend, tag: &str) -> usize {
    backend.tags().into_iter().filter(|found| found == tag).count()
}

/// It has no times of its own, but the other backend has.
#[test]
fn n05_a_backend_that_never_responded_is_measured_by_the_others() {
    for ask in [chat("m").streamed(), short()] {
        let wedged = Backend::start(|_| ScriptedResponse::silence());
        let good = Backend::quick();
        let backends = [("wedged", wedged.address()), ("good", good.address())];
        let gateway = Gateway::start(&config(&format!("{SOON}{TWO}"), &backends));
        let calls: Vec<Call> = (0..CLIENTS).map(|_| gateway.send(&ask)).collect();
        eventually("a request at the wedged backend", || match wedged.seen().len() {
            0 => Err("none".into()),
            count => Ok(count),
        });
        let others = || match gateway.ask(&ask).status {
            200 if gateway.backend("wedged")["state"] != "ready" => Ok(()),
            status => Err(status.to_string()),
        };
        eventually("found while others respond", others);
        let state = ejected(&gateway, "wedged");
        assert!(state.contains("the longest time of other backends is"), "{state}");
        served(calls);
        gateway.await_idle();
    }
}

/// Many engines send the head of a stream at once, whether or not they compute anything.
#[test]
fn n05_a_stream_without_a_first_byte_is_taken_back() {
    let wedged = |seen: &crate::support::backend::Seen| match seen.number {
        6..9 => ScriptedResponse::stream_head().then(Step::Silence),
        _ => ScriptedResponse::stream(&["data: {}\n\n", "data: [DONE]\n\n"]),
    };
    let backend = Backend::start(wedged);
    let gateway = Gateway::before(&format!("{SOON}eject_for = \"1s\"\n{TWO}"), &backend);
    for _ in 0..6 {
        assert_eq!(gateway.ask(&chat("m").streamed()).status, 200);
    }
    let calls = (0..CLIENTS).map(|_| gateway.send(&chat("m").streamed())).collect();
    let state = ejected(&gateway, "one");
    assert!(state.contains("it began no response for"), "{state}");
    served(calls);
    gateway.await_idle();
}

/// The last response began after the request was sent, but long ago.
#[test]
fn n05_a_backend_that_stops_after_a_response_is_noticed() {
    let backend = Backend::start(|seen| match (seen.tag().as_str(), seen.number) {
        ("early", 1) => ScriptedResponse::silence(),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before(&format!("{SOON}{TWO}"), &backend);
    assert_eq!(gateway.ask(&short()).status, 200);
    let early = gateway.send(&short().tag("early"));
    backend.await_seen(2);
    assert_eq!(gateway.ask(&short()).status, 200);
    ejected(&gateway, "one");
    assert_eq!(early.finish().status, 200);
    assert_eq!(sent(&backend, "early"), 2);
}

/// An engine whose places are all taken begins no response, but the streams that it has go on.
#[test]
fn n05_a_backend_that_streams_is_not_silent() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "runs" => (0..40).fold(ScriptedResponse::stream_begun("a"), |stream, _| {
            let piece = ScriptedResponse::raw("1\r\nb\r\n").after_ms(50);
            stream.then_all(piece)
        }),
        "waits" => ScriptedResponse::ok().held(),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before(&format!("{SOON}{TWO}"), &backend);
    let ask = chat("m").streamed();
    assert_eq!(gateway.ask(&ask).status, 200);
    let mut runs = gateway.send(&ask.clone().tag("runs"));
    assert_eq!(runs.head().status, 200);
    let waits = gateway.send(&ask.tag("waits"));
    for _ in 0..40 {
        assert!(runs.chunk().is_some());
    }
    backend.open();
    assert_eq!(waits.finish().status, 200);
    assert_eq!((sent(&backend, "waits"), &gateway.backend("one")["state"]), (1, &"ready".into()));
}

/// A response that comes as a whole may take long, if its client does not limit it.
#[test]
fn n05_a_long_response_without_a_limit_is_waited_for() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "long" => ScriptedResponse::ok().after_ms(2500),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before(&format!("{SOON}{TWO}"), &backend);
    let image = r#"{"model": "m", "prompt": "the tide"}"#;
    let image = HttpRequest::post("/v1/images/generations", image);
    assert_eq!(gateway.ask(&image).status, 200);
    assert_eq!(gateway.ask(&image.tag("long")).status, 200);
    assert_eq!((sent(&backend, "long"), &gateway.backend("one")["state"]), (1, &"ready".into()));
}
