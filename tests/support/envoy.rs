//! The real Envoy, started from the files that `deploy/envoy` ships, and the endpoint picker
//! behind it.
//!
//! Only ports are replaced, so that the tests use the shipped files. Envoy takes free ones for
//! itself and tells them through its admin interface.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;

use super::backend::Backend;
use super::call::{Call, Response};
use super::gateway::{Gateway, config};
use super::http_request::HttpRequest;
use super::wait::eventually;

/// A port that the system chooses.
pub(crate) const FREE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A bootstrap of `deploy/envoy` with the ports of a test.
#[derive(Clone, Debug)]
pub(crate) struct Recipe(String);

/// A running Envoy.
#[derive(Debug)]
pub(crate) struct Envoy {
    child: Child,
    folder: PathBuf,
    admin: SocketAddr,
    door: SocketAddr,
}

/// `tidegate epp` behind Envoy: requests go in at Envoy, the pages are the picker's.
#[derive(Debug)]
pub(crate) struct Picker {
    pub(crate) envoy: Envoy,
    pub(crate) gateway: Gateway,
    recipe: Recipe,
}

fn program() -> PathBuf {
    let libraries = Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/python/lib");
    let folders = fs::read_dir(&libraries).into_iter().flatten();
    let found = folders.map(|folder| folder.unwrap().path().join("site-packages/envoy/_bin/envoy"));
    let found = found.filter(|path| path.exists()).last();
    found.unwrap_or_else(|| panic!("no Envoy in {}: run tools/setup.sh", libraries.display()))
}

fn folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("envoy-{}-{number}", process::id()));
    // Another process of this number may have had it: what it left would be taken for ours.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn port(number: u16) -> String {
    format!("port_value: {number} }}")
}

// === impl Recipe ===

impl Recipe {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/envoy").join(name);
        Self(fs::read_to_string(path).unwrap())
    }

    /// Servers that only the picker knows.
    pub(crate) fn original_dst() -> Self {
        Self::read("original-dst.yaml")
    }

    /// The same, and answers do not pass the picker.
    pub(crate) fn heads_only() -> Self {
        Self::read("heads-only.yaml")
    }

    /// Servers that Envoy knows too: lists, retries, and no picker needed.
    pub(crate) fn override_host(servers: &[SocketAddr]) -> Self {
        let Self(text) = Self::read("override-host.yaml");
        let listed = |line: &&str| line.contains(&port(8000)) || line.contains(&port(8001));
        let lines: Vec<&str> = text.lines().collect();
        let (listed, rest): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| listed(line));
        assert_eq!(listed.len(), 2, "they are the last lines of the file");
        let entry = |server: &SocketAddr| listed[0].replace("8000", &server.port().to_string());
        let entries: Vec<String> = servers.iter().map(entry).collect();
        Self(rest.join("\n") + "\n" + &entries.join("\n") + "\n")
    }

    /// Another filter before the picker's.
    pub(crate) fn with_filter(&self, filter: &str) -> Self {
        let before = "          - name: envoy.filters.http.ext_proc\n";
        assert_eq!(self.0.matches(before).count(), 1);
        Self(self.0.replace(before, &format!("{filter}{before}")))
    }

    /// With TLS to the picker. Envoy checks the certificate if there is an authority.
    pub(crate) fn with_tls(&self, authority: Option<&Path>) -> Self {
        let before = "    load_assignment:\n      cluster_name: picker\n";
        assert_eq!(self.0.matches(before).count(), 1);
        let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";
        let mut lines = vec![
            "    transport_socket:".to_owned(),
            "      name: envoy.transport_sockets.tls".to_owned(),
            "      typed_config:".to_owned(),
            format!("        \"@type\": {kind}.UpstreamTlsContext"),
            "        sni: picker.example".to_owned(),
        ];
        if let Some(authority) = authority {
            let roots = format!("trusted_ca: {{ filename: \"{}\" }}", authority.display());
            let names = "match_typed_subject_alt_names: \
                         [{ san_type: DNS, matcher: { exact: picker.example } }]";
            lines.push("        common_tls_context:".to_owned());
            lines.push(format!("          validation_context: {{ {roots}, {names} }}"));
        }
        let socket: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Self(self.0.replace(before, &format!("{socket}{before}")))
    }

    /// Allows these servers only, as a route to a part of a pool does.
    pub(crate) fn with_subset(&self, servers: &[String]) -> Self {
        let kind = "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config";
        let key = "x-gateway-destination-endpoint-subset";
        let lines = [
            "- name: envoy.filters.http.set_metadata".to_owned(),
            "  typed_config:".to_owned(),
            format!("    \"@type\": {kind}"),
            "    metadata:".to_owned(),
            "    - metadata_namespace: envoy.lb.subset_hint".to_owned(),
            format!("      value: {{ {key}: {servers:?} }}"),
        ];
        self.with_filter(&lines.map(|line| format!("          {line}\n")).concat())
    }

    fn before(&self, picker: SocketAddr) -> String {
        let mut text = self.0.clone();
        for (shipped, ours) in [(10_000, 0), (9901, 0), (9002, picker.port())] {
            assert_eq!(text.matches(&port(shipped)).count(), 1, "{shipped}");
            text = text.replace(&port(shipped), &port(ours));
        }
        text
    }
}

