//! The section `router`.

use super::{count, number};
use crate::schema::ValueType::{Bool, Number, Table};
use crate::schema::{Range, SectionSchema, ValueType, key};

const POINTS: ValueType = number(0.0, 10_000.0);
const BOOST: ValueType = number(-1000.0, 1000.0);

pub(in crate::config) const ROUTER: SectionSchema = SectionSchema::new(
    "router",
    &[
        key(
            "queue_depth_penalty_per_request",
            POINTS,
            "Points lost for each pending request of the same or a higher band; one of a lower \
             band counts less.",
        )
        .default("50.0"),
        key(
            "engine_waiting_penalty_per_request",
            POINTS,
            "Points lost for each request that waits inside the engine.",
        )
        .default("100.0"),
        key(
            "fill_penalty",
            POINTS,
            "Points lost by a backend at its bound, if bounds are automatic or count tokens.",
        )
        .default("50.0"),
        key("kv_penalty", POINTS, "Points lost by a backend whose KV cache is full.")
            .default("200.0"),
        key(
            "kv_threshold",
            Number(Range::below(0.0, 1.0)),
            "The share of the KV cache up to which no points are lost.",
        )
        .default("0.8"),
        key(
            "prefix_bonus",
            POINTS,
            "Points gained by the home of the request's session, while no backend is believed to \
             have a part of the prompt in its cache.",
        )
        .default("100.0"),
        key(
            "cache_tokens",
            count(0, 1_000_000_000),
            "The tokens that a backend is believed to have in its prefix cache, unless its engine \
             reports how many fit. A backend that has the beginning of a prompt is preferred by \
             the time that it saves. `0`: no backend is.",
        )
        .default("2000000"),
        key(
            "cache_per_tenant",
            Bool,
            "Whether the prompts of each tenant are kept apart, so that no tenant can learn from \
             a fast response what another one asked. Engines need a `cache_salt` for the same.",
        )
        .default("false"),
        key("adapter_bonus", POINTS, "Points gained by a backend that has the adapter loaded.")
            .default("150.0"),
        key(
            "measured_latency_share",
            number(0.0, 1.0),
            "How much a measured latency counts against the stated one. With 0 limits of latency \
             do not know it either.",
        )
        .default("0.5"),
        key(
            "priority_scoring",
            Table(&PRIORITY_SCORING),
            "How strongly each band prefers speed to economy (see below).",
        ),
    ],
)
.doc("How backends are compared for each request. One point is one millisecond.");

const PRIORITY_SCORING: SectionSchema = SectionSchema::new(
    "router.priority_scoring",
    &[
        key("critical_boost", BOOST, "The boost of critical requests.").default("500.0"),
        key("high_boost", BOOST, "The boost of high requests.").default("200.0"),
        key("normal_boost", BOOST, "The boost of normal requests.").default("0.0"),
        key("best_effort_penalty", BOOST, "The boost of best-effort requests.").default("-100.0"),
    ],
)
.doc("No boost may be less than that of the band below it.");
