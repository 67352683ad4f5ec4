//! N05: backends that accept requests and respond to none, and backends that only seem to.

use std::time::Duration;

use crate::support::gateway::{TWO, config};
use crate::support::scripted_response::Step;
use crate::support::{Backend, Call, Engine, Gateway, HttpRequest, ScriptedResponse, Stopwatch};
use crate::support::{chat, eventually};

const CLIENTS: usize = 40;
const SOON: &str = "[health]\nsilence_limit = \"500ms\"\n";

/// Exactly three in flight at the backend.
const THREE: &str = "[controller]\nlower_bound_per_backend = 3\n\
    watermark_per_backend = 3\nupper_bound_per_backend = 3\n";

/// A response that comes as a whole and is short.
fn short() -> HttpRequest {
    chat("m").with("max_tokens", 1)
}

/// Why a backend is ejected, once it is.
fn ejected(gateway: &Gateway, id: &str) -> String {
    eventually("ejected", || match gateway.backend(id) {
        shown if shown["state"] == "ejected" => Ok(shown["reason"].to_string()),
        shown => Err(shown.to_string()),
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
        let reason = ejected(&gateway, "wedged");
        assert!(reason.contains("the longest time of other backends is"), "{reason}");
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
    let reason = ejected(&gateway, "one");
    assert!(reason.contains("it began no response for"), "{reason}");
    served(calls);
    gateway.await_idle();
}

/// The last response began after the request was sent, but long ago.
#[test]
fn n05_a_backend_that_stops_after_a_response_is_noticed() {
    let backend = Backend::start(|seen| match (seen.tag().as_str(), seen.number) {
        ("early", 1..=2) => ScriptedResponse::silence(),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before(&format!("{SOON}{THREE}"), &backend);
    assert_eq!(gateway.ask(&short()).status, 200);
    let early = [1, 2].map(|number| {
        let call = gateway.send(&short().tag("early"));
        backend.await_seen(1 + number);
        call
    });
    assert_eq!(gateway.ask(&short()).status, 200);
    // The first of them that is sent again brings the backend back, perhaps at once.
    gateway.process.await_log("it began no response for", 1);
    served(early.into());
    assert_eq!(sent(&backend, "early"), 4);
}

/// A trial takes no longer than other requests, and costs its client no failure.
#[test]
fn n05_every_trial_of_a_wedged_backend_moves_to_a_good_one() {
    let wedged = Backend::start(|_| ScriptedResponse::silence());
    let good = Backend::start(|_| ScriptedResponse::ok().after_ms(5));
    let backends = [("wedged", wedged.address()), ("good", good.address())];
    let health = format!("{SOON}eject_for = \"50ms\"\n");
    let ttl = "[queue]\nqueue_ttl = \"4s\"\n";
    let gateway = Gateway::start(&config(&format!("{ttl}{health}{TWO}"), &backends));
    let mut calls = std::collections::VecDeque::new();
    while wedged.seen().len() < 8 {
        calls.push_back(gateway.send(&chat("m").streamed()));
        // Requests at the good backend go on while one is at the wedged one.
        if calls.len() > 8 {
            served(calls.pop_front().into_iter().collect());
        }
    }
    served(calls.into());
}

/// The model may have to be loaded again, because the last response was for another one.
#[test]
fn n05_a_backend_that_may_load_a_model_is_waited_for() {
    let slow = |tag: &str| matches!(tag, "cold");
    let backend = Backend::start(move |seen| match slow(&seen.tag()) {
        true => ScriptedResponse::ok().after_ms(2500),
        false => ScriptedResponse::ok(),
    });
    let entry = format!("url = \"http://{}\"\nmodels = [\"m\", \"n\"]", backend.address());
    let gateway = format!("{SOON}{TWO}[[backends]]\nid = \"one\"\n{entry}\n");
    let gateway = Gateway::start(&gateway);
    for model in ["m", "n"] {
        assert_eq!(gateway.ask(&chat(model).streamed()).status, 200);
    }
    let cold = chat("m").streamed().tag("cold");
    served(vec![gateway.send(&cold), gateway.send(&cold)]);
    assert_eq!((sent(&backend, "cold"), &gateway.backend("one")["state"]), (2, &"ready".into()));
}

#[test]
fn n05_one_request_alone_does_not_eject_the_only_backend() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "slow" => ScriptedResponse::ok().after_ms(2500),
        _ => ScriptedResponse::ok(),
    });
    let gateway = Gateway::before(&format!("{SOON}{TWO}"), &backend);
    assert_eq!(gateway.ask(&chat("m").streamed()).status, 200);
    assert_eq!(gateway.ask(&chat("m").streamed().tag("slow")).status, 200);
    assert_eq!((sent(&backend, "slow"), &gateway.backend("one")["state"]), (1, &"ready".into()));
}

/// Taken back, it could not wait for another attempt.
#[test]
fn n05_a_request_whose_time_to_live_is_over_stays_at_its_backend() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "slow" => ScriptedResponse::ok().after_ms(2500),
        _ => ScriptedResponse::ok(),
    });
    let ttl = "[queue]\nqueue_ttl = \"2s\"\n";
    let gateway = Gateway::before(&format!("{ttl}{SOON}{TWO}"), &backend);
    assert_eq!(gateway.ask(&chat("m").streamed()).status, 200);
    let slow = chat("m").streamed().tag("slow");
    served(vec![gateway.send(&slow), gateway.send(&slow)]);
    assert_eq!(sent(&backend, "slow"), 2);
}

