//! The picker's health, read by gRPC's own client.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use crate::support::api_server::{ApiServer, pod, pool};
use crate::support::envoy::FREE;
use crate::support::tools::{python, run};
use crate::support::wait::BOUND;
use crate::support::{Backend, Gateway, Nowhere, ScriptedResponse, eventually};

const PICKER: &str = "envoy.service.ext_proc.v3.ExternalProcessor";

/// A client that watches a name until the picker ends the call.
struct Watcher {
    child: Child,
    said: Receiver<String>,
}

fn ask(verb: &str, address: SocketAddr) -> Command {
    let mut command = python("grpc_services.py");
    command.args([verb, &address.to_string()]);
    command
}

fn check(picker: &Gateway, service: &str) -> String {
    run(ask("check", health_port(picker)).arg(service)).trim().to_owned()
}

fn health_port(picker: &Gateway) -> SocketAddr {
    picker.process.addresses()[1]
}

/// A picker that goes on for so long after the signal, with one backend whose models it must learn.
fn draining(drain: &str, backend: SocketAddr) -> Gateway {
    // The time for streams to finish is out of reach: no test may end by it.
    let sections = format!("[epp]\ndrain = \"{drain}\"\n[server]\ngrace = \"1h\"\n");
    let backend = format!("[[backends]]\nid = \"one\"\nurl = \"http://{backend}\"\n");
    Gateway::picker(&(sections + &backend), FREE)
}

// === impl Watcher ===

impl Watcher {
    fn of(picker: &Gateway, service: &str) -> Self {
        let mut command = ask("watch", health_port(picker));
        let mut child = command.arg(service).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, said) = channel();
        // Ends with the client's output, or when the test has gone.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, said }
    }

    /// The next message; `None` when the picker has ended the call.
    fn next(&self) -> Option<String> {
        match self.said.recv_timeout(BOUND) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing is said"),
        }
    }

    /// All that is said until the picker ends the call, which must be a good end.
    fn rest(mut self) -> Vec<String> {
        let rest = std::iter::from_fn(|| self.next()).collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn x02_every_name_is_listed_on_both_ports() {
    let backend = Backend::quick();
    let picker = draining("0s", backend.address());
    picker.await_ready(1);
    for port in &picker.process.addresses()[..2] {
        let listed = run(&mut ask("list", *port));
        let wanted = format!("(all) SERVING\n{PICKER} SERVING\n");
        assert_eq!(listed, wanted + "liveness SERVING\nreadiness SERVING\n");
    }
}

/// The probes of the existing picker ask for `inference-extension`. Before the pool is known every
/// request would be refused.
#[test]
fn x02_the_picker_serves_once_its_pool_is_known_and_while_it_exists() {
    let backend = Backend::quick();
    let api = ApiServer::start();
    api.put("pods", pod("pod-0", backend.address()));
    api.forbid("list", "inferencepools");
    let picker = Gateway::picker(&api.section("pool = \"llama\""), FREE);
    let names = ["", PICKER, "inference-extension", "readiness", "liveness"];
    let said = || names.map(|name| check(&picker, name) == "SERVING").to_vec();
    let await_all = |wanted: [bool; 5]| {
        eventually("its state", || match said() {
            said if said == wanted => Ok(()),
            said => Err(format!("{said:?}")),
        });
    };
    eventually("asked for the pool", || match api.seen("list").len() {
        0 => Err("nothing yet".to_owned()),
        _ => Ok(()),
    });
    assert_eq!(said(), [false, false, false, false, true]);
    // The pool is known, and has no pod: requests wait for one.
    api.delete("pods", "pod-0");
    api.put("inferencepools", pool("llama", &[backend.address().port()]));
    api.allow_all();
    await_all([true; 5]);
    // An API server that is away changes nothing that is known.
    api.put("pods", pod("pod-0", backend.address()));
    picker.await_ready(1);
    api.forbid("list", "inferencepools");
    api.forbid("watch", "inferencepools");
    api.compact();
    eventually("told", || match picker.get("/status").text() {
        page if page.contains("discovery_failing") => Ok(()),
        page => Err(page),
    });
    assert_eq!(said(), [true; 5]);
    // A pool that is deleted gets no pods.
    api.allow_all();
    api.delete("inferencepools", "llama");
    await_all([false, false, false, false, true]);
}

/// Requests wait for the first backend: only readiness says that they should go elsewhere.
#[test]
fn x02_a_picker_that_knows_no_model_takes_requests_but_is_not_ready() {
    let nowhere = Nowhere::reserve();
    let picker = draining("0s", nowhere.address());
    assert_eq!(picker.get("/ready").status, 503);
    let said = ["", PICKER, "liveness", "readiness"].map(|name| check(&picker, name));
    assert_eq!(said, ["SERVING", "SERVING", "SERVING", "NOT_SERVING"]);
}

/// Deployments of other pickers check names of their own, which mean the picker.
#[test]
fn x02_any_other_name_has_the_health_of_the_picker() {
    let backend = Backend::quick();
    let mut picker = draining("1h", backend.address());
    picker.await_ready(1);
    let names = ["inference-extension", "anything"];
    assert_eq!(names.map(|name| check(&picker, name)), ["SERVING", "SERVING"]);
    let watcher = Watcher::of(&picker, names[0]);
    assert_eq!(watcher.next().unwrap(), "SERVING");
    picker.process.signal("TERM");
    assert_eq!(watcher.next().unwrap(), "NOT_SERVING");
    assert_eq!(names.map(|name| check(&picker, name)), ["NOT_SERVING", "NOT_SERVING"]);
    picker.process.signal("TERM");
    assert!(picker.process.exit().success());
}

#[test]
fn x02_while_the_picker_drains_only_life_is_well() {
    let backend = Backend::quick();
    let mut picker = draining("1h", backend.address());
    picker.await_ready(1);
    picker.process.signal("TERM");
    eventually("draining", || match picker.get("/ready").status {
        503 => Ok(()),
        status => Err(format!("{status}")),
    });
    let said = ["", PICKER, "liveness", "readiness"].map(|name| check(&picker, name));
    assert_eq!(said, ["NOT_SERVING", "NOT_SERVING", "SERVING", "NOT_SERVING"]);
    picker.process.signal("TERM");
    assert!(picker.process.exit().success());
}

/// Each change is reported once, the last before the shutdown; the shutdown does not wait for open
/// watches.
#[test]
fn x02_a_watch_reports_every_change_and_the_shutdown() {
    let nowhere = Nowhere::reserve();
    let mut picker = draining("0s", nowhere.address());
    let readiness = Watcher::of(&picker, "readiness");
    assert_eq!(readiness.next().unwrap(), "NOT_SERVING");
    let address = nowhere.address();
    drop(nowhere);
    let _backend = Backend::start_at(address, |_| ScriptedResponse::ok());
    assert_eq!(readiness.next().unwrap(), "SERVING");
    let others = [PICKER, "liveness"].map(|name| Watcher::of(&picker, name));
    let first = others.each_ref().map(|watcher| watcher.next().unwrap());
    assert_eq!(first, ["SERVING", "SERVING"]);
    picker.process.signal("TERM");
    assert!(picker.process.exit().success());
    assert_eq!(readiness.rest(), ["NOT_SERVING"]);
    let [door, life] = others.map(Watcher::rest);
    assert_eq!(door, ["NOT_SERVING"]);
    assert!(life.is_empty(), "{life:?}");
}
