//! G01: the rules of the designs that Tidegate follows, each document from its top to its bottom.
//!
//! The configurations are the documents' own. A test fails if the profile is switched off, which
//! `TIDEGATE_PROFILE=none` does.

mod inference_gateway;
mod nexus;
mod ollama_proxy;
mod workload_aware;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::support::gateway::fresh_file;
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

/// The first line of `tidegate check` about a profile, if there is one.
fn profile_of(file: &Path) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("check").arg(file);
    let shown = run(&mut command);
    let mut lines = shown.lines().filter_map(|line| line.strip_prefix("profile "));
    lines.next().map(|line| line.trim().to_owned())
}

/// The files of the documents, as they stand there, with the name of the key that says which.
const DOCUMENTS: [(&str, &str, &str); 6] = [
    ("yaml", "inference-gateway", "fair_request_queue: { total_capacity: 2000 }\n"),
    ("yaml", "inference-gateway", "request_queue_controller: { watermark_per_backend: 3 }\n"),
    (
        "toml",
        "nexus",
        "[queue]
# Enable request queuing when backends are saturated
enabled = true

# Maximum number of requests that can be queued
# Setting to 0 disables queueing (equivalent to enabled=false)
max_size = 100

# Maximum time a request can wait in the queue before timing out
# Timeouts receive 503 with Retry-After header
max_wait_seconds = 30
",
    ),
    (
        "yaml",
        "ollama-proxy",
        "# config/config.yaml
router:
  priority_scoring:
    critical_boost: 500.0      # Default: 500
    high_boost: 200.0          # Default: 200
    normal_boost: 0.0          # Default: 0
    best_effort_penalty: -100.0 # Default: -100
",
    ),
    ("yml", "ollama-proxy", "router:\n  queue_depth_penalty_per_request: 50.0\n"),
    (
        "yaml",
        "ollama-proxy",
        "router:\n  priority_scoring:\n    best_effort_penalty: -50.0  # Reduced from -100\n",
    ),
];

#[test]
fn g01_a_file_of_a_document_implies_its_profile_unless_another_is_named() {
    let named = [("none", None), ("workload-aware", Some("workload-aware"))];
    for (format, profile, text) in DOCUMENTS {
        let file = fresh_file().with_extension(format);
        fs::write(&file, text).unwrap();
        let implied = format!("{profile}, implied by ");
        let found = profile_of(&file).unwrap_or_default();
        assert!(found.starts_with(&implied), "{found:?}: {text}");
        for (word, expected) in named {
            let explicit = match format {
                "toml" => format!("profile = \"{word}\"\n{text}"),
                _ => format!("profile: {word}\n{text}"),
            };
            fs::write(&file, explicit).unwrap();
            let found = profile_of(&file);
            let begins = found.as_deref().and_then(|found| found.split(',').next());
            assert_eq!(begins, expected, "{text}");
        }
    }
}

#[test]
fn g01_files_of_our_own_imply_no_profile() {
    for file in [
        "examples/tidegate.toml",
        "examples/tidegate.yaml",
        "deploy/docker/tidegate.toml",
        "deploy/systemd/tidegate.toml",
    ] {
        assert_eq!(profile_of(Path::new(file)), None, "{file}");
    }
    // The document of Nexus has no tenants.
    let file = fresh_file();
    fs::write(&file, "[queue]\nmax_size = 100\n[[tenants]]\nname = \"lab\"\n").unwrap();
    assert_eq!(profile_of(&file), None);
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
    // What the profile sets for a picker needs no restart of a gateway.
    assert!(!log.contains("needs a restart"), "{log}");
}

/// Without a queue the proposal lets all pass, and `check` tells no bounds that do not hold.
#[test]
fn g01_c08_check_tells_what_a_queue_that_is_off_means() {
    let file = fresh_file();
    for off in ["enabled = false", "total_capacity = 0"] {
        fs::write(&file, format!("[fair_request_queue]\n{off}\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let shown = run(command.arg("check").arg(&file));
        assert!(!shown.contains("is refused") && !shown.contains("1000000000"), "{shown}");
        assert!(shown.contains("queue     off: requests pass to ready backends at once"));
        assert!(shown.contains("bounds    none: the queue is off"));
    }
}
