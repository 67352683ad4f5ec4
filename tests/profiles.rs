//! G01: the rules of the designs that Tidegate follows, each document from its top to its bottom.
//!
//! The configurations are the documents' own. A test fails if the profile is switched off, which
//! `TIDEGATE_PROFILE=none` does.

mod inference_gateway;
mod nexus;
mod ollama_proxy;
mod workload_aware;

use std::net::SocketAddr;

/// A backend that serves these models.
fn backend(address: SocketAddr, models: &[&str]) -> String {
    format!("[[backends]]\nid = \"one\"\nurl = \"http://{address}\"\nmodels = {models:?}\n")
}
