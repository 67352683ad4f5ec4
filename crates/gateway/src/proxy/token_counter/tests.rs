//! TokenUsage and usage are found however the bytes are cut.

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

fn read(format: StreamFormat, chunks: &[&[u8]]) -> TokenCounter {
    let mut counter = TokenCounter::new(format);
    for chunk in chunks {
        counter.read(chunk);
    }
    counter
}

#[test]
fn usage_is_found_however_the_stream_is_cut() {
    let bytes = CHAT.as_bytes();
    for size in 1..bytes.len() {
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        let counter = read(StreamFormat::Events, &chunks);
        let want =
            TokenUsage { prompt: Some(11), output: Some(2), cached: Some(4), counted: false };
        assert_eq!(counter.usage(), want, "in chunks of {size}");
    }
}

#[test]
fn a_greeting_is_not_the_first_token() {
    let events: Vec<&[u8]> = CHAT.split_inclusive("\n\n").map(str::as_bytes).collect();
    let mut counter = TokenCounter::new(StreamFormat::Events);
    assert!(!counter.read(events[0]), "the role alone");
    assert!(!counter.read(events[1]), "a comment");
    assert!(counter.read(events[2]));
    assert_eq!(counter.tokens(), 1);
}

/// What servers send that tell no usage: the greeting, what says nothing and the end are no tokens.
#[test]
fn only_events_with_content_are_counted() {
    let nothing = [
        r#"{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"choices": [{"delta": {"role": null, "content": null}, "finish_reason": "stop"}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#,
        r#"{"choices":[{"text":"","finish_reason":"length"}]}"#,
        r#"{"choices":[],"timings":{"predicted_n":5}}"#,
        r#"{"choices": [], "usage": null}"#,
        r#"[DONE]"#,
    ];
    let something = [
        r#"{"choices":[{"delta":{"content":"data: \"\""},"finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"delta":{"content":null,"reasoning_content":"x"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"text":"x","finish_reason":"length"}]}"#,
        r#"{"type":"response.output_text.delta","delta":"x"}"#,
    ];
    for (texts, each) in [(&nothing[..], 0), (&something[..], 1)] {
        for text in texts {
            let event = format!("data: {text}\n\n");
            let mut counter = TokenCounter::new(StreamFormat::Events);
            assert_eq!(counter.read(event.as_bytes()), each == 1, "{text}");
            assert_eq!(counter.tokens(), each, "{text}");
            counter.read(format!("data:{text}\n\n{event}").as_bytes());
            assert_eq!(counter.tokens(), 3 * each, "two in one chunk: {text}");
        }
    }
}

#[test]
fn ollama_streams_lines_and_reports_its_counts_at_the_end() {
    let lines = [
        &b"{\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"done\":false}\n"[..],
        b"{\"done\":true,\"total_duration\":5,\"prompt_eval_count\":26,\"eval_count\":298}\n",
    ];
    let counter = read(StreamFormat::Lines, &lines);
    assert_eq!(counter.tokens(), 1, "the last line is no token");
    assert_eq!(
        counter.usage(),
        TokenUsage { prompt: Some(26), output: Some(298), cached: None, counted: false }
    );
}

#[test]
fn counts_of_ollama_are_found_in_any_order_however_they_are_cut() {
    let texts = [
        "{\"done\":true,\"prompt_eval_count\":26,\"prompt_eval_duration\":9,\"eval_count\":3}\n",
        "{\"done\":true,\"eval_count\": 3,\"eval_duration\":7,\"prompt_eval_count\": 26}\n",
    ];
    for text in texts {
        let bytes = text.as_bytes();
        for (from, to) in (0..=bytes.len()).flat_map(|to| (0..=to).map(move |from| (from, to))) {
            let chunks = [&bytes[..from], &bytes[from..to], &bytes[to..]];
            check_counts_of_ollama(text, &chunks);
        }
        for size in 1..=bytes.len() {
            check_counts_of_ollama(text, &bytes.chunks(size).collect::<Vec<_>>());
        }
    }
}

