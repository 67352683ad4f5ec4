//! The pure core of Tidegate: it decides which request waits, which one goes next, and to which
//! backend.
//!
//! The core does no IO and is single-threaded: it has no clock, no sockets and no dependencies.
//! Time is an argument, deadlines are return values, and the same calls always give the same
//! results. The callers (HTTP gateway, Envoy endpoint picker, batch dispatcher) turn bytes into
//! [`Ask`]s and [`Event`]s into bytes.
//!
//! ```
//! use flow::{Ask, BackendId, BackendSupply, Controller, ModelId, Settings, Time, Usage, Verdict};
//!
//! let mut gate = Controller::new(Settings::default());
//! let now = Time::ZERO;
//! let backend = BackendSupply::new(BackendId(7), vec![ModelId(1)]);
//! gate.supply(&[backend], now);
//!
//! let flow = gate.flow("team-a", 0);
//! let Verdict::Granted { ticket, backend } = gate.offer(Ask::new(flow, ModelId(1)), now) else {
//!     unreachable!("an idle backend takes the first ask at once");
//! };
//! assert_eq!(backend, BackendId(7));
//! gate.settle(ticket, Usage::Cost(1), now).unwrap();
//! assert_eq!(gate.counters().settled, 1);
//! ```
//!
//! Where to look: [`Controller`] has the verbs; `queue` the fair queue and its mathematics;
//! `capacity` decides which asks may wait; `supply` has the backends and their stock, `auto` their
//! self-tuning bounds, `route` the choice of a backend; `drain_rate` measures how fast the queue
//! drains; [`identity`] names flows; `workload` is the registry behind the `workload` order.
//!
//! For batch work: [`budget`] counts how many requests a reading of a gate allows,
//! [`start_limiter`] when the next one may start, [`aimd`] adapts a window where there is nothing
//! to read, and [`LaneScheduler`] divides grants among queues and tenants.

pub mod aimd;
mod ask;
mod auto;
pub mod budget;
mod capacity;
mod controller;
mod counters;
mod drain_rate;
mod flows;
pub mod identity;
pub mod invariant;
mod lane_scheduler;
mod links;
mod lru;
mod outcome;
mod queue;
mod range;
mod route;
mod settings;
pub mod start_limiter;
mod supply;
mod time;
mod weight;
mod workload;

#[cfg(test)]
mod tests;

pub use ask::{
    Ask, BANDS, BackendId, Band, COST_MAX, FlowId, ModelId, Ticket, Usage, Workload, WorkloadId,
};
pub use auto::{AutoBound, AutoLimits, EngineReading};
pub use controller::Controller;
pub use controller::forecast::WaitForecast;
pub use controller::view::{AskView, FlowView};
pub use counters::Counters;
pub use lane_scheduler::LaneScheduler;
pub use outcome::{Event, Eviction, Misuse, Refusal, RequeuePosition, Stage, Verdict};
pub use range::OutOfRange;
pub use route::{
    BackendTraits, Candidate, ModelNameError, ModelNameRule, ModelNames, ResolvedModel,
    RouteChoice, RoutePreference, RouteReason, RouteScore, RouteTerms, RouteWeights, choose,
};
pub use settings::{
    Admission, Bounds, CAPACITY_MAX, Cascade, FlowClass, Hysteresis, Order, Settings, StockUnit,
    UrgencyWeights, WorkloadLimits,
};
pub use supply::{BackendSupply, BackendView, MODELS_MAX};
pub use time::{Span, Time};
pub use weight::Weight;
pub use workload::WorkloadView;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
