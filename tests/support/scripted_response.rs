//! The response of a scripted backend: a list of steps.

use std::time::Duration;

use serde_json::{Value, json};

/// One step of a response.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Waits until the test releases it.
    Hold,
    Send(Vec<u8>),
    /// Sends the same bytes for ever.
    Endless(Vec<u8>),
    /// Works for this long.
    Work(Duration),
    /// Sends nothing more and waits for the client to disconnect.
    Silence,
    /// Closes the connection in an orderly way, or with a reset.
    Close,
    Reset,
}

/// The steps of one response. After them the connection takes the next request, unless it was
/// closed.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedResponse(pub(crate) Vec<Step>);

/// One server-sent event in OpenAI's format.
pub(crate) fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// The event of a chat stream that carries this text.
pub(crate) fn delta(text: &str) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": null});
    let piece = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [choice],
    });
    event(&piece.to_string())
}

fn chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

fn completion() -> Value {
    let message = json!({"role": "assistant", "content": "hello"});
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
    })
}

// === impl ScriptedResponse ===

impl ScriptedResponse {
    /// A finished chat.
    pub(crate) fn ok() -> Self {
        Self::json(200, &completion().to_string())
    }

    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self::with_headers(status, &["content-type: application/json"], body)
    }

    pub(crate) fn with_headers(status: u16, headers: &[&str], body: &str) -> Self {
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Said\r\n{headers}content-length: {length}\r\n\r\n");
        Self::raw(head + body)
    }

    /// A stream of these pieces, each in a chunk of its own.
    pub(crate) fn stream(pieces: &[&str]) -> Self {
        let mut answer = Self::stream_head();
        answer.0.extend(pieces.iter().map(|piece| Step::Send(chunk(piece))));
        answer.0.push(Step::Send(b"0\r\n\r\n".to_vec()));
        answer
    }

    /// A chat stream that waits for the test before each word.
    pub(crate) fn stream_held(words: &[&str]) -> Self {
        let mut answer = Self::stream_head();
        for word in words {
            answer.0.extend([Step::Hold, Step::Send(chunk(&delta(word)))]);
        }
        answer.0.push(Step::Send(chunk(&event("[DONE]"))));
        answer.0.push(Step::Send(b"0\r\n\r\n".to_vec()));
        answer
    }

    /// The head of a stream and its first piece, to which further steps are added.
    pub(crate) fn stream_begun(word: &str) -> Self {
        let mut answer = Self::stream_head();
        answer.0.push(Step::Send(chunk(&delta(word))));
        answer
    }

    /// A chat stream of this many tokens with a pause between them. It may report its usage.
    pub(crate) fn stream_paced(tokens: usize, pause_ms: u64, reports_usage: bool) -> Self {
        let mut answer = Self::stream_begun("word ");
        for _ in 1..tokens {
            let pause = Step::Work(Duration::from_millis(pause_ms));
            answer.0.extend([pause, Step::Send(chunk(&delta("word ")))]);
        }
        let usage = json!({"prompt_tokens": 5, "completion_tokens": tokens});
        let usage = event(&json!({"choices": [], "usage": usage}).to_string());
        let usage = if reports_usage { usage } else { String::new() };
        let last = usage + &event("[DONE]");
        answer.0.extend([Step::Send(chunk(&last)), Step::Send(b"0\r\n\r\n".to_vec())]);
        answer
    }

    /// The head of a stream alone.
    pub(crate) fn stream_head() -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        Self::raw(format!("{head}transfer-encoding: chunked\r\n\r\n"))
    }

    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self(vec![Step::Send(bytes.into())])
    }

    pub(crate) fn then(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }

    pub(crate) fn then_all(mut self, rest: Self) -> Self {
        self.0.extend(rest.0);
        self
    }

    pub(crate) fn reset() -> Self {
        Self(vec![Step::Reset])
    }

    pub(crate) fn silence() -> Self {
        Self(vec![Step::Silence])
    }

    /// The same after this many milliseconds of work.
    pub(crate) fn after_ms(self, millis: u64) -> Self {
        self.after(Duration::from_millis(millis))
    }

    pub(crate) fn after(mut self, work: Duration) -> Self {
        self.0.insert(0, Step::Work(work));
        self
    }

    /// The same, but only when the test releases it.
    pub(crate) fn held(mut self) -> Self {
        self.0.insert(0, Step::Hold);
        self
    }
}
