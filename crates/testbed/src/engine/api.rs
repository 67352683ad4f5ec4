//! The APIs of model servers: responses as OpenAI's and Ollama's clients expect them.
//!
//! An answer is a list of pieces, one for each token. A stream has an opening, one chunk for each
//! piece and a closing; or everything comes as one document. The same seed and request give the
//! same bytes, so moments of creation are fixed.

mod chat;
mod completion;
mod ollama;
mod responses;
mod vector;

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::api_request::ApiRequest;

/// An API and its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completion,
    /// `/v1/responses`
    Responses,
    /// `/v1/embeddings`
    Embeddings,
    /// Ollama's `/api/chat`
    OllamaChat,
    /// Ollama's `/api/generate`
    OllamaGenerate,
    /// Ollama's `/api/embed`
    OllamaEmbed,
}

/// An answer to a request.
#[derive(Clone, Debug)]
pub(super) struct ApiResponse {
    pub(super) request: ApiRequest,
    /// Told apart from all others of this engine.
    pub(super) serial: u64,
    /// One for each token.
    pub(super) pieces: Vec<String>,
    /// How long it took to the first token, and in all; known at the end.
    pub(super) first: Duration,
    pub(super) total: Duration,
}

/// 2026-01-01, the moment at which everything here was created.
const CREATED: u64 = 1_767_225_600;
const CREATED_TEXT: &str = "2026-01-01T00:00:00Z";

// === impl Api ===

impl Api {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/completions" => Some(Self::Completion),
            "/v1/responses" => Some(Self::Responses),
            "/v1/embeddings" => Some(Self::Embeddings),
            "/api/chat" => Some(Self::OllamaChat),
            "/api/generate" => Some(Self::OllamaGenerate),
            "/api/embed" => Some(Self::OllamaEmbed),
            _ => None,
        }
    }

    pub(super) fn is_ollama(self) -> bool {
        matches!(self, Self::OllamaChat | Self::OllamaGenerate | Self::OllamaEmbed)
    }

    /// Whether it answers with vectors, and therefore never as a stream.
    pub(super) fn is_vector(self) -> bool {
        matches!(self, Self::Embeddings | Self::OllamaEmbed)
    }

    /// Where the prompt is.
    pub(super) fn prompt_key(self) -> &'static str {
        match self {
            Self::Chat | Self::OllamaChat => "messages",
            Self::Completion | Self::OllamaGenerate => "prompt",
            Self::Responses | Self::Embeddings | Self::OllamaEmbed => "input",
        }
    }

    /// The type of a stream.
    pub(super) fn stream_type(self) -> &'static str {
        if self.is_ollama() { "application/x-ndjson" } else { "text/event-stream" }
    }

    /// An error as its clients expect it.
    pub(super) fn error(self, status: u16, message: &str) -> Value {
        if self.is_ollama() {
            return json!({"error": message});
        }
        let kind = match status {
            404 => "NotFoundError",
            400..=499 => "BadRequestError",
            _ => "InternalServerError",
        };
        json!({"error": {"message": message, "type": kind, "param": null, "code": status}})
    }
}

// === impl ApiResponse ===

impl ApiResponse {
    /// What a stream begins with.
    pub(super) fn opening(&self) -> Vec<Bytes> {
        match self.request.api {
            Api::Chat => chat::opening(self),
            Api::Responses => responses::opening(self),
            _ => Vec::new(),
        }
    }

    /// The chunk of one token; empty where the language has nothing to say for it.
    pub(super) fn piece(&self, at: usize) -> Bytes {
        match self.request.api {
            Api::Chat => chat::piece(self, at),
            Api::Completion => completion::piece(self, at),
            Api::Responses => responses::piece(self, at),
            Api::OllamaChat | Api::OllamaGenerate => ollama::piece(self, at),
            Api::Embeddings | Api::OllamaEmbed => Bytes::new(),
        }
    }

    /// What a stream ends with.
    pub(super) fn closing(&self) -> Vec<Bytes> {
        match self.request.api {
            Api::Chat => chat::closing(self),
            Api::Completion => completion::closing(self),
            Api::Responses => responses::closing(self),
            Api::OllamaChat | Api::OllamaGenerate => ollama::closing(self),
            Api::Embeddings | Api::OllamaEmbed => Vec::new(),
        }
    }

    /// Everything as one document.
    pub(super) fn whole(&self) -> Value {
        match self.request.api {
            Api::Chat => chat::whole(self),
            Api::Completion => completion::whole(self),
            Api::Responses => responses::whole(self),
            Api::OllamaChat | Api::OllamaGenerate => ollama::whole(self),
            Api::Embeddings => vector::openai(self),
            Api::OllamaEmbed => vector::ollama(self),
        }
    }

    fn text(&self) -> String {
        self.pieces.concat()
    }

    fn tool_name(&self) -> Option<&str> {
        self.request.tool.as_ref().map(|tool| tool.name.as_str())
    }

    /// Whether it ended because the client wanted no more.
    fn is_cut(&self) -> bool {
        self.request.max_tokens.is_some_and(|most| self.pieces.len() >= most as usize)
    }

    /// As OpenAI's clients know it.
    fn finish_reason(&self) -> &'static str {
        match (self.request.tool.is_some(), self.is_cut()) {
            (true, _) => "tool_calls",
            (false, true) => "length",
            (false, false) => "stop",
        }
    }

    fn usage(&self) -> Value {
        let (prompt, output) = (self.request.prompt_tokens(), self.pieces.len());
        let total = prompt as usize + output;
        json!({"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": total})
    }
}

/// An event of a stream as OpenAI's clients read it.
fn data(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

/// The same with a name.
fn event(name: &str, value: &Value) -> Bytes {
    format!("event: {name}\ndata: {value}\n\n").into()
}

const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");
