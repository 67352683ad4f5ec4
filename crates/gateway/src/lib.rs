//! The doors of Tidegate: bytes to asks, events to bytes.
//!
//! A request walks one way: `ingress` reads it, `keeper` asks the core, `relay` carries it to the
//! backend that was chosen and the answer back, `reply` says what else there is to say, `observe`
//! writes it down. `backend` knows the model servers, `config` what was configured, `admin` shows
//! it all, and `bus` the queue and the backends on D-Bus. There are two doors: `serve` speaks HTTP,
//! `epp` picks endpoints for Envoy.

mod admin;
mod alarm;
mod backend;
pub mod batch;
mod bodies;
pub mod client;
mod clock;
pub mod config;
mod connections;
mod courier;
#[cfg(feature = "dbus")]
mod dbus;
mod depot;
mod dispatch;
mod epp;
mod gate;
mod hops;
mod ingress;
mod jitter;
mod keeper;
mod observe;
mod passage;
mod prometheus_text;
mod relay;
mod reply;
mod running;
mod serve;
mod task;
mod trip;
mod wire;

pub use courier::Courier;
pub use epp::Picker;
pub use running::StartError;
pub use serve::Gateway;