// === impl Envoy ===

impl Envoy {
    /// Starts it before a picker, and waits until it takes requests.
    pub(crate) fn start(recipe: &Recipe, picker: SocketAddr) -> Self {
        let folder = folder();
        let (file, told) = (folder.join("envoy.yaml"), folder.join("admin"));
        fs::write(&file, recipe.before(picker)).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(program());
        // Several run at once: none may share memory with another.
        command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"]);
        command.arg("--config-path").arg(file).arg("--admin-address-path").arg(&told);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let mut envoy = Self { child, folder, admin: FREE, door: FREE };
        envoy.admin = eventually("told its admin address", || {
            assert_eq!(envoy.child.try_wait().unwrap(), None, "{}", envoy.log());
            let text = fs::read_to_string(&told).map_err(|error| error.to_string())?;
            text.parse().map_err(|_| text)
        });
        envoy.door = eventually("ready", || {
            let ready = envoy.admin("/ready");
            if ready.status != 200 {
                return Err(ready.text());
            }
            let listeners = envoy.admin("/listeners?format=json").json();
            let address = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
            let port = address["port_value"].as_u64().and_then(|port| u16::try_from(port).ok());
            port.map(|port| (Ipv4Addr::LOCALHOST, port).into()).ok_or(listeners.to_string())
        });
        envoy
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.door
    }

    fn admin(&self, path: &str) -> Response {
        Call::open(self.admin, &HttpRequest::get(path).bytes()).finish()
    }

    fn stat(&self, name: &str) -> u64 {
        let stats = self.admin(&format!("/stats?format=json&filter=^{name}$")).json();
        stats["stats"][0]["value"].as_u64().unwrap_or_else(|| panic!("{name}: {stats}"))
    }

    /// Waits until it has noticed that the picker is there, or is not.
    pub(crate) fn await_picker(&self, there: bool) {
        eventually("noticed the picker", || {
            let healthy = self.stat("cluster.picker.membership_healthy");
            if (healthy > 0) == there { Ok(()) } else { Err(format!("{healthy} are healthy")) }
        });
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log of Envoy ---\n{}", self.log());
        }
    }
}

// === impl Picker ===

impl Picker {
    /// Starts both, and waits until every configured backend is ready.
    pub(crate) fn start(recipe: Recipe, config: &str) -> Self {
        let picker = Self::launch(recipe, config);
        picker.await_ready(config.matches("[[backends]]").count());
        picker
    }

    /// Starts both, whether or not any backend is ready.
    pub(crate) fn launch(recipe: Recipe, config: &str) -> Self {
        let mut gateway = Gateway::picker(config, FREE);
        let envoy = Envoy::start(&recipe, gateway.address());
        envoy.await_picker(true);
        gateway.set_door(envoy.address());
        Self { envoy, gateway, recipe }
    }

    /// Starts both before one backend, which only the picker knows, with these sections.
    pub(crate) fn before(sections: &str, backend: &Backend) -> Self {
        Self::start(Recipe::original_dst(), &config(sections, &[("one", backend.address())]))
    }

    /// Starts both before a backend with room for one request, which this request takes.
    pub(crate) fn occupied(sections: &str, backend: &Backend, first: &HttpRequest) -> (Self, Call) {
        let picker = Self::before(sections, backend);
        let running = picker.send(first);
        backend.await_running(1);
        (picker, running)
    }

    /// Replaces a picker that has died by another one at its place.
    pub(crate) fn restart(&mut self, config: &str) {
        self.gateway = Gateway::picker(config, self.gateway.process.address());
        self.gateway.set_door(self.envoy.address());
        self.await_ready(config.matches("[[backends]]").count());
    }

    /// Replaces an Envoy that has died by another one.
    pub(crate) fn restart_envoy(&mut self) {
        self.envoy = Envoy::start(&self.recipe, self.gateway.process.address());
        self.envoy.await_picker(true);
        self.gateway.set_door(self.envoy.address());
    }

    /// What the last line of the access log says, once it is there.
    pub(crate) fn last_access(&self) -> Value {
        eventually("logged", || {
            let log = self.gateway.process.access();
            let line = log.lines().last().unwrap_or_default().to_owned();
            serde_json::from_str(&line).map_err(|_| log)
        })
    }
}

impl Deref for Picker {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}
