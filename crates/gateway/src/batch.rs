//! The Batch API.

mod form;
pub mod lines;
