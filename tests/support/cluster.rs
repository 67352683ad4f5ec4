//! A cluster for one test: the API server of this process, or a real one.
//!
//! `make cluster` starts a kube-apiserver with etcd and names its folder in `CLUSTER_FOLDER`. Each
//! test has a namespace of its own there. There is no kubelet, so a test says which pods are ready.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::api_server::{ApiServer, pod, pool};
use super::backend::{Backend, Seen};
use super::gateway::{Gateway, fresh_file};
use super::http_request::{HttpRequest, chat};
use super::scripted_response::ScriptedResponse;
use super::tools::{run, tool};
use super::wait::eventually;

/// The manifests of the picker, with its role.
const MANIFESTS: &str = include_str!("../../deploy/kubernetes/epp.yaml");

/// See the module's description.
#[derive(Debug)]
pub(crate) enum Cluster {
    InProcess(ApiServer),
    Real(RealCluster),
}

/// A namespace of a real API server.
#[derive(Debug)]
pub(crate) struct RealCluster {
    folder: PathBuf,
    namespace: String,
}

/// A request to the API server.
enum Change<'a> {
    Create(&'a Value),
    /// As a merge patch.
    Patch(&'a Value),
    Delete(&'a Value),
}

/// Pods are told apart by their addresses alone: all have the port of the pool.
pub(crate) fn servers(count: u8) -> Vec<Backend> {
    let start = |last: u8, port: u16| {
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), port));
        Backend::start_at(address, chat_or_stream)
    };
    let first = start(2, 0);
    let port = first.address().port();
    let others = (0..count - 1).map(|at| start(at + 3, port));
    std::iter::once(first).chain(others.collect::<Vec<_>>()).collect()
}

/// A finished chat, or a stream of a few tokens if the client wants one.
pub(crate) fn chat_or_stream(seen: &Seen) -> ScriptedResponse {
    match seen.json()["stream"].as_bool() {
        Some(true) => ScriptedResponse::stream_paced(5, 2, true),
        _ => ScriptedResponse::ok(),
    }
}

/// Waits until a backend has this state; `None` for one that is gone.
pub(crate) fn await_state(gateway: &Gateway, id: &str, state: Option<&str>) {
    eventually("in its state", || {
        let backends = gateway.backends();
        let found = backends.iter().find(|backend| backend["id"] == id);
        let is = found.and_then(|backend| backend["state"].as_str());
        if is == state { Ok(()) } else { Err(format!("{id}: {is:?}")) }
    });
}

/// Sends requests from four clients for as long as `work` lasts, and returns how many were sent.
/// Each of them must be served. Two clients stream.
pub(crate) fn under_load(gateway: &Gateway, work: impl FnOnce(&dyn Fn())) -> usize {
    let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (over, served) = (&over, &served);
        let ask = move |request: &HttpRequest, end: &str| {
            while !over.load(Ordering::Relaxed) {
                let answer = gateway.ask(request);
                let text = answer.text();
                assert!(answer.status == 200 && text.contains(end), "{} {text}", answer.status);
                served.fetch_add(1, Ordering::Relaxed);
            }
        };
        for _ in 0..2 {
            scope.spawn(move || ask(&chat("m"), "choices"));
            scope.spawn(move || ask(&chat("m").streamed(), "[DONE]"));
        }
        // Some requests are served between two steps of the work.
        let more = || {
            let until = served.load(Ordering::Relaxed) + 20;
            eventually("served", || match served.load(Ordering::Relaxed) {
                count if count >= until => Ok(()),
                count => Err(count.to_string()),
            });
        };
        // The clients end with the work, also where a check of it fails.
        let _ends = EndOfLoad(over);
        work(&more);
    });
    served.into_inner()
}

/// Ends the clients of a load when it is dropped.
struct EndOfLoad<'a>(&'a AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The document of this kind in the manifests of the picker.
fn manifest(kind: &str) -> Value {
    let mark = format!("\nkind: {kind}\n");
    let document = MANIFESTS.split("---").find(|part| part.contains(&mark)).unwrap();
    serde_saphyr::from_str(document).unwrap()
}

// === impl Cluster ===

