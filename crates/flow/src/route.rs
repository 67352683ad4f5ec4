//! Which model and which backend take an ask.
//!
//! [`Names`] turns the model that was asked for into the one that is served, at arrival.
//! [`choose`] weighs the backends that may take an ask: who may is decided before it (ready, below
//! its bound, within the flow's limits), so no score can overrule fairness or a limit. Both are
//! pure: the same arguments give the same answer, and the caller counts the grant in the same step.

mod explain;
mod law;
mod pick;
mod resolve;
mod score;
mod view;

#[cfg(test)]
mod tests;

pub use explain::Reason;
pub use law::{RouteLaw, RouteTerms};
pub use pick::{Choice, choose};
pub use resolve::{NameError, NameRule, Names, Resolved};
pub use score::Score;
pub use view::{Candidate, Traits, Wish};
