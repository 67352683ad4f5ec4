//! The table of all keys: what can be configured, stated once.
//!
//! A new key is one entry here and one field where it is used. The validator, the defaults, the
//! aliases, `--set`, the environment variables, `docs/CONFIGURATION.md` and the JSON Schema are
//! derived from these tables.

mod batch;
mod dispatch;
mod fleet;
mod forms;
mod lists;
mod queue;
mod router;
mod scaler;
mod server;
mod tenants;
mod traces;

pub(super) use batch::BATCH;
pub(super) use dispatch::{DISPATCH, QUEUES};
pub(super) use fleet::{BACKENDS, DISCOVERY, HEALTH, METRICS, RETRY, UPSTREAM};
pub(super) use forms::backend_address;
pub(crate) use forms::server_address;
pub(super) use lists::{BAND_RULES, FLOWS, MODELS, OBJECTIVES};
pub(super) use queue::{CONTROLLER, QUEUE, WORKLOAD};
pub(super) use router::ROUTER;
pub(super) use scaler::SCALER;
pub(super) use server::{ADMIN, DBUS, EPP, LOG, SERVER};
pub(super) use tenants::{AUTH, TENANTS, USAGE};
pub(super) use traces::TRACES;

use std::time::Duration;

use crate::config::settings::Profile;
pub(super) use crate::gates::GATES;
use crate::schema::ValueType::{Keyword, Table, Tables};
use crate::schema::{Range, SectionSchema, ValueType, key, words};

/// The whole file.
pub(super) const ROOT: SectionSchema = SectionSchema::new(
    "",
    &[
        key(
            "profile",
            Keyword(words::<Profile>),
            "The design whose rules hold where the configuration gives none. \
             docs/CONFIGURATION.md has what each sets.",
        )
        .unset("implied by the sections of the file, else `\"none\"`"),
        key("server", Table(&SERVER), "The listener for clients and its limits."),
        key("admin", Table(&ADMIN), "The status pages."),
        key("auth", Table(&AUTH), "The keys of clients and operators."),
        key("tenants", Tables(&TENANTS), "Groups of clients with keys and limits.")
            .unset("none: requests need no key"),
        key("usage", Table(&USAGE), "The accounts of tenants."),
        key("epp", Table(&EPP), "The endpoint picker."),
        key("scaler", Table(&SCALER), "What an autoscaler is told."),
        key("log", Table(&LOG), "Log lines."),
        key("traces", Table(&TRACES), "Traces of requests."),
        key("dbus", Table(&DBUS), "The D-Bus interface."),
        key("queue", Table(&QUEUE), "The queue.").aliases(&["fair_request_queue"]),
        key("controller", Table(&CONTROLLER), "How much work the backends may hold.")
            .aliases(&["request_queue_controller"]),
        key("flows", Tables(&FLOWS), "Settings of particular flows."),
        key("backends", Tables(&BACKENDS), "The model servers.")
            .unset("the servers that discovery finds"),
        key("discovery", Table(&DISCOVERY), "How further backends are found."),
        key("health", Table(&HEALTH), "Health checks of backends."),
        key("metrics", Table(&METRICS), "Readings of the backends' own metrics."),
        key("upstream", Table(&UPSTREAM), "Time limits towards backends."),
        key("retry", Table(&RETRY), "Further attempts for a request."),
        key("models", Tables(&MODELS), "Model names and the models that they stand for."),
        key("objectives", Tables(&OBJECTIVES), "Objectives and their bands."),
        key("band_rules", Tables(&BAND_RULES), "The bands of particular requests."),
        key("router", Table(&ROUTER), "How backends are compared."),
        key("workload", Table(&WORKLOAD), "The registry of workloads."),
        key("batch", Table(&BATCH), "The Batch API."),
        key("dispatch", Table(&DISPATCH), "The dispatcher of batch work."),
    ],
);

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The range of most durations.
const UP_TO_A_DAY: ValueType = duration(MILLI, DAY);

const fn duration(min: Duration, max: Duration) -> ValueType {
    ValueType::Duration { min, max }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn count(min: u64, max: u64) -> ValueType {
    ValueType::Count { min, max }
}

const fn size(min: u64, max: u64) -> ValueType {
    ValueType::Size { min, max }
}

const fn number(min: f64, max: f64) -> ValueType {
    ValueType::Number(Range::closed(min, max))
}