impl Cluster {
    /// A cluster with the pool `llama`, whose pods have this port.
    pub(crate) fn start(port: u16) -> Self {
        let cluster = match std::env::var_os("CLUSTER_FOLDER") {
            Some(folder) => Self::Real(RealCluster::start(folder.into())),
            None => Self::InProcess(ApiServer::start()),
        };
        cluster.create("inferencepools", pool("llama", &[port]));
        cluster
    }

    /// The section of a picker that follows the pool with the rights of the chart's role.
    pub(crate) fn section(&self) -> String {
        self.section_with(&self.account("tidegate", true))
    }

    /// The same with the token in this file.
    pub(crate) fn section_with(&self, token: &Path) -> String {
        let (url, namespace) = match self {
            Self::InProcess(api) => (format!("http://{}", api.address()), "models"),
            Self::Real(real) => (real.url(), real.namespace.as_str()),
        };
        let roots = match self {
            Self::InProcess(_) => String::new(),
            Self::Real(real) => format!("ca_file = {:?}\n", real.folder.join("apiserver.crt")),
        };
        format!(
            "[discovery.kubernetes]\nurl = \"{url}\"\nnamespace = \"{namespace}\"\n\
             token_file = {token:?}\npool = \"llama\"\n{roots}"
        )
    }

    /// Makes a service account, with the chart's role or without any, and writes its token to a
    /// file.
    pub(crate) fn account(&self, name: &str, has_role: bool) -> PathBuf {
        let file = fresh_file().with_file_name("token");
        let role = has_role.then(|| manifest("Role"));
        let token = match self {
            Self::InProcess(api) => {
                let rules = role.map_or(json!([]), |role| role["rules"].clone());
                api.add_account(name, rules);
                name.to_owned()
            }
            Self::Real(real) => real.account(name, role),
        };
        fs::write(&file, token).unwrap();
        file
    }

    pub(crate) fn create(&self, kind: &str, object: Value) {
        match self {
            Self::InProcess(api) => api.put(kind, object),
            Self::Real(real) => drop(real.change(kind, "", &Change::Create(&object))),
        }
    }

    /// Makes a pod that is ready.
    pub(crate) fn add_pod(&self, name: &str, address: SocketAddr) {
        let Self::Real(real) = self else { return self.create("pods", pod(name, address)) };
        let container = json!({"name": "server", "image": "server"});
        // A pod of no node is deleted at once.
        let spec = json!({"nodeName": "node", "containers": [container]});
        let metadata = json!({"name": name, "labels": {"app": "vllm"}});
        self.create("pods", json!({"metadata": metadata, "spec": spec}));
        let status = json!({"status": pod(name, address)["status"]});
        real.change("pods", &format!("/{name}/status"), &Change::Patch(&status));
    }

    /// Says that a pod will end.
    pub(crate) fn begin_end_of_pod(&self, name: &str) {
        match self {
            Self::InProcess(api) => api.change("pods", name, |pod| {
                pod["metadata"]["deletionTimestamp"] = "2026-11-18T00:00:00Z".into();
            }),
            Self::Real(real) => real.delete("pods", name, 30),
        }
    }

    /// Removes a pod that has ended.
    pub(crate) fn remove_pod(&self, name: &str) {
        match self {
            Self::InProcess(api) => api.delete("pods", name),
            Self::Real(real) => real.delete("pods", name, 0),
        }
    }

    pub(crate) fn set_ready(&self, name: &str, ready: bool) {
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
        match self {
            Self::InProcess(api) => {
                api.change("pods", name, |pod| pod["status"]["conditions"][0] = condition);
            }
            Self::Real(real) => {
                let status = json!({"status": {"conditions": [condition]}});
                real.change("pods", &format!("/{name}/status"), &Change::Patch(&status));
            }
        }
    }

    /// Ends every watch; the API server forgets old versions. A real one is killed and starts
    /// again.
    pub(crate) fn restart(&self) {
        match self {
            Self::InProcess(api) => api.compact(),
            Self::Real(real) => real.restart(),
        }
    }
}

// === impl RealCluster ===

