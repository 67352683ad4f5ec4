//! The message in Redis: the envelope of llm-d-async.
//!
//! ```json
//! {"internal":{…},"request_kind":"plain|redis|pubsub","data":{"id":"…","deadline":1764045130,…}}
//! ```
//!
//! Times are whole seconds. Messages of one deadline are ordered by a sequence number, which the
//! submitting script assigns. The number is in the envelope and in the fraction of the score, so
//! that the score of a message can be computed from its envelope when it becomes pending again.

mod error;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(super) use self::error::EnvelopeError;
use super::json_fields::JsonFields;
use super::keys;
use crate::llm_d_async::or_default;
use crate::llm_d_async::request::{RequestFields, TENANT};
use crate::message::Message;
use crate::moment::Moment;

/// The sequence numbers that fit into the fraction of a score: a double has 53 bits, of which 32
/// are the seconds.
const SEQUENCE_MAX: u32 = 1 << 21;

/// The range of creation times that the scores of older producers distinguish, in milliseconds.
const HORIZON: i64 = (1 << 17) * 1000;

/// The place where the script writes the sequence number.
const PLACEHOLDER: &str = "\"enqueue_seq\":-1";

/// A decoded message.
#[derive(Debug)]
pub(super) struct DecodedMessage {
    /// The message, without its body.
    pub(super) message: Message,
    pub(super) body: Payload,
    /// The generation of the id; empty for a producer that makes none.
    pub(super) token: String,
    /// The queue it was submitted to, if the envelope names it.
    pub(super) origin: String,
    /// The id that a foreign worker uses for that queue.
    pub(super) queue_id: String,
    /// How long the result list is kept, if the route of the message is resolved already.
    pub(super) resolved_ttl: Option<u64>,
    /// How often foreign workers have retried it.
    pub(super) retries: u32,
    /// The score among pending messages.
    pub(super) score: f64,
}

/// Where a body is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// In the message.
    Inline(Bytes),
    /// Under this key.
    Apart(String),
    /// Under a key that must not be read.
    Gone,
}

/// An encoded message in two parts; the script writes the sequence number between them.
#[derive(Debug)]
pub(super) struct SplitMember {
    pub(super) before: String,
    pub(super) after: String,
}

#[derive(Serialize)]
struct NewEnvelope<'a> {
    internal: NewInternal<'a>,
    request_kind: &'a str,
    data: NewRequest<'a>,
}

#[derive(Serialize)]
struct NewInternal<'a> {
    request_token: &'a str,
    request_queue_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    result_queue_name: &'a str,
    enqueue_seq: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_ref: Option<&'a str>,
}

#[derive(Serialize)]
struct NewRequest<'a> {
    id: &'a str,
    created: u64,
    deadline: u64,
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    endpoint: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    result_queue_name: &'a str,
}

#[derive(Deserialize)]
struct EnvelopeFields<'a> {
    #[serde(borrow)]
    internal: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "or_default")]
    request_kind: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InternalFields {
    #[serde(deserialize_with = "or_default")]
    retry_count: i64,
    #[serde(deserialize_with = "or_default")]
    queue_id: String,
    #[serde(deserialize_with = "or_default")]
    request_token: String,
    #[serde(deserialize_with = "or_default")]
    request_queue_name: String,
    #[serde(deserialize_with = "or_default")]
    result_queue_name: String,
    #[serde(deserialize_with = "or_default")]
    result_ttl_seconds: i64,
    #[serde(deserialize_with = "or_default")]
    result_routing_resolved: bool,
    #[serde(deserialize_with = "or_default")]
    enqueue_seq: i64,
    #[serde(deserialize_with = "or_default")]
    enqueued_at_ms: i64,
    #[serde(deserialize_with = "or_default")]
    payload_ref: String,
}

/// A deadline in whole seconds, rounded up so that it is never earlier.
pub(super) fn deadline_secs(deadline: Moment) -> u64 {
    deadline.millis().div_ceil(1000)
}

/// A moment as a score.
pub(super) fn seconds(moment: Moment) -> f64 {
    moment.millis() as f64 / 1000.0
}

/// Encodes a new message, with its body or with the key of its body.
pub(super) fn encode(
    message: &Message,
    token: &str,
    body: Result<&RawValue, &str>,
) -> serde_json::Result<SplitMember> {
    let texts = message.metadata.iter().map(|(key, text)| (key.as_str(), text.as_str()));
    let mut metadata: BTreeMap<&str, &str> = texts.collect();
    if !message.tenant.is_empty() {
        metadata.insert(TENANT, &message.tenant);
    }
    let encoded = serde_json::to_string(&NewEnvelope {
        internal: NewInternal {
            request_token: token,
            request_queue_name: &message.queue,
            result_queue_name: &message.route,
            enqueue_seq: -1,
            payload_ref: body.err(),
        },
        request_kind: if message.route.is_empty() { "plain" } else { "redis" },
        data: NewRequest {
            id: &message.id,
            created: message.created.secs(),
            deadline: deadline_secs(message.deadline),
            payload: body.ok(),
            metadata,
            headers: &message.headers,
            endpoint: &message.endpoint,
            model: &message.model,
            result_queue_name: &message.route,
        },
    })?;
    Ok(SplitMember::new(&encoded))
}

