//! The pure core of Tidegate: it decides which request waits, which one goes next, and to which
//! backend.
//!
//! The core does no IO and is single-threaded: it has no clock, no sockets and no dependencies.
//! Time is an argument, deadlines are return values, and the same calls always give the same
//! results. The callers (HTTP gateway, Envoy endpoint picker, batch dispatcher) turn bytes into
//! [`Ask`]s and [`Event`]s into bytes.
//!
//! ```
//! use flow::{
//!     Ask, BackendId, BackendSupply, Controller, Event, ModelId, Settings, Time, Usage, Verdict,
//! };
//!
//! let mut controller = Controller::new(Settings::default());
//! let now = Time::ZERO; // the caller owns the clock
//! controller.supply(&[BackendSupply::new(BackendId(7), vec![ModelId(1)])], now);
//!
//! let flow = controller.flow("team-a", 0);
//! match controller.offer(Ask::new(flow, ModelId(1)), now) {
//!     // Send the request to the backend. When the response has ended, settle its cost.
//!     Verdict::Granted { ticket, backend } => {
//!         assert_eq!(backend, BackendId(7));
//!         controller.settle(ticket, Usage::Cost(120), now).unwrap();
//!     }
//!     // Keep the ticket: an event will name it.
//!     Verdict::Queued { ticket: _ } => {}
//!     // Tell the client the reason, and when to retry.
//!     Verdict::Refused { reason: _, retry_after: _ } => {}
//! }
//! while let Some(event) = controller.poll_event() {
//!     match event {
//!         Event::Granted { ticket: _, backend: _, waited: _ } => { /* send the request */ }
//!         Event::Evicted { ticket: _, reason: _, retry_after: _ } => { /* tell its client */ }
//!     }
//! }
//! // Call `controller.wake(now)` at this time: a deadline of a waiting ask.
//! let _next_wake = controller.next_wake();
//! assert_eq!(controller.counters().settled, 1);
//! ```
//!
//! Where to look: [`Controller`] has the verbs; `queue` the fair queue and its mathematics;
//! `capacity` decides which asks may wait; `supply` has the backends and their stock,
//! `auto_watermark` their self-tuning bounds, `reserve` the places kept free, `route` the choice of
//! a backend; `drain_rate` measures how fast the queue drains, `demand` how many backends are
//! needed; [`identity`] names flows; `workload` is the registry behind the `workload` order.
//!
//! For batch work: [`budget`] counts how many requests a reading of a gate allows,
//! [`start_limiter`] when the next one may start, [`aimd`] adapts a window where there is nothing
//! to read, and [`LaneScheduler`] divides grants among queues and tenants.

pub mod aimd;
mod ask;
mod auto_watermark;
pub mod budget;
mod cache_waits;
mod capacity;
mod controller;
mod counters;
mod demand;
mod drain_rate;
mod flows;
pub mod identity;
pub mod invariant;
mod lane_scheduler;
mod latency;
mod links;
mod loaded_models;
mod lru;
mod outcome;
mod prefill_rate;
mod prefix_index;
mod prompt_blocks;
mod queue;
mod range;
mod reserve;
mod route;
mod settings;
pub mod start_limiter;
mod start_time;
mod supply;
mod time;
mod turnover;
mod weight;
mod workload;

#[cfg(test)]
mod tests;

pub use ask::{
    Ask, BANDS, BackendId, Band, COST_MAX, FlowId, ModelId, NO_WORK, Ticket, Usage, Workload,
    WorkloadId,
};
pub use auto_watermark::{AutoBound, AutoLimits, EngineReading};
pub use controller::Controller;
pub use controller::forecast::WaitForecast;
pub use controller::retry_after::{RETRY_AFTER_MAX, RETRY_AFTER_MIN};
pub use controller::view::{AskView, FlowView};
pub use counters::Counters;
pub use demand::{Demand, ScaleGoal};
pub use lane_scheduler::LaneScheduler;
pub use outcome::{Event, Eviction, Misuse, Refusal, RequeuePosition, Stage, Verdict};
pub use prefix_index::PrefixIndex;
pub use prompt_blocks::{BLOCK_BYTES, BlockHasher, PROMPT_BLOCKS_MAX, PromptBlocks};
pub use queue::urgency::UrgencyTerms;
pub use range::OutOfRange;
pub use route::{
    BackendTraits, Candidate, ModelNameError, ModelNameRule, ModelNames, ResolvedModel,
    RouteChoice, RoutePreference, RouteReason, RouteScore, RouteTerms, RouteWeights, choose,
};
pub use settings::{
    Admission, Bounds, CAPACITY_MAX, Cascade, FlowClass, Hysteresis, Order, ReserveLimits,
    SLO_TTFT, Settings, StockUnit, UrgencyWeights, WorkloadLimits,
};
pub use supply::{BackendSupply, BackendView, MODELS_MAX};
pub use time::{Span, Time};
pub use weight::Weight;
pub use workload::WorkloadView;