impl RealCluster {
    fn start(folder: PathBuf) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let real = Self { folder, namespace: format!("models-{}-{number}", process::id()) };
        let namespace = json!({"metadata": {"name": real.namespace}});
        real.send("/api/v1/namespaces", &Change::Create(&namespace));
        real
    }

    fn url(&self) -> String {
        fs::read_to_string(self.folder.join("url")).unwrap().trim().to_owned()
    }

    fn account(&self, name: &str, role: Option<Value>) -> String {
        let account = json!({"metadata": {"name": name}});
        self.change("serviceaccounts", "", &Change::Create(&account));
        if let Some(role) = role {
            self.change("roles", "", &Change::Create(&role));
            let mut binding = manifest("RoleBinding");
            binding["subjects"][0]["namespace"] = self.namespace.clone().into();
            self.change("rolebindings", "", &Change::Create(&binding));
        }
        let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
        let path = format!("/{name}/token");
        let made = self.change("serviceaccounts", &path, &Change::Create(&ask));
        made["status"]["token"].as_str().unwrap().to_owned()
    }

    fn delete(&self, kind: &str, name: &str, grace: u64) {
        let options = json!({"gracePeriodSeconds": grace});
        self.change(kind, &format!("/{name}"), &Change::Delete(&options));
    }

    fn restart(&self) {
        let pid = || fs::read_to_string(self.folder.join("pid")).unwrap().trim().to_owned();
        let killed = pid();
        run(Command::new("kill").args(["-9", &killed]));
        eventually("started again", || match pid() {
            pid if pid.is_empty() || pid == killed => Err(pid),
            _ => Ok(()),
        });
        eventually("ready again", || {
            let output = self.curl("/readyz").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(said) }
        });
    }

    /// Changes an object of a kind in the namespace of the test.
    fn change(&self, kind: &str, path: &str, change: &Change<'_>) -> Value {
        let (root, _) = kind_of(kind);
        let collection = format!("{root}/namespaces/{}/{kind}{path}", self.namespace);
        match change {
            Change::Create(object) if object.get("kind").is_none() => {
                let (root, name) = kind_of(kind);
                let mut object = (*object).clone();
                object["kind"] = name.into();
                let version = root.trim_start_matches("/apis/").trim_start_matches("/api/");
                object["apiVersion"] = version.into();
                self.send(&collection, &Change::Create(&object))
            }
            _ => self.send(&collection, change),
        }
    }

    fn send(&self, path: &str, change: &Change<'_>) -> Value {
        let (method, kind, body) = match change {
            Change::Create(body) => ("POST", "application/json", body),
            Change::Patch(body) => ("PATCH", "application/merge-patch+json", body),
            Change::Delete(body) => ("DELETE", "application/json", body),
        };
        let mut command = self.curl(path);
        command.args(["-X", method, "-H", &format!("Content-Type: {kind}")]);
        let said = run(command.args(["--data", &body.to_string()]));
        serde_json::from_str(&said).unwrap()
    }

    fn curl(&self, path: &str) -> Command {
        let token = fs::read_to_string(self.folder.join("token")).unwrap();
        let mut command = tool("curl");
        command.args(["-sS", "--fail-with-body", "--noproxy", "*", "--cacert"]);
        command.arg(self.folder.join("apiserver.crt"));
        command.args(["-H", &format!("Authorization: Bearer {}", token.trim())]);
        command.arg(format!("{}{path}", self.url()));
        command
    }
}

/// The root of a kind's API, and its name.
fn kind_of(plural: &str) -> (&'static str, &'static str) {
    match plural {
        "pods" => ("/api/v1", "Pod"),
        "serviceaccounts" => ("/api/v1", "ServiceAccount"),
        "roles" => ("/apis/rbac.authorization.k8s.io/v1", "Role"),
        "rolebindings" => ("/apis/rbac.authorization.k8s.io/v1", "RoleBinding"),
        "inferencepools" => ("/apis/inference.networking.k8s.io/v1", "InferencePool"),
        "inferenceobjectives" => {
            ("/apis/inference.networking.x-k8s.io/v1alpha2", "InferenceObjective")
        }
        _ => panic!("{plural}"),
    }
}
