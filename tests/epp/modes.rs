//! Without the bodies of answers: their heads and their ends are enough to keep count.

use crate::support::gateway::{ONE, TWO, config};
use crate::support::{Answer, Backend, Picker, Recipe, chat};

fn heads_only(sections: &str, backend: &Backend) -> Picker {
    Picker::start(Recipe::heads_only(), &config(sections, &[("one", backend.address())]))
}

#[test]
fn x02_without_bodies_an_answer_counts_until_its_end() {
    let backend = Backend::start(|_| Answer::stream_held(&["the ", "tide"]));
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
fn x02_without_bodies_answers_keep_their_length_and_headers() {
    let body = "{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}";
    let backend = Backend::start(move |_| Answer::json(200, body));
    let picker = heads_only(TWO, &backend);
    let answer = picker.ask(&chat("m"));
    assert_eq!((answer.status, answer.text().as_str()), (200, body));
    assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
    assert_eq!(answer.header("x-backend-used"), Some("one"));
    picker.await_idle();
}

#[test]
fn x02_without_bodies_whoever_leaves_makes_room() {
    let backend = Backend::start(|_| Answer::stream_held(&["the ", "tide"]));
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
