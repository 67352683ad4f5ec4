//! Which model and which backend take an ask.
//!
//! [`ModelNames`] turns the model that was asked for into the one that is served, at arrival.
//! [`choose`] weighs the backends that may take an ask: who may is decided before it (ready, below
//! its bound, within the flow's limits), so no score can overrule fairness or a limit. Both are
//! pure: the same arguments give the same answer, and the caller counts the grant in the same step.

mod explain;
mod pick;
mod resolve;
mod score;
mod view;
mod weights;

#[cfg(test)]
mod tests;

pub use explain::RouteReason;
pub use pick::{RouteChoice, choose};
pub use resolve::{ModelNameError, ModelNameRule, ModelNames, ResolvedModel};
pub use score::RouteScore;
pub use view::{BackendTraits, Candidate, RoutePreference};
pub use weights::{RouteTerms, RouteWeights};
