//! A message as it lies in Redis: llm-d-async's envelope.
//!
//! ```json
//! {"internal":{…},"request_kind":"plain|redis|pubsub","data":{"id":"…","deadline":1764045130,…}}
//! ```
//!
//! Times are whole seconds there. A message's place among those of its deadline is a number that is
//! given out where it is kept, and stands both in the envelope and below the point of its score: a
//! message that comes back finds its old place again from what it says itself.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::fields::{Fields, or_default};
use super::keys;
use crate::message::Message;
use crate::moment::Moment;

/// Numbers that fit below the point of a score: a double has 53 bits, and 32 are in front of it.
const PLACES: u32 = 1 << 21;

/// The span in which an older producer's moments are told apart, in milliseconds.
const HORIZON: i64 = (1 << 17) * 1000;

/// The field of the metadata that says whose a message is.
const TENANT: &str = "userid";

/// Where the server puts the number that it gives out.
const NUMBER: &str = "\"enqueue_seq\":-1";

/// What is said of a message without its envelope.
const UNWRAPPED: &str = "it has no request_kind: wrap it as {\"request_kind\": \"plain\", \
                         \"data\": {\"id\": …, \"deadline\": …, \"payload\": …}}";

/// A message that was read.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) message: Message,
    pub(super) body: Payload,
    /// Which generation of its id it is; empty from a producer that makes none.
    pub(super) token: String,
    /// The queue it comes from, if it says so.
    pub(super) origin: String,
    /// What whoever took it before calls that queue.
    pub(super) queue_id: String,
    /// For how long results are kept, if its route is no longer to be changed.
    pub(super) fixed_ttl: Option<u64>,
    /// How often others have tried it.
    pub(super) retries: u32,
    /// Its place among those that wait.
    pub(super) score: f64,
}

/// Where a body is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// In the message.
    Inline(Bytes),
    /// Under this key.
    Apart(String),
    /// Nowhere that may be looked.
    Gone,
}

/// A message in two halves, between which the server writes its number.
#[derive(Debug)]
pub(super) struct Halves {
    pub(super) before: String,
    pub(super) after: String,
}

#[derive(Serialize)]
struct Envelope<'a> {
    internal: Internal<'a>,
    request_kind: &'a str,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Internal<'a> {
    request_token: &'a str,
    request_queue_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    result_queue_name: &'a str,
    enqueue_seq: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_ref: Option<&'a str>,
}

#[derive(Serialize)]
struct Data<'a> {
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
struct Outside<'a> {
    #[serde(borrow)]
    internal: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "or_default")]
    request_kind: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Routing {
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Inside<'a> {
    #[serde(deserialize_with = "or_default")]
    id: String,
    #[serde(deserialize_with = "or_default")]
    created: i64,
    #[serde(deserialize_with = "or_default")]
    deadline: i64,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(deserialize_with = "or_default")]
    metadata: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    headers: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    endpoint: String,
    #[serde(deserialize_with = "or_default")]
    model: String,
    #[serde(deserialize_with = "or_default")]
    result_queue_name: String,
}

/// A deadline as it is written, which must not be earlier than it was meant.
pub(super) fn deadline_secs(deadline: Moment) -> u64 {
    deadline.millis().div_ceil(1000)
}

/// A moment on the scale of scores.
pub(super) fn seconds(moment: Moment) -> f64 {
    moment.millis() as f64 / 1000.0
}

