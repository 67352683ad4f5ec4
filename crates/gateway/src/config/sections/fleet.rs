//! The sections about backends.

use std::time::Duration;

use super::forms::{BACKEND_ID, BACKEND_URL, TLS_NAME};
use super::{DAY, HOUR, MILLI, count, duration, millis, number};
use crate::config::settings::{BackendKind, PoolGroup};
use crate::schema::ValueType::{Bool, Keyword, Path, Table, Text, Texts};
use crate::schema::{NOT_EMPTY, SectionSchema, key, words};

pub(in crate::config) const BACKENDS: SectionSchema = SectionSchema::new(
    "backends",
    &[
        key("id", Text(&BACKEND_ID), "The name of the backend in headers, metrics and logs.")
            .unset("host and port of the URL"),
        key(
            "url",
            Text(&BACKEND_URL),
            "The address of the backend. A path is put before the path of each request. With \
             `https` Tidegate speaks TLS to it, and checks its certificate.",
        )
        .required(),
        key(
            "kind",
            Keyword(words::<BackendKind>),
            "The software of the backend, which determines the paths of its health, its models \
             and its metrics. With `auto` Tidegate recognises it by its model list, its metrics or \
             Ollama's version.",
        )
        .default("auto"),
        key("models", Texts(&NOT_EMPTY), "The models that it serves; `*` stands for any model.")
            .unset("read from the backend"),
        key("power_watts", number(0.0, 1e6), "The power that it draws while it works.")
            .default("0"),
        key("latency_ms", number(0.0, 1e7), "The time to its first token when it is idle.")
            .default("500"),
        key(
            "places",
            count(1, 100_000),
            "How many requests it runs at once: `--max-num-seqs` of vLLM, `--parallel` of \
             llama.cpp, `OLLAMA_NUM_PARALLEL`. Automatic bounds never send it more. Give it if \
             its metrics do not tell, above all if it has no metrics and its responses do not \
             stream.",
        )
        .unset("found by its metrics or its streams"),
        key("http2", Bool, "Whether Tidegate speaks HTTP/2 to it.").default("false"),
        key(
            "api_key_env",
            Text(&NOT_EMPTY),
            "The environment variable with the key for this backend, such as `OPENAI_API_KEY`. \
             Requests and health checks carry it as `Authorization: Bearer`, in place of the \
             client's own.",
        ),
        key(
            "api_key_file",
            Path,
            "A file whose first line is that key. It is watched for changes.",
        ),
        key(
            "ca_file",
            Path,
            "A PEM file with the root certificates for TLS to it, which is read again when it \
             has changed.",
        )
        .unset("the root certificates of the system"),
        key(
            "tls_name",
            Text(&TLS_NAME),
            "The name that its certificate must have, and that is sent to it (SNI).",
        )
        .unset("the host of the URL"),
    ],
);

pub(in crate::config) const DISCOVERY: SectionSchema = SectionSchema::new(
    "discovery",
    &[
        key(
            "enabled",
            Bool,
            "Whether Tidegate looks for servers on the local ports 11434, 8000, 8080, 1234 and \
             30000.",
        )
        .unset("true while there is neither a backend nor an endpoints file"),
        key(
            "endpoints_file",
            Path,
            "A YAML or JSON file with further servers, `endpoints: [{name, address, port}]`, which \
             is watched for changes. See `The endpoints file` for all fields. An unreadable file \
             keeps the old list and a missing file is an empty list, so replace it by renaming \
             another file over it.",
        ),
        key("kubernetes", Table(&KUBERNETES), "Endpoints in a Kubernetes cluster."),
    ],
);

