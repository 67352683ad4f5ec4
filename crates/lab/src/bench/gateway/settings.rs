//! The configurations in which the gateway is measured.
//!
//! One thread, since its core is shared with nobody, and no access log but where the log is what
//! is measured. The peers keep none either.

/// Flow control as it comes: fair queue, four bands, routing, a watermark that nothing reaches.
pub(crate) const FLOW_CONTROL: &str = "
[server]
workers = 1
[log]
access = false
[controller]
watermark_per_backend = 1000
";

/// The same with a line for every request.
pub(crate) const LOGGED: &str = "
[server]
workers = 1
[controller]
watermark_per_backend = 1000
";

/// Nobody waits.
pub(crate) const QUEUE_OFF: &str = "
[server]
workers = 1
[log]
access = false
[queue]
enabled = false
[controller]
watermark_per_backend = 1000
";

/// Priorities move nothing.
pub(crate) const PRIORITIES_OFF: &str = "
[server]
workers = 1
[log]
access = false
[controller]
watermark_per_backend = 1000
[router.priority_scoring]
critical_boost = 0.0
high_boost = 0.0
best_effort_penalty = 0.0
";

/// One request at the backend, and a short line.
pub(crate) const ONE_AT_A_TIME: &str = "
[server]
workers = 1
[log]
access = false
[controller]
watermark_per_backend = 1
percentage_deviation_for_bounds = 0.0
";

/// One request at the backend, and room for everybody else.
pub(crate) const PATIENT: &str = "
[server]
workers = 1
[log]
access = false
[queue]
total_capacity = 20000
flow_capacity = 20000
queue_ttl = \"30m\"
[controller]
watermark_per_backend = 1
percentage_deviation_for_bounds = 0.0
";

/// One request at the backend, and room for one more.
pub(crate) const FULL: &str = "
[server]
workers = 1
[log]
access = false
[queue]
total_capacity = 1
queue_ttl = \"30m\"
[controller]
watermark_per_backend = 1
percentage_deviation_for_bounds = 0.0
";

/// How many requests fill it.
pub(crate) const FULL_AT: usize = 2;

/// Tenants by their header, so many requests at the backend.
pub(crate) const HEADLINE: &str = "
[server]
workers = 1
[log]
access = false
[queue]
flow_by = [\"header:x-team\"]
flow_capacity = 400
[controller]
watermark_per_backend = 8
percentage_deviation_for_bounds = 0.0
";

/// How many the headline case lets in.
pub(crate) const HEADLINE_AT_ONCE: usize = 8;
