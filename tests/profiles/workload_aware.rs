//! G01: workload-aware routing for the Gateway API Inference Extension.

use crate::support::gateway::ONE;
use crate::support::queueing::{check_workload_context, succeed};
use crate::support::{Backend, Gateway, chat};

const PROFILE: &str = "profile = \"workload-aware\"\n";

/// Phase 2 and the score of phase 4: the context of a workload, what replaces an invalid one, and
/// the order by criticality.
#[test]
fn g01_w01_w03_contexts_are_read_and_order_the_queue() {
    let backend = Backend::held();
    let config = format!("{PROFILE}[log]\nformat = \"json\"\n{ONE}");
    let (gateway, running) = Gateway::occupied(&config, &backend, &chat("m"));
    check_workload_context(&gateway, &backend, running);
}

/// Nothing but the score orders the queue, and no request that waits loses its place.
#[test]
fn g01_w03_the_score_alone_decides_and_none_is_evicted() {
    let backend = Backend::held();
    let config = format!("{PROFILE}[queue]\nflow_capacity = 2\n{ONE}");
    let (gateway, running) = Gateway::occupied(&config, &backend, &chat("m").tag("running"));
    let context = "{\"workload_id\":\"fraud-detection\",\"criticality\":5}";
    let calls = [
        running,
        gateway.enqueue(&chat("m").tag("other").header("x-slo-ttft-ms", "1"), 0),
        gateway.enqueue(&chat("m").tag("fraud").header("X-Workload-Context", context), 1),
    ];
    gateway.ask(&chat("m").priority("critical")).refused(503, "flow_full");
    backend.open();
    succeed(calls);
    assert_eq!(backend.tags(), ["running", "fraud", "other"]);
}
