//! The types of `proto/`, one module for each file. Change the `.proto` file, not these.

pub mod base;
pub mod ext_proc;
pub mod health;
pub mod mode;
pub mod reflection;
pub mod scaler;
pub mod status;
