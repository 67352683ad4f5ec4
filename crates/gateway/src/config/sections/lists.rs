//! The lists `flows`, `models`, `objectives` and `band_rules`.

use flow::Band;

use super::queue::{CAPACITY, OBJECTIVE};
use super::{UP_TO_A_DAY, count, number};
use crate::schema::ValueType::{Keyword, Map, Text, TextsOrTables};
use crate::schema::{NOT_EMPTY, SectionSchema, key, words};

pub(in crate::config) const FLOWS: SectionSchema = SectionSchema::new(
    "flows",
    &[
        key(
            "match",
            Map(&Text(&NOT_EMPTY)),
            "Patterns by name; all must match, and at least one is needed. `*` stands for any \
             characters. A name is one that `queue.flow_by` may have, such as `model` or \
             `header:NAME`. If `queue.flow_by` does not have it, matching and other requests \
             share a flow; then only `queue_ttl` and `slo_ttft` apply to each request on its own.",
        )
        .required(),
        key("weight", number(0.01, 1000.0), "The share of service.").default("1"),
        key("capacity", CAPACITY, "Waiting requests of such a flow, in all bands together.")
            .unset("`queue.flow_capacity`"),
        key("queue_ttl", UP_TO_A_DAY, "The longest time that a request waits.")
            .unset("`queue.queue_ttl`"),
        key(
            "slo_ttft",
            OBJECTIVE,
            "The objective for the time to the first token, in all bands of the flow; 0s is none.",
        )
        .unset("that of the band"),
        key("max_in_flight", CAPACITY, "Requests at all backends at once.").unset("no limit"),
        key("max_in_flight_per_backend", CAPACITY, "Requests at one backend at once.")
            .unset("no limit"),
    ],
)
.doc(
    "Settings of particular flows. The first entry that matches counts. A flow that no entry \
     matches has the values of `[queue]`.",
);

pub(in crate::config) const MODELS: SectionSchema = SectionSchema::new(
    "models",
    &[
        key("name", Text(&NOT_EMPTY), "The name that clients ask for, up to 256 bytes.").required(),
        key("band", Keyword(words::<Band>), "The band of requests that state none.")
            .unset("the band of its target, else normal"),
        key(
            "targets",
            TextsOrTables { table: &TARGETS, example: "{ model = \"llama-3-8b\", weight = 9 }" },
            "The models that serve it, 1 to 64: names, or tables (see below). A target must not \
             stand for other models itself.",
        )
        .unset("the name itself"),
    ],
)
.doc("The models that a requested name stands for. A name without an entry stands for itself.");

const TARGETS: SectionSchema = SectionSchema::new(
    "models.targets",
    &[
        key("model", Text(&NOT_EMPTY), "The name of the model at the backends, up to 256 bytes.")
            .required(),
        key("weight", count(0, 1_000_000), "How often it is chosen, relative to the others.")
            .default("1"),
    ],
);

pub(in crate::config) const OBJECTIVES: SectionSchema = SectionSchema::new(
    "objectives",
    &[
        key("name", Text(&NOT_EMPTY), "The value of a request's objective header.").required(),
        key("band", Keyword(words::<Band>), "The band that the objective stands for."),
        key(
            "priority",
            number(-2_147_483_648.0, 2_147_483_647.0),
            "A number instead of a band, as in an InferenceObjective: below 0 is best-effort, 0 \
             normal, 1 to 9 high, 10 and more critical.",
        ),
    ],
)
.doc(
    "Names for bands, as in llm-d; these objectives have nothing to do with `queue.slo_ttft`. Each \
     entry has `band` or `priority`. The objective header of a request may also be such a number \
     itself, so that priorities need no entries.",
);

pub(in crate::config) const BAND_RULES: SectionSchema = SectionSchema::new(
    "band_rules",
    &[
        key(
            "match",
            Map(&Text(&NOT_EMPTY)),
            "Patterns by name, as in `[[flows]]`; all must match, and at least one is needed.",
        )
        .required(),
        key("band", Keyword(words::<Band>), "The band of requests that state none.")
            .unset("that of the model, else normal"),
        key("band_max", Keyword(words::<Band>), "The highest band that such a request gets.")
            .unset("no limit"),
    ],
)
.doc(
    "The bands of particular requests, such as those of a team or with a header. The first entry \
     that matches and has `band` gives the band of a request that states none by a header or by \
     `service_tier`. Of all entries that match, the lowest `band_max` limits the band of any \
     request.",
);
