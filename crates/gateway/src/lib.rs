//! Tidegate's IO around the core: HTTP, Envoy's external processing, and the dispatch of batch
//! work.
//!
//! A request passes through these modules in order: `ingress` reads it, `request` admits it through
//! the `scheduler`, which holds the core, `proxy` forwards it over `upstream` and returns the
//! response, `reply` builds all other responses, and `observe` counts and logs it. `backend`
//! watches the model servers, `config` reads the configuration, `admin` serves the status pages,
//! `diagnosis` says what is wrong,
//! and `dbus` publishes the same values on D-Bus.
//!
//! There are three entry points: `serve` is the HTTP gateway, `epp` the endpoint picker for Envoy,
//! and `dispatch_server` a stand-alone dispatcher. `scaler` tells an autoscaler how many backends
//! are wanted, and `wake` calls one when there is none.

mod admin;
mod admin_access;
pub mod api_keys;
mod backend;
mod band_alias;
pub mod batch_api;
mod body_memory;
mod calendar;
mod check;
mod clock;
pub mod config;
mod connections;
#[cfg(feature = "dbus")]
mod dbus;
mod der;
mod diagnosis;
mod dispatch;
mod dispatch_server;
mod durable_queues;
mod epp;
mod error_codes;
mod file_watch;
#[cfg(test)]
#[path = "../../../tests/support/fuzz.rs"]
mod fuzz;
mod gates;
mod grpc;
mod hold_places;
mod hop_by_hop;
mod ingress;
mod jitter;
pub mod jwt;
mod kubernetes;
mod large_bodies;
mod lazy_timer;
mod lifecycle;
mod listener;
mod local_servers;
mod multipart;
mod observe;
mod output_history;
mod places;
mod plain_file;
mod process_limits;
mod prometheus_parser;
mod proxy;
mod reply;
mod request;
mod scaler;
mod scheduler;
mod schema;
mod serve;
mod short_text;
mod socket;
mod state;
mod steady_date;
mod task;
mod tenants;
mod tls;
mod tls_listener;
mod trace_export;
mod upstream;
mod usage;
mod viewers;
mod wake;

pub use check::{certificates, check};
pub use dispatch_server::DispatchServer;
pub use epp::Picker;
pub use lifecycle::StartError;
pub use local_servers::{LOCAL_PORTS, LocalServer, local_servers};
pub use observe::log;
pub use serve::Gateway;
pub use upstream::client;
