//! The request of a message: its path, its headers and its body.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde::Deserialize;
use serde::de::IgnoredAny;
use store::{Message, Outcome};

use super::verdict::Verdict;
use crate::config::settings::dispatch::Queue;
use crate::ingress::dispatch_headers::DispatchHeaders;
use crate::ingress::path::is_work;
use crate::observe::BAND_NAMES;

/// The fields by which payloads for different paths differ.
#[derive(Deserialize)]
struct PayloadFields {
    messages: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PayloadModel {
    model: Option<String>,
}

/// The request of a message; the verdict if it cannot be sent.
pub(super) fn outgoing_request(
    queue: &Queue,
    message: &Message,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Verdict> {
    let invalid = |why: &dyn std::fmt::Display| {
        let text = format!("the request cannot be built: {why}");
        Verdict::Final(Outcome::failed(Outcome::INVALID, text))
    };
    let path = path(queue, message, &body);
    // Producers may submit work, and must not reach other paths of the server.
    if Some(path) != queue.path.as_deref() && !is_work(path) {
        return Err(invalid(&format_args!("{path:?} is not a path of the API that takes work")));
    }
    let headers = DispatchHeaders {
        id: &message.id,
        priority: BAND_NAMES[queue.band as usize],
        objective: queue.objective.as_deref(),
        tenant: &message.tenant,
        own: &message.headers,
        metadata: &message.metadata,
    };
    let request = Request::post(path).body(Full::new(body));
    let mut request = request.map_err(|error| invalid(&error))?;
    *request.headers_mut() = headers.to_header_map();
    Ok(request)
}

/// The model that a message asks for; empty if it names none.
pub(super) fn model(message: &Message, body: &[u8]) -> String {
    if !message.model.is_empty() {
        return message.model.clone();
    }
    let named = serde_json::from_slice(body).ok().and_then(|PayloadModel { model }| model);
    named.unwrap_or_default()
}

/// The path to which a message is sent.
pub(super) fn path<'a>(queue: &'a Queue, message: &'a Message, body: &[u8]) -> &'a str {
    match (message.endpoint.as_str(), queue.path.as_deref()) {
        ("", Some(path)) => path,
        ("", None) => path_by_payload(body),
        (endpoint, _) => endpoint,
    }
}

/// The path that a payload is for. The default of llm-d-async is `/v1/completions`, where a model
/// server refuses the messages of a chat.
fn path_by_payload(body: &[u8]) -> &'static str {
    match serde_json::from_slice(body) {
        Ok(PayloadFields { messages: Some(_) }) => "/v1/chat/completions",
        _ => "/v1/completions",
    }
}