pub(in crate::config) const KUBERNETES: SectionSchema = SectionSchema::new(
    "discovery.kubernetes",
    &[
        key(
            "pool",
            Text(&NOT_EMPTY),
            "An InferencePool whose pods are backends. Its InferenceObjectives give requests their \
             bands, and its InferenceModelRewrites their models.",
        ),
        key(
            "pool_group",
            Keyword(words::<PoolGroup>),
            "The group of the pool: `stable` is inference.networking.k8s.io, or the older one \
             where the cluster lacks it, and `alpha` is inference.networking.x-k8s.io.",
        )
        .default("stable"),
        key("service", Text(&NOT_EMPTY), "A Service whose endpoints are backends."),
        key(
            "selector",
            Text(&NOT_EMPTY),
            "A label selector, such as `app=vllm`: the pods that it selects are backends.",
        ),
        key(
            "port",
            count(1, 65535),
            "The port of the pods that `selector` selects, which needs it, and of the endpoints of \
             `service`.",
        )
        .unset("the first port of the service"),
        key("namespace", Text(&NOT_EMPTY), "The namespace of all of these.")
            .unset("that of the service account, or `default` where `url` is set"),
        key("url", Text(&BACKEND_URL), "The address of the API server.")
            .unset("that of the cluster in which Tidegate runs"),
        key(
            "token_file",
            Path,
            "A file with the token for the API server. It is read for each request.",
        )
        .unset("that of the service account, or none where `url` is set"),
        key("ca_file", Path, "A PEM file with the root certificates of the API server.")
            .unset("that of the service account, or those of the system where `url` is set"),
    ],
)
.doc("`docs/KUBERNETES.md` has the roles that this needs.");

pub(in crate::config) const HEALTH: SectionSchema = SectionSchema::new(
    "health",
    &[
        key("interval", duration(millis(100), HOUR), "The time between two checks of a backend.")
            .default("5s"),
        key("timeout", duration(millis(10), HOUR), "How long one check may take.").default("2s"),
        key(
            "eject_after",
            count(1, 1000),
            "Consecutive failures, or consecutive responses that break off, that eject a backend.",
        )
        .default("3"),
        key(
            "eject_for",
            duration(millis(10), HOUR),
            "How long the first ejection lasts. Each further one lasts twice as long, up to ten \
             times.",
        )
        .default("5s"),
        key(
            "silence_limit",
            duration(Duration::ZERO, HOUR),
            "A backend is ejected, and its requests are sent again, when it gives no sign of life \
             for this long and for eight times its longest time to a first byte. 0 switches this \
             off.",
        )
        .default("10s"),
        key(
            "slow_start",
            duration(Duration::ZERO, HOUR),
            "How long a backend that has returned gets fewer requests than the others.",
        )
        .default("10s"),
    ],
);

pub(in crate::config) const METRICS: SectionSchema = SectionSchema::new(
    "metrics",
    &[key(
        "interval",
        duration(millis(50), HOUR),
        "The time between two readings of a backend's own metrics.",
    )
    .default("250ms")],
);

pub(in crate::config) const UPSTREAM: SectionSchema = SectionSchema::new(
    "upstream",
    &[
        key("connect_timeout", duration(MILLI, HOUR), "How long a connection may take.")
            .default("5s"),
        key(
            "answer_timeout",
            duration(MILLI, DAY),
            "How long a backend may take to begin its response.",
        )
        .default("10m"),
        key("stall_timeout", duration(MILLI, DAY), "How long a stream may stand still.")
            .default("5m"),
    ],
);

/// With as many attempts the time to live alone ends a request.
const RETRIES_MAX: u64 = 100_000;

pub(in crate::config) const RETRY: SectionSchema = SectionSchema::new(
    "retry",
    &[
        key(
            "attempts",
            count(1, RETRIES_MAX),
            "Attempts that a request may fail at backends which serve other requests.",
        )
        .default("3"),
        key(
            "share",
            number(0.0, RETRIES_MAX as f64),
            "The budget of repeated attempts after such failures: how many of them each new \
             request pays for. 0.2 allows one repeated attempt for five requests. Each tenant has \
             its own budget; without tenants, the flows share 1024 budgets. A budget holds 100 \
             attempts at the start, and at most 100 or twice the share.",
        )
        .default("0.2"),
    ],
)
.doc("A request is tried again only while no byte of a response was sent to its client.");