/// Decodes a message of any producer.
pub(super) fn decode(member: &str, queue: &str) -> Result<DecodedMessage, EnvelopeError> {
    let envelope: EnvelopeFields<'_> = serde_json::from_str(member).map_err(EnvelopeError::Json)?;
    match envelope.request_kind.as_str() {
        "plain" | "redis" | "pubsub" => {}
        "" => return Err(EnvelopeError::NoKind),
        kind => return Err(EnvelopeError::UnknownKind(kind.to_owned())),
    }
    let data = envelope.data.ok_or(EnvelopeError::NoData)?;
    let request: RequestFields<'_> =
        serde_json::from_str(data.get()).map_err(|error| EnvelopeError::Field("data", error))?;
    let internal = internal_fields(envelope.internal)
        .map_err(|error| EnvelopeError::Field("internal", error))?;
    if request.id.is_empty() {
        return Err(EnvelopeError::NoId);
    }
    Ok(DecodedMessage::new(request, internal, queue))
}

fn internal_fields(text: Option<&RawValue>) -> serde_json::Result<InternalFields> {
    let text = text.map_or("null", RawValue::get);
    Ok(serde_json::from_str::<Option<InternalFields>>(text)?.unwrap_or_default())
}

/// Encodes a released message: the same, with its queue and the new number of retries.
pub(super) fn encode_released(
    member: &str,
    queue: &str,
    failed: bool,
) -> serde_json::Result<String> {
    let mut envelope: JsonFields = serde_json::from_str(member)?;
    let mut internal = JsonFields::read(envelope.get("internal"))?;
    let known = internal_fields(envelope.get("internal"))?;
    if !failed && known.request_queue_name == queue {
        return Ok(member.to_owned());
    }
    if known.request_queue_name != queue {
        internal.set("request_queue_name", &queue)?;
    }
    if failed {
        internal.set("retry_count", &known.retry_count.saturating_add(1))?;
    }
    envelope.set("internal", &internal)?;
    serde_json::to_string(&envelope)
}

/// Encodes a redriven message as a new one: a new generation without retries, with new times.
pub(super) fn encode_redriven(
    member: &str,
    token: &str,
    (created, deadline): (Moment, Moment),
) -> serde_json::Result<SplitMember> {
    let mut envelope: JsonFields = serde_json::from_str(member)?;
    let mut internal = JsonFields::read(envelope.get("internal"))?;
    for name in ["retry_count", "enqueued_at_ms", "enqueue_seq"] {
        internal.remove(name);
    }
    internal.set("request_token", &token)?;
    // As the first field, so that no foreign field can be taken for the placeholder.
    internal.set("enqueue_seq", &-1)?;
    let mut data = JsonFields::read(envelope.get("data"))?;
    data.set("created", &created.secs())?;
    data.set("deadline", &deadline_secs(deadline))?;
    envelope.set("data", &data)?;
    envelope.remove("internal");
    envelope.set("internal", &internal)?;
    Ok(SplitMember::new(&serde_json::to_string(&envelope)?))
}

/// The score of a pending message: its deadline, with the order of submission as the fraction.
/// Today's producers order by sequence numbers, older ones by creation times; a message with
/// neither is first.
fn score(deadline: i64, internal: &InternalFields) -> f64 {
    let places = i64::from(SEQUENCE_MAX);
    let place = if internal.enqueue_seq > 0 || internal.enqueued_at_ms <= 0 {
        internal.enqueue_seq.clamp(0, places - 1)
    } else {
        let begins = deadline.saturating_mul(1000).saturating_sub(HORIZON);
        let since = internal.enqueued_at_ms.saturating_sub(begins).clamp(0, HORIZON - 1);
        since * places / HORIZON
    };
    deadline as f64 + place as f64 / f64::from(SEQUENCE_MAX)
}

// === impl DecodedMessage ===

impl DecodedMessage {
    fn new(request: RequestFields<'_>, internal: InternalFields, queue: &str) -> Self {
        let score = score(request.deadline, &internal);
        let body = match internal.payload_ref {
            key if keys::is_payload(&key) => Payload::Apart(key),
            key if !key.is_empty() => Payload::Gone,
            _ => Payload::Inline(request.body()),
        };
        let first = |one: String, other: String| if one.is_empty() { other } else { one };
        let resolved = internal.result_routing_resolved && !internal.result_queue_name.is_empty();
        let ttl = u64::try_from(internal.result_ttl_seconds).unwrap_or_default();
        let mut message = request.message(queue);
        message.route = first(internal.result_queue_name, message.route);
        Self {
            message,
            body,
            token: internal.request_token,
            origin: internal.request_queue_name,
            queue_id: internal.queue_id,
            resolved_ttl: resolved.then_some(ttl),
            retries: u32::try_from(internal.retry_count.max(0)).unwrap_or(u32::MAX),
            score,
        }
    }

    /// The field of its claim in the hashes of its queue.
    pub(super) fn claim_key(&self) -> String {
        keys::claim(&self.message.id, &self.token)
    }
}

// === impl SplitMember ===

impl SplitMember {
    fn new(encoded: &str) -> Self {
        // Inside a JSON string its quotes would be escaped, so the first occurrence is the field.
        let (before, after) = encoded.split_once(PLACEHOLDER).unwrap_or((encoded, ""));
        let field = PLACEHOLDER.trim_end_matches("-1");
        Self { before: format!("{before}{field}"), after: after.to_owned() }
    }
}
