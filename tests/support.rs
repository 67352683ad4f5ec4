//! What the tests of the running gateway stand on: the gateway as a process, model servers that do
//! as they are told, and a client that may break every rule.
//!
//! Order is made, not hoped for: a model server holds its answers until the test lets them go, and
//! a test waits for what it can observe, never for a span of time.

pub(crate) mod answer;
pub(crate) mod ask;
pub(crate) mod backend;
pub(crate) mod bus;
pub(crate) mod call;
pub(crate) mod engine;
pub(crate) mod envoy;
pub(crate) mod gateway;
pub(crate) mod metrics;
pub(crate) mod patience;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod random;
pub(crate) mod redis;
pub(crate) mod talk;
pub(crate) mod tools;

pub(crate) use answer::Answer;
pub(crate) use ask::{Ask, chat};
pub(crate) use backend::{Backend, Nowhere};
pub(crate) use call::Call;
pub(crate) use engine::Engine;
pub(crate) use envoy::{Picker, Recipe};
pub(crate) use gateway::{Gateway, fresh_file};
pub(crate) use metrics::Metrics;
pub(crate) use patience::{Stopwatch, eventually};
pub(crate) use process::Process;
pub(crate) use prometheus::Prometheus;
pub(crate) use random::Random;
pub(crate) use redis::Redis;
pub(crate) use talk::Talk;
pub(crate) use tools::run;
