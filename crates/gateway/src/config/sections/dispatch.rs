//! The section `dispatch`, without its gates.

use flow::Band;

use super::forms::URL_PATH;
use super::{DAY, GATES, GIB, HOUR, KIB, MILLI, SECOND, UP_TO_A_DAY, count, duration, size};
use crate::gates::{HTTP_URL, REDIS_URL};
use crate::schema::ValueType::{
    Address, Bool, Keyword, Map, Number, Path, Table, Tables, Text, Texts,
};
use crate::schema::{NOT_EMPTY, Range, SectionSchema, ValueType, key, words};

const SHARE: ValueType = Number(Range::above(0.0, 1e6));

pub(in crate::config) const DISPATCH: SectionSchema = SectionSchema::new(
    "dispatch",
    &[
        key("listen", Address, "The address of the status pages of `tidegate dispatch`.")
            .default("127.0.0.1:8081")
            .restart(),
        key("workers", count(1, 65_536), "Requests in flight at once.").default("64").restart(),
        key("request_timeout", UP_TO_A_DAY, "How long a request may take.").default("5m").restart(),
        key(
            "lease",
            duration(SECOND, DAY),
            "How long a claim on a message lasts that its dispatcher does not renew.",
        )
        .default("60s")
        .restart(),
        key(
            "attempts",
            count(1, 1000),
            "Failures until a message becomes a dead letter; an overload is not a failure.",
        )
        .unset(
            "no limit until the deadline of the message; 20 if its target answers other messages",
        )
        .restart(),
        key(
            "backoff",
            duration(MILLI, HOUR),
            "How long a message waits after its first failure. Each further failure doubles it.",
        )
        .default("2s")
        .restart(),
        key("backoff_max", UP_TO_A_DAY, "The longest wait after a failure.")
            .default("60s")
            .restart(),
        key("answer_limit", size(KIB, GIB), "The largest response.").default("32MiB").restart(),
        key("redis", Table(&REDIS), "The Redis server of shared queues (see below)."),
        key("pubsub", Table(&PUBSUB), "The Google Cloud Pub/Sub of shared queues (see below)."),
        key("queues", Tables(&QUEUES), "The queues (see below).").restart(),
        key("gates", Tables(&GATES), "The gates that limit dispatch (see below).").restart(),
    ],
)
.doc("The dispatcher of batch work (docs/DISPATCH.md).");

const REDIS: SectionSchema = SectionSchema::new(
    "dispatch.redis",
    &[
        key(
            "urls",
            Texts(&REDIS_URL),
            "The addresses of the servers. Tidegate uses the primary among them.",
        )
        .restart(),
        key(
            "ca_file",
            Path,
            "A PEM file with the root certificates for addresses that begin with `rediss://`.",
        )
        .unset("the root certificates of the system")
        .restart(),
        key("cluster", Bool, "Whether the servers form a cluster.").default("false").restart(),
        key(
            "sentinel",
            Text(&NOT_EMPTY),
            "The name of the primary in Redis Sentinel. `urls` are then the addresses of the \
             sentinels; user, password, database and TLS in them are those of the primary.",
        )
        .unset("no sentinels")
        .restart(),
        key("replicas", count(0, 16), "How many replicas must confirm a write.")
            .default("0")
            .restart(),
        key(
            "results",
            Text(&NOT_EMPTY),
            "The list of results, unless the queue or the message names another.",
        )
        .default("result-list")
        .restart(),
        key("retries", Text(&NOT_EMPTY), "The set of messages that wait for another attempt.")
            .default("retry-sortedset")
            .restart(),
    ],
)
.doc("Redis or Valkey, shared by several dispatchers and by the producers of llm-d-async.");

const PUBSUB: SectionSchema = SectionSchema::new(
    "dispatch.pubsub",
    &[
        key("project", Text(&NOT_EMPTY), "The id of the project.").restart(),
        key(
            "results",
            Text(&NOT_EMPTY),
            "The topic of results, unless the queue or the message names another.",
        )
        .restart(),
        key(
            "dead_letters",
            Text(&NOT_EMPTY),
            "The topic of dead letters. Without one, a dead letter has its result and ends.",
        )
        .restart(),
        key(
            "credentials",
            Path,
            "The key of a service account: a JSON file of Google.",
        )
        .unset(
            "the file in `GOOGLE_APPLICATION_CREDENTIALS`, else the account of the machine or pod",
        )
        .restart(),
        key("endpoint", Text(&HTTP_URL), "The server; one without TLS gets no credentials.")
            .unset("the emulator in `PUBSUB_EMULATOR_HOST`, else `https://pubsub.googleapis.com`")
            .restart(),
    ],
)
.doc(
    "Google Cloud Pub/Sub, shared by several dispatchers and by the producers of llm-d-async. A \
     queue is a subscription. A topic or a subscription is its id, or its whole name \
     (`projects/…/topics/…`).",
);

pub(in crate::config) const QUEUES: SectionSchema = SectionSchema::new(
    "dispatch.queues",
    &[
        key(
            "name",
            Text(&NOT_EMPTY),
            "The name of the queue: its key in Redis, or its subscription in Pub/Sub.",
        )
        .required(),
        key("weight", SHARE, "The share of the queue among all queues.").default("1"),
        key("tenants", Map(&SHARE), "The shares of tenants in the queue, by name.").unset("1 each"),
        key("target", Text(&HTTP_URL), "The server that requests are sent to.")
            .unset("this gateway"),
        key("path", Text(&URL_PATH), "The path for messages that name none.")
            .unset("`/v1/chat/completions` for a payload with `messages`, else `/v1/completions`"),
        key("band", Keyword(words::<Band>), "The band of the requests.").default("best-effort"),
        key("objective", Text(&NOT_EMPTY), "The objective of the requests.").unset("none"),
        key(
            "gates",
            Texts(&NOT_EMPTY),
            "The gates of the queue, by name. A message is sent when all of them allow it.",
        )
        .unset("`gateway` where the target is this gateway, else `aimd`"),
        key(
            "results",
            Text(&NOT_EMPTY),
            "The list or topic of results, even if the message names another.",
        ),
        key(
            "results_ttl",
            duration(SECOND, DAY.saturating_mul(365)),
            "How long a list of results is kept after its last result.",
        )
        .unset("for ever"),
    ],
)
.doc("The queues. With `batch.folder` there is always a queue `batch`.");