/// The end of the wait is the client's, not the backend's.
#[test]
fn n05_a_deadline_of_a_client_ejects_no_backend_over_http_2() {
    for limit in ["0s", "10s"] {
        let engine = Engine::start(&["--time-to-first-token", "3s"]);
        let entry = format!("url = \"http://{}\"\nhttp2 = true", engine.address());
        let health = format!("[health]\nsilence_limit = \"{limit}\"\n");
        let gateway = format!("{health}{TWO}[[backends]]\nid = \"one\"\n{entry}\n");
        let gateway = Gateway::start(&gateway);
        let ask = chat("stand-in").with("max_tokens", 4).streamed();
        let answer = gateway.ask(&ask.header("X-Request-Timeout-Ms", "300"));
        assert_eq!(answer.status, 504, "{}", answer.text());
        assert_eq!(gateway.backend("one")["state"], "ready");
    }
}

/// An engine whose places are all taken begins no response, but the streams that it has go on.
#[test]
fn n05_a_backend_that_streams_is_not_silent() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "runs" => (0..20).fold(ScriptedResponse::stream_begun("a"), |stream, _| {
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
    for _ in 0..20 {
        assert!(runs.chunk().is_some());
    }
    backend.open();
    assert_eq!(waits.finish().status, 200);
    assert_eq!((sent(&backend, "waits"), &gateway.backend("one")["state"]), (1, &"ready".into()));
}

/// A response that comes as a whole may take long, if its client does not limit it.
#[test]
fn n05_a_long_response_without_a_limit_is_waited_for() {
    let server = || {
        Backend::start(|seen| match seen.tag().as_str() {
            "long" => ScriptedResponse::ok().after_ms(2500),
            _ => ScriptedResponse::ok(),
        })
    };
    let image = r#"{"model": "m", "prompt": "the tide"}"#;
    let image = HttpRequest::post("/v1/images/generations", image);
    for ask in [image, chat("m")] {
        let servers = [server(), server()];
        let backends = [("first", servers[0].address()), ("second", servers[1].address())];
        let gateway = Gateway::start(&config(&format!("{SOON}{TWO}"), &backends));
        assert!((0..6).all(|_| gateway.ask(&ask).status == 200));
        let long = gateway.send(&ask.clone().tag("long"));
        let watch = Stopwatch::start();
        while watch.elapsed() < Duration::from_millis(2000) {
            assert_eq!(gateway.ask(&ask).status, 200, "other responses come");
        }
        assert_eq!(long.finish().status, 200);
        let sent: usize = servers.iter().map(|server| sent(server, "long")).sum();
        assert_eq!(sent, 1);
        assert!(gateway.backends().iter().all(|backend| backend["state"] == "ready"));
    }
}
