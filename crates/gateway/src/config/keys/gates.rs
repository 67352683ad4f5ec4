//! The list `dispatch.gates`: the keys of all gates, and those of each kind.

use std::time::Duration;

use super::forms::{HTTP_URL, REDIS_URL};
use super::{DAY, HOUR, count, duration, millis, number};
use crate::config::resolved::dispatch::{Says, Unit};
use crate::schema::ValueType::{Keyword, Map, Number, Text};
use crate::schema::{
    ANY_TEXT, Key, NOT_EMPTY, Range, SectionSchema, ValueType, Variant, key, names,
};

const POSITIVE: ValueType = Number(Range::above(0.0, 1e12));

pub(in crate::config) const GATES: SectionSchema = SectionSchema::new(
    "dispatch.gates",
    &[
        key("name", Text(&NOT_EMPTY), "The name by which queues refer to the gate.").required(),
        key("kind", ValueType::Variant, "The source of the gate's readings (see below).")
            .required(),
        key(
            "baseline",
            Number(Range::below(0.0, 1.0)),
            "The free share that is left to other work.",
        )
        .default("0.2"),
        key(
            "capacity",
            POSITIVE,
            "What the whole system can have at once. The kinds gateway, prometheus-budget and aimd \
             find it themselves.",
        ),
        key("capacity_per_server", POSITIVE, "The same for each server that is ready."),
        key("ready_metric", Text(&NOT_EMPTY), "The metric that counts the ready servers.")
            .unset("`inference_pool_ready_pods`, `llm_d_epp_ready_endpoints`"),
        key("unit", Keyword(names::<Unit>), "The unit that the gate counts.").default("requests"),
        key("interval", duration(millis(10), HOUR), "The time between two readings.").default("1s"),
        key(
            "stale_after",
            duration(millis(10), DAY),
            "The age at which a reading no longer counts. Without a reading nothing is sent.",
        )
        .unset("three intervals, at least 5s"),
        key(
            "hold",
            duration(Duration::ZERO, HOUR),
            "How long at least nothing is sent after an overload.",
        )
        .default("1s"),
    ],
)
.variants(KINDS)
.doc(
    "A gate reads how free a system is, and allows `capacity × (free − baseline)` messages. Queues \
     may name the gates `gateway` and `aimd` without an entry here. Each kind has keys of its own.",
);

const KINDS: &[Variant] = &[
    Variant {
        name: "gateway",
        aliases: &[],
        doc: "How full the backends of this gateway are.",
        keys: &[key(
            "rest",
            number(0.0, 1000.0),
            "After a start, no further batch request starts for this many times the duration of a \
             start, while requests of a higher band are there.",
        )
        .default("1")],
    },
    Variant {
        name: "constant",
        aliases: &[],
        doc: "Always the same share.",
        keys: &[key("value", number(0.0, 1.0), "The free share.").default("1")],
    },
    Variant {
        name: "redis",
        aliases: &[],
        doc: "A number that another program keeps in Redis.",
        keys: &[
            key("url", Text(&REDIS_URL), "The server.").required(),
            key("key", Text(&NOT_EMPTY), "The key.").default("dispatch-gate-budget"),
        ],
    },
    Variant {
        name: "scrape",
        aliases: &["endpoint-scrape"],
        doc: "One number of a metrics page.",
        keys: &[
            key("url", Text(&HTTP_URL), "The page.").required(),
            key("metric", Text(&NOT_EMPTY), "The name of the metric.").required(),
            key("labels", Map(&Text(&ANY_TEXT)), "Labels that the metric must have.").unset("none"),
            key("says", Keyword(names::<Says>), "What the number means.").default("saturation"),
        ],
    },
    Variant {
        name: "prometheus-saturation",
        aliases: &[],
        doc: "The saturation of a pool, from Prometheus.",
        keys: &[PROMETHEUS_URL, POOL],
    },
    Variant {
        name: "prometheus-budget",
        aliases: &[],
        doc: "How full the endpoint picker of a pool is, from Prometheus.",
        keys: &[
            PROMETHEUS_URL,
            POOL,
            key("max_concurrency", POSITIVE, "Requests that one server takes.").default("100"),
        ],
    },
    Variant {
        name: "prometheus-query",
        aliases: &[],
        doc: "The value of an expression, from Prometheus.",
        keys: &[
            PROMETHEUS_URL,
            key("query", Text(&NOT_EMPTY), "An expression for the free share.").required(),
        ],
    },
    Variant {
        name: "aimd",
        aliases: &[],
        doc: "The responses alone: additive increase, and half of it after an overload.",
        keys: &[
            key("min", count(1, 65_536), "The least in flight.").default("1"),
            key("max", count(1, 65_536), "The most in flight.").default("256"),
        ],
    },
];

const PROMETHEUS_URL: Key = key("url", Text(&HTTP_URL), "The server.").required();
const POOL: Key = key("pool", Text(&NOT_EMPTY), "The name of the pool.").required();
