//! The gateway as its users have it: a process with a configuration file.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::ask::Ask;
use super::backend::Backend;
use super::call::{Call, Response};
use super::metrics::Metrics;
use super::patience::eventually;
use super::process::Process;

/// A running `tidegate serve`, or `tidegate epp` with whoever stands before it.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) process: Process,
    file: PathBuf,
    /// Where requests go in, and where the pages are.
    door: SocketAddr,
    pages: SocketAddr,
}

/// Two in flight at each backend and no more: bypass and refill end at the same number.
pub(crate) const TWO: &str = "[controller]\nlower_bound_per_backend = 2\n\
    watermark_per_backend = 2\nupper_bound_per_backend = 2\n";

/// One in flight at each backend and no more.
pub(crate) const ONE: &str = "[controller]\nlower_bound_per_backend = 1\n\
    watermark_per_backend = 1\nupper_bound_per_backend = 1\n";

/// A configuration: these sections, and these backends by their names, which all serve `m`.
pub(crate) fn config(sections: &str, backends: &[(&str, SocketAddr)]) -> String {
    let entry = |(id, address): &(&str, SocketAddr)| {
        format!("[[backends]]\nid = \"{id}\"\nurl = \"http://{address}\"\nmodels = [\"m\"]\n")
    };
    let backends: String = backends.iter().map(entry).collect();
    format!("{sections}\n{backends}")
}

/// A configuration file that nobody else has, in a folder of its own.
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
    /// Starts it, and waits until every configured backend is ready.
    pub(crate) fn start(config: &str) -> Self {
        let gateway = Self::launch(config);
        let count = config.matches("[[backends]]").count();
        gateway.await_ready(count);
        gateway
    }

    /// Starts it before one backend, with these sections.
    pub(crate) fn before(sections: &str, backend: &Backend) -> Self {
        Self::start(&config(sections, &[("one", backend.address())]))
    }

    /// Starts it, whether or not any backend is ready.
    pub(crate) fn launch(config: &str) -> Self {
        Self::launch_in(config, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn launch_in(config: &str, environment: &[(&str, &str)]) -> Self {
        let file = fresh_file();
        fs::write(&file, config).unwrap();
        let path = file.to_str().unwrap();
        let arguments = ["serve", "--config", path, "--listen", "127.0.0.1:0"];
        let process = Process::start_in(&arguments, &["listening on http://"], environment);
        let door = process.address();
        Self { process, file, door, pages: door }
    }

    /// Starts the endpoint picker on this address. Its door is its own until somebody stands before
    /// it.
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

    /// From now on requests go in here.
    pub(crate) fn set_door(&mut self, door: SocketAddr) {
        self.door = door;
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.door
    }

    /// A place for a test's own files.
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Replaces the configuration file at once, as editors do.
    pub(crate) fn rewrite(&self, config: &str) {
        let next = self.file.with_extension("next");
        fs::write(&next, config).unwrap();
        fs::rename(next, &self.file).unwrap();
    }

    /// Sends a request and does not wait for its answer.
    pub(crate) fn send(&self, ask: &Ask) -> Call {
        Call::open(self.address(), &ask.bytes())
    }

    /// Sends a request and waits until it stands in the queue beside `others`.
    pub(crate) fn enqueue(&self, ask: &Ask, others: usize) -> Call {
        let call = self.send(ask);
        self.await_depth(others + 1);
        call
    }

    pub(crate) fn ask(&self, ask: &Ask) -> Response {
        self.send(ask).finish()
    }

    /// One of the pages.
    pub(crate) fn get(&self, path: &str) -> Response {
        Call::open(self.pages, &Ask::get(path).bytes()).finish()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200, "{}", response.text());
        Metrics::read(&response.text())
    }

    /// How many wait, as the gauge of seed 001 says.
    pub(crate) fn depth(&self) -> usize {
        self.metrics().sum("nexus_queue_depth") as usize
    }

    pub(crate) fn backends(&self) -> Vec<Value> {
        self.get("/backends").json().as_array().unwrap().clone()
    }

    /// What `/backends` says of one of them.
    pub(crate) fn backend(&self, id: &str) -> Value {
        let found = self.backends().into_iter().find(|backend| backend["id"] == id);
        found.unwrap_or_else(|| panic!("{id} is not in /backends"))
    }

    pub(crate) fn await_depth(&self, depth: usize) {
        self.await_metrics("waiting", |metrics| {
            let found = metrics.sum("nexus_queue_depth") as usize;
            if found == depth { Ok(()) } else { Err(format!("{found} wait, not {depth}")) }
        });
    }

    /// Waits until so many backends take requests: the core's own count, not the fleet's, which
    /// knows a moment earlier.
    pub(crate) fn await_ready(&self, count: usize) {
        self.await_metrics("ready", |metrics| {
            let ready = metrics.sum("tidegate_backend_ready") as usize;
            if ready == count { Ok(()) } else { Err(format!("{ready} ready, not {count}")) }
        });
    }

    /// Waits until the metrics show what is looked for.
    pub(crate) fn await_metrics(
        &self,
        what: &str,
        mut look: impl FnMut(&Metrics) -> Result<(), String>,
    ) {
        eventually(what, || look(&self.metrics()));
    }

    /// Waits until nothing waits and nothing is in flight, by every account there is.
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

/// Whether a gauge counts requests that are somewhere in the gateway.
fn counts_work(name: &str) -> bool {
    let counting = ["depth", "length", "stock", "in_flight", "active_", "oldest"];
    counting.iter().any(|part| name.contains(part))
}

/// Whether any of these fields, wherever it stands, is not zero or has something in it that is not.
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