fn check_counts_of_ollama(text: &str, chunks: &[&[u8]]) {
    for format in [StreamFormat::Lines, StreamFormat::Whole] {
        let used = read(format, chunks).usage();
        let want = TokenUsage { prompt: Some(26), output: Some(3), cached: None, counted: false };
        let sizes: Vec<_> = chunks.iter().map(|chunk| chunk.len()).collect();
        assert_eq!(used, want, "{text} in chunks of {sizes:?}");
    }
}

#[test]
fn a_key_that_only_ends_like_one_of_ollamas_is_none() {
    let text = b"{\"draft_eval_count\":9,\"prompt_eval_count\":26,\"eval_count\":3}\n";
    let used = read(StreamFormat::Whole, &[text]).usage();
    assert_eq!(
        used,
        TokenUsage { prompt: Some(26), output: Some(3), cached: None, counted: false }
    );
}

#[test]
fn a_whole_response_reports_its_usage_and_no_tokens() {
    let answer =
        b"{\"usage\": {\"input_tokens\": 7, \"output_tokens\": 3}, \"object\":\"response\"}";
    let counter = read(StreamFormat::Whole, &[answer]);
    assert_eq!(counter.tokens(), 0);
    assert_eq!(
        counter.usage(),
        TokenUsage { prompt: Some(7), output: Some(3), cached: None, counted: false }
    );
}

#[test]
fn nothing_said_is_nothing_known() {
    for text in ["", "{}", "\"usage\"", "{\"usage\":{\"prompt_tokens\":x}}"] {
        assert_eq!(
            read(StreamFormat::Whole, &[text.as_bytes()]).usage(),
            TokenUsage::default(),
            "{text}"
        );
    }
}

/// A backend may repeat texts of the client: they hide no usage, in whatever chunks they come.
#[test]
fn x05_a_later_key_hides_no_earlier_usage() {
    let answer = b"{\"usage\":{\"input_tokens\":7,\"output_tokens\":3},\"user\":\"usage\",\
                   \"tools\":[{\"usage\":{\"output_tokens\":0}}]}";
    for cut in 0..answer.len() {
        let (one, two) = answer.split_at(cut);
        let used = read(StreamFormat::Whole, &[one, two]).usage();
        assert_eq!((used.prompt, used.output), (Some(7), Some(3)), "{cut}");
    }
}

/// Whether a backend could send this: JSON in events, in lines or as a whole.
fn is_json(format: StreamFormat, input: &[u8]) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    let is_event = |line: &str| {
        let data = line.strip_prefix("data: ");
        line.starts_with(':') || data.is_some_and(|data| data == "[DONE]" || read(data))
    };
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let mut lines = text.lines().filter(|line| !line.is_empty());
    match format {
        StreamFormat::Events => lines.all(is_event),
        StreamFormat::Lines => lines.all(read),
        StreamFormat::Whole => read(text),
    }
}

/// The reported usage does not depend on how the stream is cut, and no text adds tokens out of
/// proportion.
#[test]
fn x03_fuzz_streams() {
    let lines = b"{\"response\":\"a\",\"done\":false}\n\
        {\"done\":true,\"prompt_eval_count\":7,\"eval_count\":3}\n";
    let words: [&[u8]; 5] =
        [b"data: ", b"\n\n", b"\"usage\":null,", b"\"delta\":{},", b"\"completion_tokens\":9,"];
    crate::fuzz::fuzz("streams", &[CHAT.as_bytes(), lines], &words, |input, dice| {
        let mut outcome = String::new();
        for format in [StreamFormat::Events, StreamFormat::Lines, StreamFormat::Whole] {
            let whole = read(format, &[input]);
            let in_pieces = read(format, &dice.pieces(input));
            assert!(whole.tokens() as usize <= input.len());
            let (one, other) = (whole.usage(), in_pieces.usage());
            let sound = is_json(format, input);
            // No backend sends the counts of both APIs.
            let both = has(input, b"\"usage\"") && has(input, b"eval_count");
            if sound && !one.counted && !other.counted && !both {
                assert_eq!(one, other, "{format:?}: {:?}", String::from_utf8_lossy(input));
            }
            outcome += &format!("{}{}{sound}", whole.tokens().min(4), one.output.is_some());
        }
        outcome
    });
}
