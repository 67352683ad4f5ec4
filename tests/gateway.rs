//! Tests of the gateway as a process: what clients, backends and operators see.

mod backend_kinds;
mod bad_input;
mod bands;
mod batch;
mod batch_cli;
mod burst_queueing;
mod client_connections;
pub(crate) mod clients;
mod controller;
mod dbus;
mod early_response;
mod faults;
mod flooding_tenant;
mod head_method;
mod http2_window;
mod model_names;
mod ollama_errors;
mod passthrough;
mod queue_limits;
mod queue_status;
mod reload;
mod retries;
mod retry_after;
mod routing;
mod scripted_backend;
mod shutdown;
mod startup;
