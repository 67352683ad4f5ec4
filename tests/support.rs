//! The support of the integration tests: the gateway as a process, scripted backends, and a client
//! that can send anything.
//!
//! The tests control the order of events. A scripted backend holds its responses until the test
//! releases them, and a test waits for an observable state, never for a span of time.

pub(crate) mod api_server;
pub(crate) mod backend;
pub(crate) mod browser;
pub(crate) mod call;
pub(crate) mod cluster;
pub(crate) mod dbus;
pub(crate) mod engine;
pub(crate) mod envoy;
pub(crate) mod ext_proc;
pub(crate) mod forwarding;
#[expect(dead_code, reason = "the parsers in the crates use the rest")]
pub(crate) mod fuzz;
pub(crate) mod gateway;
pub(crate) mod http_request;
pub(crate) mod keys;
pub(crate) mod metrics;
pub(crate) mod own_address;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod pubsub;
pub(crate) mod queueing;
pub(crate) mod random;
pub(crate) mod redis;
pub(crate) mod scripted_response;
pub(crate) mod tls;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod wait;

pub(crate) use backend::{Backend, Nowhere};
pub(crate) use call::Call;
pub(crate) use cluster::Cluster;
pub(crate) use engine::Engine;
pub(crate) use envoy::{Picker, Recipe};
pub(crate) use ext_proc::ExtProcStream;
pub(crate) use gateway::{Gateway, fresh_file};
pub(crate) use http_request::{HttpRequest, chat};
pub(crate) use metrics::Metrics;
pub(crate) use process::Process;
pub(crate) use prometheus::Prometheus;
pub(crate) use pubsub::PubSub;
pub(crate) use random::Random;
pub(crate) use redis::Redis;
pub(crate) use scripted_response::ScriptedResponse;
pub(crate) use tools::run;
pub(crate) use wait::{Stopwatch, eventually};
