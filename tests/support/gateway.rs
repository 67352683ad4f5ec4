//! The gateway as a process with a configuration file.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::backend::Backend;
use super::call::{Call, Response};
use super::http_request::HttpRequest;
use super::metrics::Metrics;
use super::process::Process;
use super::wait::eventually;

/// A running `tidegate serve`, or `tidegate epp` behind Envoy.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) process: Process,
    file: PathBuf,
    /// The address for requests, and the address of the pages.
    door: SocketAddr,
    pages: SocketAddr,
}

/// Exactly two in flight at each backend: bypass and refill stop at the same number.
pub(crate) const TWO: &str = "[controller]\nlower_bound_per_backend = 2\n\
    watermark_per_backend = 2\nupper_bound_per_backend = 2\n";

/// Exactly one in flight at each backend.
pub(crate) const ONE: &str = "[controller]\nlower_bound_per_backend = 1\n\
    watermark_per_backend = 1\nupper_bound_per_backend = 1\n";

/// The configured model `m`, and an endpoints file that does not exist yet.
pub(crate) const CONFIGURED: &str =
    "[[models]]\nname = \"m\"\n[discovery]\nendpoints_file = \"endpoints.yaml\"\n";

/// A configuration with these sections and these named backends, which all serve `m`.
pub(crate) fn config(sections: &str, backends: &[(&str, SocketAddr)]) -> String {
    let entry = |(id, address): &(&str, SocketAddr)| {
        format!("[[backends]]\nid = \"{id}\"\nurl = \"http://{address}\"\nmodels = [\"m\"]\n")
    };
    let backends: String = backends.iter().map(entry).collect();
    format!("{sections}\n{backends}")
}

/// A new configuration file in a folder of its own.
pub(crate) fn fresh_file() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("gateway-{}-{number}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder.join("tidegate.toml")
}

// === impl Gateway ===

impl Gateway {
    /// Starts the gateway and waits until every configured backend is ready.
    pub(crate) fn start(config: &str) -> Self {
        let gateway = Self::launch(config);
        let count = config.matches("[[backends]]").count();
        gateway.await_ready(count);
        gateway
    }

    /// Starts the gateway with these sections in front of one backend.
    pub(crate) fn before(sections: &str, backend: &Backend) -> Self {
        Self::start(&config(sections, &[("one", backend.address())]))
    }

    /// Starts it before a backend with room for one request, which this request takes.
    pub(crate) fn occupied(sections: &str, backend: &Backend, first: &HttpRequest) -> (Self, Call) {
        let gateway = Self::before(sections, backend);
        let running = gateway.send(first);
        backend.await_running(1);
        (gateway, running)
    }

    /// Starts the gateway and waits for no backend.
    pub(crate) fn launch(config: &str) -> Self {
        Self::launch_in(config, &[])
    }

    /// The same with these environment variables.
    pub(crate) fn launch_in(config: &str, environment: &[(&str, &str)]) -> Self {
        Self::launch_saying(config, &["listening on http://"], environment)
    }

    /// Starts it with an address for an autoscaler, which is its second one.
    pub(crate) fn launch_scaled(config: &str) -> Self {
        Self::launch_saying(config, &["listening on http://", "scaler on grpc://"], &[])
    }

    /// Starts it with a configuration in YAML.
    pub(crate) fn launch_yaml(config: &str, environment: &[(&str, &str)]) -> Self {
        let file = fresh_file().with_extension("yaml");
        Self::launch_file(file, config, (&["listening on http://"], environment))
    }

    fn launch_saying(config: &str, words: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::launch_file(fresh_file(), config, (words, environment))
    }

    fn launch_file(
        file: PathBuf,
        config: &str,
        (words, environment): (&[&str], &[(&str, &str)]),
    ) -> Self {
        fs::write(&file, config).unwrap();
        let path = file.to_str().unwrap();
        let arguments = ["serve", "--config", path, "--listen", "127.0.0.1:0"];
        let process = Process::start_in(&arguments, words, environment);
        let door = process.address();
        Self { process, file, door, pages: door }
    }

    /// Starts the endpoint picker on this address. Requests go to the picker itself until Envoy is
    /// in front of it.
    pub(crate) fn picker(config: &str, listen: SocketAddr) -> Self {
        let file = fresh_file();
        fs::write(&file, config).unwrap();
        let (path, listen) = (file.to_str().unwrap(), listen.to_string());
        let free = "127.0.0.1:0";
        let arguments = ["epp", "--config", path, "--listen", &listen];
        let arguments =
            [&arguments[..], &["--health-listen", free, "--metrics-listen", free]].concat();
        let words = ["listening on grpc://", "health on grpc://", "metrics on http://"];
        let process = Process::start_saying(&arguments, &words);
        let (door, pages) = (process.address(), process.addresses()[2]);
        Self { process, file, door, pages }
    }

    /// Sends requests to this address from now on.
    pub(crate) fn set_door(&mut self, door: SocketAddr) {
        self.door = door;
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.door
    }

