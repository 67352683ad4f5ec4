//! The sections `queue`, `controller` and `workload`.

use std::time::Duration;

use flow::{Admission, CAPACITY_MAX, COST_MAX, Order, StockUnit};

use super::{DAY, HOUR, MILLI, SECOND, UP_TO_A_DAY, count, duration, number};
use crate::config::settings::Cost;
use crate::schema::ValueType::{Bool, Keyword, Number, Table, Texts, WordOrTable};
use crate::schema::{NOT_EMPTY, Range, SectionSchema, ValueType, key, words};

/// Requests that may wait, or be in flight.
pub(super) const CAPACITY: ValueType = count(1, CAPACITY_MAX as u64);

/// An objective for the time to the first token; 0 is none.
pub(super) const OBJECTIVE: ValueType = duration(Duration::ZERO, DAY);
const SLO_TTFT: &str = "`queue.slo_ttft`";

const BY_EVENTS: &str =
    "has no effect: requests leave the queue when there is room, not by polling";
pub(super) const BY_DEADLINES: &str = "has no effect: there is no periodic cleanup";

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
            "The longest time that a request waits if no backend lists its model when it arrives, \
             and `[[models]]` names the model, or the backends come from Kubernetes and none \
             lists a model. Models of a pool that return later than the first are awaited as long.",
        )
        .default("5m"),
        key(
            "hold_capacity",
            count(0, CAPACITY_MAX as u64),
            "The largest number of requests that wait like this, over all models. They also count \
             in the other capacities. Above it a request takes the place of one of a lower band, \
             if `admission` is `all`. 0 means that such a request gets 503 at once.",
        )
        .default("100"),
        key(
            "flow_by",
            Texts(&NOT_EMPTY),
            "The parts that make up a flow, in this order: model, target_model, tenant, workload, \
             fairness_id, address or header:NAME. The address is that of the peer, which behind a \
             proxy is the proxy; `epp` does not know it. Requests that have none of them share one \
             flow. The queue is fair between flows, so clients should not be able to choose their \
             names. With `[[tenants]]` the default is tenant.",
        )
        .default("[\"model\"]"),
        key(
            "session_by",
            Texts(&NOT_EMPTY),
            "The parts that tell the sessions (or agents) of a flow apart: session, model, \
             target_model, tenant, workload, fairness_id, address or header:NAME. The sessions of \
             a flow take turns, weighted by cost. A client that invents sessions takes turns from \
             its own flow only, not from other flows. `session` is what the request names in \
             X-Session-Id, prompt_cache_key, session or user. An empty list means that sessions \
             do not matter.",
        )
        .default("[]"),
        key(
            "order",
            Keyword(words::<Order>),
            "The order of requests inside a flow. `deadline`: the request whose wait ends first \
             goes first, by its time to live or its client's deadline. `workload`: by urgency \
             (see `[workload]`). If requests have an objective (see `slo_ttft`), the order \
             applies to the fresh requests and then to the late ones.",
        )
        .default("fifo"),
        key(
            "cache_slack",
            count(0, COST_MAX),
            "How far a flow may go ahead of its turn, in the unit of `cost` at weight 1, if the \
             prompt of its next request is cached where a place is free. Two flows of weight 1 \
             that both wait then differ by at most twice this much more. 0: turns alone decide.",
        )
        .default("4"),
        key(
            "cache_reorder",
            count(0, 1000),
            "How many later requests of its own flow, and at most half as many as wait there, \
             may go before a request because their prompts are cached where a place is free, in \
             the order `fifo`. None goes before a critical one, and other flows are not affected. \
             0: caches never change the order inside a flow.",
        )
        .unset("`256`; 0 where no band has an objective (`slo_ttft = \"0s\"`)"),
        key(
            "cache_delay",
            OBJECTIVE,
            "How long a request may wait for a backend that has its prompt cached and no room, \
             although another backend has room. It waits only while a place is expected to come \
             free within the time that the cache saves to it and to the requests in flight at \
             the other backend, and never longer than that. Critical requests do not wait, and \
             other bands and models do not wait with it. Where such waits lose more than they \
             win, they stop by themselves. 0s: not at all.",
        )
        .default("3s"),
        key(
            "model_stay",
            OBJECTIVE,
            "How long a backend that loads models on demand (Ollama, llama-swap) stays with a \
             model that it has loaded. Until then requests for its loaded models go first, and \
             requests for another model wait while it has others in flight. Keep it below \
             `queue_ttl`. With 0s turns alone decide.",
        )
        .default("10s"),
        key(
            "model_slack",
            count(0, COST_MAX),
            "How far a flow may go ahead of its turn for `model_stay`, in the unit of `cost` at \
             weight 1.",
        )
        .default("64"),
        key("cost", Keyword(words::<Cost>), "What a request costs its flow.").default("requests"),
        key(
            "charge_cached",
            Bool,
            "Whether the tokens of a prompt that its backend had in its cache count in `cost = \
             \"tokens\"` and in the rates and quotas of tenants. The response says how many they \
             are (`cached_tokens`).",
        )
        .default("false"),
        key(
            "admission",
            Keyword(words::<Admission>),
            "Which requests may wait. `all`: those of every band; in a full queue one of a higher \
             band takes the place of one of a lower band. `until-full`: those of every band while \
             there is room; none of them loses its place. `critical-only`: critical ones.",
        )
        .default("all"),
        key(
            "bands",
            WordOrTable {
                word: "strict",
                table: &BANDS,
                example: "weights such as { critical = 70, high = 15, normal = 10, \
                          best_effort = 5 }",
            },
            "How bands share: the highest band first, or by weights (see below). With weights, \
             each band also keeps its share of the waiting places of a full queue. Critical \
             requests may take these places, high and normal requests may not.",
        )
        .default("strict"),
        key(
            "refuse_hopeless",
            Bool,
            "Whether a request that is not critical is refused at once if its predicted wait \
             exceeds its time to live.",
        )
        .default("false"),
        key(
            "slo_ttft",
            OBJECTIVE,
            "The objective of critical, high and normal requests: the target for the time to the \
             first token. Inside a flow, requests that can still meet their objective are fresh \
             and go first. The others are late and are served behind them, when there is room; a \
             critical request is never late, and keeps its turn. In a lasting overload \
             (`overload_after`), late requests get 503, and so do new ones that would be late. \
             A client may state its own objective. \
             With 0s there is no objective: \
             `order` alone decides, as long as `cache_reorder` is not set, and headers of clients \
             do not change that. So with the order `fifo` a flow is served first come, first \
             served; where backends load models on demand, `model_stay` must be 0s for that, too.",
        )
        .unset("`2s`; none with the orders deadline and workload"),
        key(
            "overload_after",
            duration(MILLI, DAY),
            "An overload lasts if requests of a band have waited for this long without a long \
             pause. A pause is long if it takes more than a sixth of this time, or if it takes \
             more than a thirty-sixth and at least 16 requests were sent in it without waiting to \
             a backend that was at most three quarters full. While the overload lasts, late \
             requests get 503, so that the others are served in time, except critical ones. In a \
             shorter overload late requests wait and are served later.",
        )
        .default("3m"),
        key(
            "slo_ttft_by_band",
            Table(&SLO_TTFT_BY_BAND),
            "The objectives of single bands instead of `slo_ttft` (see below).",
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
     band goes to the others. A flow gets a part of the share of each band that it uses. So each \
     tenant has one band, its `band` in `[[tenants]]`.",
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
.doc("The objective for the time to the first token, by band; 0s is none.");

pub(in crate::config) const CONTROLLER: SectionSchema = SectionSchema::new(
    "controller",
    &[
        key(
            "watermark_per_backend",
            Number(Range::above(0.0, 1e9)),
            "The stock that each backend should hold: its requests in flight, or their tokens.",
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
            Number(Range::closed(0.0, 1e9)),
            "Requests leave the queue while the stock is below this bound, and in any case when a \
             backend has no stock; at most the watermark.",
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
            "slo_tpot",
            duration(MILLI, HOUR),
            "The wanted time between two tokens of each stream. If more than a twentieth of the \
             streams of a backend are slower, automatic bounds let fewer prompts start at once \
             there, and then send it fewer requests, but at least half of those that it was seen \
             to run.",
        )
        .unset("no objective: tokens per second count"),
        key(
            "reserve_share_max",
            Number(Range::closed(0.0, 0.5)),
            "The largest share of the backends' places that is kept free for requests that must \
             not wait: those of higher bands, and of flows that hold less than their share. If \
             this share is less than one place, none is kept. 0.1875 was measured \
             (docs/OVERLOAD.md); 0 keeps none. With automatic bounds, places are kept once the \
             metrics of the model server show how many there are.",
        )
        .unset("automatic bounds keep up to 1/32 for higher bands alone; fixed bounds keep none"),
        key(
            "reserve_min",
            count(0, 1000),
            "The fewest places that are kept free for critical requests, within \
             `reserve_share_max`.",
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
     A request starts if the stock of all ready backends together is below their bounds. While the \
     queue is empty the upper bound counts, and while requests wait the lower bound. By default \
     they are 10 % above and 10 % below the watermark. Their sum is rounded up. Example: with a \
     watermark of 8 and two backends, 18 requests run while the queue is empty, and 15 while \
     requests wait. If the number must be exact, set the watermark and both bounds to the same \
     number, such as the `--max-num-seqs` of vLLM.",
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
