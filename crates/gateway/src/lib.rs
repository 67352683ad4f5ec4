//! The doors of Tidegate: bytes to asks, events to bytes.
//!
//! A request walks one way: `ingress` reads it, `scheduler` asks the core, `proxy` sends it to the
//! backend that was chosen and the response back, `reply` builds all other responses, `observe`
//! records it. `backend` knows the model servers, `config` what was configured, `admin` shows
//! it all, and `bus` the queue and the backends on D-Bus. There are two doors: `serve` speaks HTTP,
//! `epp` picks endpoints for Envoy.

mod admin;
mod backend;
pub mod batch;
mod batch_runtime;
mod body_memory;
mod clock;
pub mod config;
mod connections;
#[cfg(feature = "dbus")]
mod dbus;
mod dispatch;
mod dispatch_server;
mod epp;
mod hops;
mod ingress;
mod jitter;
mod lazy_timer;
mod lifecycle;
mod listener;
mod observe;
mod prometheus_text;
mod proxy;
mod reply;
mod request;
mod scheduler;
mod schema;
mod serve;
mod socket;
mod state;
mod task;
mod upstream;

pub use dispatch_server::DispatchServer;
pub use epp::Picker;
pub use lifecycle::StartError;
pub use serve::Gateway;
pub use upstream::client;