/// A message as we send it off: with its body, or with the name of the key that has it.
pub(super) fn write(
    message: &Message,
    token: &str,
    body: Result<&RawValue, &str>,
) -> serde_json::Result<Halves> {
    let texts = message.metadata.iter().map(|(key, text)| (key.as_str(), text.as_str()));
    let mut metadata: BTreeMap<&str, &str> = texts.collect();
    if !message.tenant.is_empty() {
        metadata.insert(TENANT, &message.tenant);
    }
    let written = serde_json::to_string(&Envelope {
        internal: Internal {
            request_token: token,
            request_queue_name: &message.queue,
            result_queue_name: &message.route,
            enqueue_seq: -1,
            payload_ref: body.err(),
        },
        request_kind: if message.route.is_empty() { "plain" } else { "redis" },
        data: Data {
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
    Ok(Halves::of(&written))
}

/// A message of anybody's, or why it cannot be one.
pub(super) fn read(member: &str, queue: &str) -> Result<Letter, String> {
    let outside: Outside<'_> = serde_json::from_str(member).map_err(|error| error.to_string())?;
    match outside.request_kind.as_str() {
        "plain" | "redis" | "pubsub" => {}
        "" => return Err(UNWRAPPED.into()),
        kind => return Err(format!("its request_kind {kind:?} is not known")),
    }
    let Some(data) = outside.data else { return Err("it has no data".into()) };
    let within = |name: &str, error: serde_json::Error| format!("its {name}: {error}");
    let inside: Inside<'_> =
        serde_json::from_str(data.get()).map_err(|error| within("data", error))?;
    let routing = outside.internal.map_or("null", RawValue::get);
    let routing: Option<Routing> =
        serde_json::from_str(routing).map_err(|error| within("internal", error))?;
    if inside.id.is_empty() {
        return Err("it has no id".into());
    }
    Ok(Letter::new(inside, routing.unwrap_or_default(), queue))
}

/// A message as it goes back: the same, but for how often it was tried, and whence it came.
pub(super) fn again(member: &str, queue: &str, failed: bool) -> serde_json::Result<String> {
    let mut top: Fields = serde_json::from_str(member)?;
    let mut internal = Fields::read(top.get("internal"))?;
    let routing: Option<Routing> =
        serde_json::from_str(top.get("internal").map_or("null", RawValue::get))?;
    let routing = routing.unwrap_or_default();
    if !failed && routing.request_queue_name == queue {
        return Ok(member.to_owned());
    }
    if routing.request_queue_name != queue {
        internal.set("request_queue_name", &queue)?;
    }
    if failed {
        internal.set("retry_count", &routing.retry_count.saturating_add(1))?;
    }
    top.set("internal", &internal)?;
    serde_json::to_string(&top)
}

/// A message as if it were new: another generation, untried, with other times.
pub(super) fn anew(
    member: &str,
    token: &str,
    (created, deadline): (Moment, Moment),
) -> serde_json::Result<Halves> {
    let mut top: Fields = serde_json::from_str(member)?;
    let mut internal = Fields::read(top.get("internal"))?;
    for name in ["retry_count", "enqueued_at_ms", "enqueue_seq"] {
        internal.remove(name);
    }
    internal.set("request_token", &token)?;
    // In front, where nothing of somebody else's can be taken for it.
    internal.set("enqueue_seq", &-1)?;
    let mut data = Fields::read(top.get("data"))?;
    data.set("created", &created.secs())?;
    data.set("deadline", &deadline_secs(deadline))?;
    top.set("data", &data)?;
    top.remove("internal");
    top.set("internal", &internal)?;
    Ok(Halves::of(&serde_json::to_string(&top)?))
}

/// The score of a message that waits: its deadline, and below the point who was first. Numbers are
/// what producers give today, moments what they gave before; the rest comes first.
fn score(deadline: i64, routing: &Routing) -> f64 {
    let places = i64::from(PLACES);
    let place = if routing.enqueue_seq > 0 || routing.enqueued_at_ms <= 0 {
        routing.enqueue_seq.clamp(0, places - 1)
    } else {
        let begins = deadline.saturating_mul(1000).saturating_sub(HORIZON);
        let since = routing.enqueued_at_ms.saturating_sub(begins).clamp(0, HORIZON - 1);
        since * places / HORIZON
    };
    deadline as f64 + place as f64 / f64::from(PLACES)
}

/// A moment in whole seconds that somebody wrote.
fn moment(secs: i64) -> Moment {
    Moment::from_secs(u64::try_from(secs).unwrap_or_default())
}

// === impl Letter ===

impl Letter {
    fn new(mut inside: Inside<'_>, routing: Routing, queue: &str) -> Self {
        let score = score(inside.deadline, &routing);
        let body = match (routing.payload_ref, inside.payload) {
            (key, _) if keys::is_payload(&key) => Payload::Apart(key),
            (key, _) if !key.is_empty() => Payload::Gone,
            (_, Some(body)) => Payload::Inline(Bytes::copy_from_slice(body.get().as_bytes())),
            (_, None) => Payload::Inline(Bytes::new()),
        };
        let first = |one: String, other: String| if one.is_empty() { other } else { one };
        let fixed = routing.result_routing_resolved && !routing.result_queue_name.is_empty();
        Self {
            message: Message {
                id: inside.id,
                queue: queue.to_owned(),
                tenant: inside.metadata.remove(TENANT).unwrap_or_default(),
                created: moment(inside.created),
                deadline: moment(inside.deadline),
                endpoint: inside.endpoint,
                model: inside.model,
                metadata: inside.metadata,
                headers: inside.headers,
                route: first(routing.result_queue_name, inside.result_queue_name),
                ..Message::default()
            },
            body,
            token: routing.request_token,
            origin: routing.request_queue_name,
            queue_id: routing.queue_id,
            fixed_ttl: fixed.then(|| u64::try_from(routing.result_ttl_seconds).unwrap_or_default()),
            retries: u32::try_from(routing.retry_count.max(0)).unwrap_or(u32::MAX),
            score,
        }
    }

    /// What its claim goes by.
    pub(super) fn claim(&self) -> String {
        match self.token.as_str() {
            "" => self.message.id.clone(),
            token => format!("{}\0{token}", self.message.id),
        }
    }
}

// === impl Halves ===

impl Halves {
    fn of(written: &str) -> Self {
        // Inside a text its quotes would be escaped, so that the first place is the right one.
        let (before, after) = written.split_once(NUMBER).unwrap_or((written, ""));
        let field = NUMBER.trim_end_matches("-1");
        Self { before: format!("{before}{field}"), after: after.to_owned() }
    }
}
