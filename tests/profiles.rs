//! G01: the rules of the designs that Tidegate follows, each document from its top to its bottom.
//!
//! The configurations are the documents' own. A test fails if the profile is switched off, which
//! `TIDEGATE_PROFILE=none` does.

mod inference_gateway;
mod nexus;
mod ollama_proxy;
mod workload_aware;

use std::net::SocketAddr;
use std::process::Command;

use crate::support::{Backend, Gateway, run};

/// A backend that serves these models.
fn backend(address: SocketAddr, models: &[&str]) -> String {
    format!("[[backends]]\nid = \"one\"\nurl = \"http://{address}\"\nmodels = {models:?}\n")
}

/// `tidegate check` prints the profile that each example implies or names, why, and what it sets.
#[test]
fn g01_check_prints_what_the_profile_of_each_example_sets() {
    for (file, profile, cause, value) in [
        (
            "inference-gateway.yaml",
            "inference-gateway",
            "implied by fair_request_queue at examples/inference-gateway.yaml:6",
            "queue.admission = \"critical-only\"",
        ),
        ("nexus.toml", "nexus", "implied by queue at ", "queue.admission = \"until-full\""),
        ("nexus.toml", "nexus", "implied by queue at ", "epp.drain = \"0s\""),
        ("nexus.toml", "nexus", "implied by queue at ", "queue.hold_ttl = 30"),
        ("config.yaml", "ollama-proxy", "implied by router at ", "log.decisions = true"),
        ("workload-aware.toml", "workload-aware", "examples/workload-aware.toml:4", "order = \"w"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("check");
        let shown = run(command.arg(format!("examples/{file}")));
        let first = format!("profile   {profile}, {cause}");
        assert!(shown.lines().any(|line| line.starts_with(&first)), "{first}: {shown}");
        let set = shown.lines().find(|line| line.contains(value));
        let set = set.unwrap_or_else(|| panic!("{value}: {shown}"));
        assert!(set.ends_with(&format!("profile {profile}")), "{set}");
    }
}

/// Other rules hold at once, so the log says so.
#[test]
fn g01_a_reload_that_changes_the_profile_is_logged() {
    let backend = Backend::quick();
    let served = self::backend(backend.address(), &["m"]);
    let gateway = Gateway::start(&format!("profile = \"none\"\n{served}"));
    gateway.rewrite(&format!("profile = \"nexus\"\n{served}"));
    gateway.process.await_log("profile nexus", 1);
    let log = gateway.process.await_log("was reloaded", 1);
    assert!(log.contains(" instead of none"), "{log}");
}