    /// A folder for files of the test.
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Replaces the configuration file atomically, as editors do.
    pub(crate) fn rewrite(&self, config: &str) {
        let next = self.file.with_extension("next");
        fs::write(&next, config).unwrap();
        fs::rename(next, &self.file).unwrap();
    }

    /// Replaces the endpoints file.
    pub(crate) fn list(&self, backends: &[&Backend]) {
        let entry = |backend: &&Backend| {
            let (ip, port) = (backend.address().ip(), backend.address().port());
            format!("  - {{ name: e{port}, address: {ip}, port: \"{port}\" }}\n")
        };
        let entries: String = backends.iter().map(entry).collect();
        let file = self.folder().join("endpoints.yaml");
        let next = file.with_extension("next");
        let none = if backends.is_empty() { " []" } else { "" };
        fs::write(&next, format!("endpoints:{none}\n{entries}")).unwrap();
        fs::rename(next, &file).unwrap();
    }

    /// Sends a request and does not wait for its response.
    pub(crate) fn send(&self, ask: &HttpRequest) -> Call {
        Call::open(self.address(), &ask.bytes())
    }

    /// Sends a request and waits until it is in the queue beside `others`.
    pub(crate) fn enqueue(&self, ask: &HttpRequest, others: usize) -> Call {
        let call = self.send(ask);
        self.await_depth(others + 1);
        call
    }

    pub(crate) fn ask(&self, ask: &HttpRequest) -> Response {
        self.send(ask).finish()
    }

    /// One of the pages.
    pub(crate) fn get(&self, path: &str) -> Response {
        Call::open(self.pages, &HttpRequest::get(path).bytes()).finish()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200, "{}", response.text());
        Metrics::read(&response.text())
    }

    /// The number of waiting requests, from the gauge of Nexus.
    pub(crate) fn depth(&self) -> usize {
        self.metrics().sum("nexus_queue_depth") as usize
    }

    pub(crate) fn backends(&self) -> Vec<Value> {
        self.get("/backends").json().as_array().unwrap().clone()
    }

    /// The entry of one backend in `/backends`.
    pub(crate) fn backend(&self, id: &str) -> Value {
        let found = self.backends().into_iter().find(|backend| backend["id"] == id);
        found.unwrap_or_else(|| panic!("{id} is not in /backends"))
    }

    /// The line of a request in an access log in JSON, by its request id.
    pub(crate) fn access_of(&self, request_id: &str) -> Value {
        eventually("logged", || {
            let log = self.process.access();
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.find(|line| line["request_id"] == request_id).ok_or(log)
        })
    }

    /// All requests in an access log in JSON.
    pub(crate) fn log_lines(&self) -> Vec<Value> {
        let log = self.process.access();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["outcome"].is_string()).collect()
    }

    pub(crate) fn await_depth(&self, depth: usize) {
        self.await_metrics("waiting", |metrics| {
            let found = metrics.sum("nexus_queue_depth") as usize;
            if found == depth { Ok(()) } else { Err(format!("{found} wait, not {depth}")) }
        });
    }

    /// Waits until this many backends are ready in the core, which learns it after the fleet.
    pub(crate) fn await_ready(&self, count: usize) {
        self.await_metrics("ready", |metrics| {
            let ready = metrics.sum("tidegate_backend_ready") as usize;
            if ready == count { Ok(()) } else { Err(format!("{ready} ready, not {count}")) }
        });
    }

    /// Waits until the metrics meet a condition.
    pub(crate) fn await_metrics(
        &self,
        what: &str,
        mut look: impl FnMut(&Metrics) -> Result<(), String>,
    ) {
        eventually(what, || look(&self.metrics()));
    }

    /// Waits until no request waits or is in flight, in all metrics and pages.
    pub(crate) fn await_idle(&self) {
        eventually("idle", || self.idle());
    }

    fn idle(&self) -> Result<(), String> {
        let metrics = self.metrics();
        for (name, labels, value) in metrics.gauges() {
            if counts_work(name) && value != 0.0 {
                return Err(format!("{name}{{{labels}}} = {value}"));
            }
        }
        let health = self.get("/health").json();
        let pages = [health, self.get("/backends").json(), self.get("/flows").json()];
        let counts = ["depth", "queue_depth", "waiting", "in_flight", "priority_counts", "active"];
        match pages.iter().find(|page| nonzero(page, &counts)) {
            Some(page) => Err(page.to_string()),
            None => Ok(()),
        }
    }
}

/// Whether a gauge counts requests inside the gateway.
fn counts_work(name: &str) -> bool {
    let counting = ["depth", "length", "stock", "in_flight", "active_", "oldest", "held"];
    counting.iter().any(|part| name.contains(part))
}

/// Whether one of these fields, at any depth, is not zero or contains a value that is not.
fn nonzero(value: &Value, fields: &[&str]) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| nonzero(item, fields)),
        Value::Object(entries) => entries.iter().any(|(name, entry)| {
            let counted = fields.contains(&name.as_str()) && sum(entry) != 0.0;
            counted || nonzero(entry, fields)
        }),
        _ => false,
    }
}

/// A number, or the sum of an object's numbers.
fn sum(value: &Value) -> f64 {
    match value {
        Value::Object(entries) => entries.values().map(sum).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}
