//! With response bodies first tokens are seen; without them heads and ends of responses are enough
//! to count requests.

use crate::support::gateway::{ONE, TWO, config};
use crate::support::{Backend, Engine, Picker, Recipe, ScriptedResponse, chat, eventually};

fn heads_only(sections: &str, backend: &Backend) -> Picker {
    Picker::start(Recipe::heads_only(), &config(sections, &[("one", backend.address())]))
}

#[test]
fn x02_without_bodies_a_response_counts_until_its_end() {
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["the ", "tide"]));
    let picker = heads_only(ONE, &backend);
    let mut first = picker.send(&chat("m").streamed());
    assert_eq!(first.head().status, 200);
    backend.release(1);
    assert!(first.chunk().is_some());
    let second = picker.enqueue(&chat("m").streamed(), 0);
    assert_eq!(picker.metrics().sum("tidegate_stock_level"), 1.0);
    assert_eq!(backend.seen().len(), 1, "the first has begun, but not ended");
    backend.release(1);
    assert!(first.finish().text().ends_with("data: [DONE]\n\n"));
    backend.await_seen(2);
    backend.open();
    assert_eq!(second.finish().status, 200);
    assert_eq!(backend.most(), 1);
    picker.await_idle();
    let ended = picker.metrics().sum_where("tidegate_requests_total", "outcome=\"ok\"");
    assert_eq!(ended, 2.0, "the end of the stream is the end of the answer");
}

#[test]
fn x02_without_bodies_responses_keep_their_length_and_headers() {
    let body = "{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}";
    let backend = Backend::start(move |_| ScriptedResponse::json(200, body));
    let picker = heads_only(TWO, &backend);
    let answer = picker.ask(&chat("m"));
    assert_eq!((answer.status, answer.text().as_str()), (200, body));
    assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
    assert_eq!(answer.header("x-backend-used"), Some("one"));
    picker.await_idle();
}

#[test]
fn x02_without_bodies_a_client_that_leaves_makes_room() {
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["the ", "tide"]));
    let picker = heads_only(ONE, &backend);
    let mut first = picker.send(&chat("m").streamed());
    backend.release(1);
    assert!(first.chunk().is_some());
    let second = picker.enqueue(&chat("m").streamed(), 0);
    drop(first);
    backend.await_left(1);
    backend.open();
    assert_eq!(second.finish().status, 200);
    picker.await_idle();
}

/// How many at the backend have shown no first token yet.
fn unstarted(picker: &Picker) -> u64 {
    let limits = picker.backend("one")["limits"].clone();
    limits["unstarted"]["now"].as_f64().unwrap_or_else(|| panic!("{limits}")) as u64
}

#[test]
fn x02_c10_automatic_bounds_see_the_first_token_of_a_stream() {
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["the ", "tide"]));
    let picker = Picker::before("", &backend);
    let mut call = picker.send(&chat("m").streamed());
    backend.await_held(1);
    let limits = picker.backend("one")["limits"].clone();
    assert_eq!((&limits["mode"], unstarted(&picker)), (&"auto".into(), 1), "{limits}");
    backend.release(1);
    assert!(call.chunk().is_some());
    eventually("started", || match unstarted(&picker) {
        0 => Ok(()),
        count => Err(format!("{count} have not started")),
    });
    backend.open();
    assert_eq!(call.finish().status, 200);
    picker.await_idle();
}

#[test]
fn x02_c10_engines_are_served_under_automatic_bounds_in_both_modes() {
    for recipe in [Recipe::original_dst(), Recipe::heads_only()] {
        let pace = ["--time-to-first-token", "5ms", "--inter-token-latency", "1ms"];
        let engine = Engine::start(&[&pace[..], &["--model", "m"]].concat());
        let picker = Picker::start(recipe, &config("", &[("one", engine.address())]));
        let ask = |number: usize| match number % 2 {
            0 => chat("m").with("max_tokens", 8).streamed(),
            _ => chat("m").with("max_tokens", 8),
        };
        let calls: Vec<_> = (0..60).map(|number| picker.send(&ask(number))).collect();
        for call in calls {
            let answer = call.finish();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        assert_eq!(engine.control()["completed"], 60);
        picker.await_idle();
    }
}
