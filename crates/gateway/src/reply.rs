//! What a client hears when no backend answers: the one place that knows status codes.

mod fault;

pub(crate) use fault::{Fault, Refused};
