//! Which model and which backend take an ask.
//!
//! [`ModelNames`] turns the model that was asked for into the one that is served, at arrival.
//! [`choose`] weighs the backends that may take an ask: who may is decided before it (ready, below
//! its bound, within the flow's limits), so no score can overrule fairness or a limit. Both are
//! pure: the same arguments give the same answer, and the caller counts the grant in the same step.

mod candidate;
mod choose;
mod model_names;
mod reason;
mod score;
mod weights;

#[cfg(test)]
mod tests;

pub use candidate::{BackendTraits, Candidate, RoutePreference};
pub use choose::{RouteChoice, choose};
pub use model_names::{ModelNameError, ModelNameRule, ModelNames, ResolvedModel};
pub use reason::RouteReason;
pub use score::RouteScore;
pub use weights::{RouteTerms, RouteWeights};
