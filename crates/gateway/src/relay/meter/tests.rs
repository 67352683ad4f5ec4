//! Tokens and usage are found however the bytes are cut.

use super::*;

const CHAT: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],",
    "\"usage\":null}\n\n",
    ": a comment\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usage\":null}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"total_tokens\":13,",
    "\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
    "data: [DONE]\n\n",
);

fn read(shape: Shape, chunks: &[&[u8]]) -> Meter {
    let mut meter = Meter::new(shape);
    for chunk in chunks {
        meter.read(chunk);
    }
    meter
}

#[test]
fn usage_is_found_however_the_stream_is_cut() {
    let bytes = CHAT.as_bytes();
    for size in 1..bytes.len() {
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        let meter = read(Shape::Events, &chunks);
        let want = Tokens { prompt: Some(11), output: Some(2) };
        assert_eq!(meter.used(), want, "in chunks of {size}");
    }
}

#[test]
fn a_greeting_is_not_the_first_token() {
    let events: Vec<&[u8]> = CHAT.split_inclusive("\n\n").map(str::as_bytes).collect();
    let mut meter = Meter::new(Shape::Events);
    assert!(!meter.read(events[0]), "the role alone");
    assert!(!meter.read(events[1]), "a comment");
    assert!(meter.read(events[2]));
    assert_eq!(meter.tokens(), 1);
}

#[test]
fn ollama_counts_in_lines_and_tells_its_counts_at_the_end() {
    let lines = [
        &b"{\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"done\":false}\n"[..],
        b"{\"done\":true,\"total_duration\":5,\"prompt_eval_count\":26,\"eval_count\":298}\n",
    ];
    let meter = read(Shape::Lines, &lines);
    assert_eq!(meter.tokens(), 2);
    assert_eq!(meter.used(), Tokens { prompt: Some(26), output: Some(298) });
}

#[test]
fn a_whole_answer_tells_its_usage_and_no_tokens() {
    let answer =
        b"{\"usage\": {\"input_tokens\": 7, \"output_tokens\": 3}, \"object\":\"response\"}";
    let meter = read(Shape::Whole, &[answer]);
    assert_eq!(meter.tokens(), 0);
    assert_eq!(meter.used(), Tokens { prompt: Some(7), output: Some(3) });
}

#[test]
fn nothing_said_is_nothing_known() {
    for text in ["", "{}", "\"usage\"", "{\"usage\":{\"prompt_tokens\":x}}"] {
        assert_eq!(read(Shape::Whole, &[text.as_bytes()]).used(), Tokens::default(), "{text}");
    }
}
