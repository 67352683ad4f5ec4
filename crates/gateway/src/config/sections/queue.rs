//! The sections `queue`, `controller` and `workload`.

use std::time::Duration;

use flow::{Admission, CAPACITY_MAX, Order, StockUnit};

use super::{DAY, HOUR, MILLI, SECOND, UP_TO_A_DAY, count, duration, number};
use crate::config::settings::Cost;
use crate::schema::ValueType::{Bool, Keyword, Number, Table, Texts, WordOrTable};
use crate::schema::{NOT_EMPTY, Range, SectionSchema, ValueType, key, words};

/// Requests that may wait, or be in flight.
pub(super) const CAPACITY: ValueType = count(1, CAPACITY_MAX as u64);

/// A wanted time to the first token; 0 is none.
pub(super) const OBJECTIVE: ValueType = duration(Duration::ZERO, DAY);
const SLO_TTFT: &str = "`queue.slo_ttft`";

const BY_EVENTS: &str =
    "has no effect: requests leave the queue when there is room, not by polling";
pub(super) const BY_DEADLINES: &str =
    "has no effect: each deadline has its own timer, nothing is swept";

pub(in crate::config) const QUEUE: SectionSchema = SectionSchema::new(
    "queue",
    &[
        key(
            "enabled",
            Bool,
            "Whether requests may wait. If not, a request that would have to wait gets 503 at \
             once.",
        )
        .default("true"),
        key(
            "total_capacity",
            count(0, CAPACITY_MAX as u64),
            "Waiting requests over all flows. 0 means the same as `enabled = false`.",
        )
        .default("1000")
        .aliases(&["max_size", "total_queue_capacity"]),
        key(
            "flow_capacity",
            CAPACITY,
            "Waiting requests of one flow, in all bands together. In a full flow a request takes \
             the place of one of a lower band.",
        )
        .default("100")
        .aliases(&["model_queue_capacity"]),
        key("queue_ttl", UP_TO_A_DAY, "The longest time that a request waits.")
            .default("30s")
            .aliases(&["max_wait_seconds"]),
        key(
            "hold_ttl",
            UP_TO_A_DAY,
            "The longest time that a request waits if no backend lists its model when it arrives \
             and `[[models]]` names the model.",
        )
        .default("5m"),
        key(
            "hold_capacity",
            count(0, CAPACITY_MAX as u64),
            "Requests that wait so, over all models. They also count in the other capacities. 0 \
             means that such a request gets 503 at once.",
        )
        .default("100"),
        key(
            "flow_by",
            Texts(&NOT_EMPTY),
            "The parts that make up a flow, in this order: model, target_model, workload, \
             fairness_id or header:NAME. Requests that have none of them share one flow. The queue \
             is fair between flows, so clients should not be able to choose their names.",
        )
        .default("[\"model\"]"),
        key(
            "session_by",
            Texts(&NOT_EMPTY),
            "The parts that tell the sessions (or agents) of a flow apart: session, model, \
             target_model, workload, fairness_id or header:NAME. The sessions of a flow then share \
             its grants by cost, and only these: a session that a client invents divides the share \
             of its own flow. `session` is what the request names in X-Session-Id, \
             prompt_cache_key, session or user. An empty list means one line for each flow.",
        )
        .default("[]"),
        key("order", Keyword(words::<Order>), "The order of requests inside a flow.")
            .default("fifo"),
        key("cost", Keyword(words::<Cost>), "What a request costs its flow.").default("requests"),
        key("admission", Keyword(words::<Admission>), "Which requests may wait.").default("all"),
        key(
            "bands",
            WordOrTable {
                word: "strict",
                table: &BANDS,
                example: "weights such as { critical = 70, high = 15, normal = 10, \
                          best_effort = 5 }",
            },
            "How bands share: the highest band first, or by weights (see below). In a full queue \
             weights keep the places of a band from high and normal requests, not from critical \
             ones.",
        )
        .default("strict"),
        key(
            "refuse_hopeless",
            Bool,
            "Whether a request is refused at once if its predicted wait exceeds its time to live.",
        )
        .default("false"),
        key(
            "slo_ttft",
            OBJECTIVE,
            "The wanted time to the first token of critical, high and normal requests. Inside a \
             flow, requests that can still make it go first; the others are served behind them, \
             when there is room. If the requests of a flow have stood in line for a minute, a \
             request that cannot make it gets 503 at once. A client may state its own objective. \
             0s: the order alone counts, whatever clients state.",
        )
        .unset("`2s`; none with the orders deadline and workload"),
        key(
            "slo_ttft_by_band",
            Table(&SLO_TTFT_BY_BAND),
            "Objectives of single bands instead of `slo_ttft` (see below).",
        ),
        key(
            "existing_flows_may_exceed_total",
            Bool,
            "Whether a flow that has waiting requests may continue past a full total.",
        )
        .default("false"),
        key(
            "idle_flows_max",
            count(1, 1 << 20),
            "Flows that are remembered while they have no request waiting or in flight.",
        )
        .default("16384"),
    ],
)
.camel_case();

