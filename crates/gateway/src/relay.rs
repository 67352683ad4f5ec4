//! To the backend and back: connections, one attempt, and the answer's way to the client.
//!
//! Bodies pass byte for byte. A stream is looked at only as far as accounting needs, and whatever
//! way it ends, its passenger settles with the core.

mod answer;
mod attempt;
mod budget;
mod link;
mod meter;
mod pool;
mod source;

pub(crate) use answer::{Answer, Broken, Flight};
pub(crate) use attempt::{Errand, Failure, Limits, Outcome, attempt, verdict};
pub(crate) use budget::RetryBudget;
pub(crate) use meter::{Meter, Shape};
pub(crate) use pool::Pool;
pub(crate) use source::Source;
