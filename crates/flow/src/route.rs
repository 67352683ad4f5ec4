//! Chooses the model and the backend of an ask.
//!
//! [`ModelNames`] resolves the requested model name to the model that serves it, at arrival.
//! [`choose()`] compares the scores of the candidate backends. Candidates are ready, below their
//! bound and within the flow's limits, so no score can overrule fairness or a limit. Both are pure:
//! the same arguments give the same result, and the caller counts the grant in the same step.
//!
//! `score` has the terms of the score, `weights` their configurable values, `candidate` the input,
//! `reason` the text of `X-Routing-Reason`.

mod candidate;
mod choose;
mod model_names;
mod reason;
mod score;
mod weights;

#[cfg(test)]
mod tests;

pub(crate) use candidate::PREFILL_RATE_UNKNOWN;
pub use candidate::{BackendTraits, Candidate, RoutePreference};
pub use choose::{RouteChoice, choose};
pub use model_names::{ModelNameError, ModelNameRule, ModelNames, ResolvedModel};
pub use reason::RouteReason;
pub use score::RouteScore;
pub use weights::{RouteTerms, RouteWeights};