const BANDS: SectionSchema = SectionSchema::new(
    "queue.bands",
    &[
        key("critical", number(0.01, 1000.0), "The share of the critical band.").required(),
        key("high", number(0.01, 1000.0), "The share of the high band.").required(),
        key("normal", number(0.01, 1000.0), "The share of the normal band.").required(),
        key("best_effort", number(0.01, 1000.0), "The share of the best-effort band.").required(),
    ],
)
.doc(
    "Shares of service instead of strict order. All four keys are required. The share of an idle \
     band goes to the others.",
);

const SLO_TTFT_BY_BAND: SectionSchema = SectionSchema::new(
    "queue.slo_ttft_by_band",
    &[
        key("critical", OBJECTIVE, "The objective of critical requests.").unset(SLO_TTFT),
        key("high", OBJECTIVE, "The objective of high requests.").unset(SLO_TTFT),
        key("normal", OBJECTIVE, "The objective of normal requests.").unset(SLO_TTFT),
        key("best_effort", OBJECTIVE, "The objective of best-effort requests.").unset("none"),
    ],
)
.doc("The wanted time to the first token by band; 0s is none.");

pub(in crate::config) const CONTROLLER: SectionSchema = SectionSchema::new(
    "controller",
    &[
        key(
            "watermark_per_backend",
            Number(Range::above(0.0, 1e9)),
            "The stock that each backend should hold.",
        )
        .unset("automatic; 2 where another key fixes the bounds"),
        key(
            "percentage_deviation_for_bounds",
            Number(Range::open(0.0, 1.0)),
            "The distance of the bounds from the watermark, as a share of it.",
        )
        .unset("automatic; 0.1 where another key fixes the bounds"),
        key(
            "lower_bound_per_backend",
            Number(Range::above(0.0, 1e9)),
            "Requests leave the queue while the stock is below this bound; at most the watermark.",
        )
        .unset("from the deviation"),
        key(
            "upper_bound_per_backend",
            Number(Range::above(0.0, 1e9)),
            "Requests bypass an empty queue while the stock is below this bound; at least the \
             watermark.",
        )
        .unset("from the deviation"),
        key("stock", Keyword(words::<StockUnit>), "The unit of these numbers.").default("requests"),
        key(
            "pace_max",
            duration(MILLI, HOUR),
            "Automatic bounds keep the mean time between two tokens of a stream within this.",
        )
        .unset("no limit"),
        key(
            "reserve_share_max",
            Number(Range::closed(0.0, 0.5)),
            "The largest share of a backend's places that is kept free for requests that must not \
             wait: those of higher bands, and of flows that hold less than their share. 0 keeps \
             none. Without a watermark, places are kept once the metrics of the model server show \
             how many there are.",
        )
        .default("0"),
        key(
            "reserve_min",
            count(0, 1000),
            "The fewest places that are kept free for critical requests, within that share.",
        )
        .default("1"),
    ],
)
.camel_case()
.ignored(&[
    ("num_poppers", BY_EVENTS),
    ("popper_wait_base", BY_EVENTS),
    ("popper_wait_jitter_max", BY_EVENTS),
    ("expiry_cleanup_interval", BY_DEADLINES),
])
.doc(
    "How much work the backends may hold. Without any of the first four keys the bounds are \
     automatic: Tidegate finds for each backend how much it can take. Any of the four fixes the \
     bounds for all backends.\n\n\
     Bounds are real numbers, and a request starts while the stock is below the bound. A watermark \
     of 1 lets requests bypass an empty queue below 1.1, which is two requests; a watermark of 2, \
     below 2.2, which is three. Where the number must be exact, set `upper_bound_per_backend` to \
     the watermark.",
);

pub(in crate::config) const WORKLOAD: SectionSchema = SectionSchema::new(
    "workload",
    &[
        key(
            "window",
            duration(SECOND, DAY),
            "The period over which a workload's rate is measured.",
        )
        .default("60s"),
        key("idle", duration(SECOND, DAY), "How long a workload without requests is remembered.")
            .default("5m"),
        key("count_max", count(1, 1 << 20), "Workloads that are remembered.").default("10000"),
        key("wait_cap", UP_TO_A_DAY, "A longer wait does not raise urgency further.")
            .default("60s"),
        key(
            "rate_cap",
            Number(Range::above(0.0, 1e9)),
            "In requests per second. A higher rate does not lower urgency further.",
        )
        .default("100"),
        key("weights", Table(&WEIGHTS), "The weights of urgency (see below)."),
    ],
)
.camel_case()
.ignored(&[("cleanup_interval", BY_DEADLINES)])
.doc("The registry of workloads, and urgency for `queue.order = \"workload\"`.");

const WEIGHTS: SectionSchema = SectionSchema::new(
    "workload.weights",
    &[
        key("wait", number(0.0, 1000.0), "How much waiting raises urgency.").default("0.4"),
        key("criticality", number(0.0, 1000.0), "How much the stated criticality raises urgency.")
            .default("0.4"),
        key("rate", number(0.0, 1000.0), "How much a workload's rate lowers urgency.")
            .default("0.2"),
    ],
);
