//! A message bus for one test: Debian's daemon, queried with systemd's `busctl`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::tools::{run, tool};

/// A bus, which can be stopped and started again at the same address.
#[derive(Debug)]
pub(crate) struct MessageBus {
    folder: PathBuf,
    daemon: Option<Child>,
}

// === impl MessageBus ===

impl MessageBus {
    /// An address for a bus that is not started.
    pub(crate) fn absent() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // The path of a socket must be short, so it is not in the build folder.
        let folder = std::env::temp_dir().join(format!("tidegate-bus-{}-{number}", id()));
        fs::create_dir_all(&folder).unwrap();
        Self { folder, daemon: None }
    }

    pub(crate) fn start() -> Self {
        let mut bus = Self::absent();
        bus.appear();
        bus
    }

    pub(crate) fn address(&self) -> String {
        format!("unix:path={}", self.socket().display())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("bus")
    }

    /// Starts the daemon with the rules of a session bus.
    pub(crate) fn appear(&mut self) {
        self.spawn(&["--session".into()]);
    }

    /// Starts the daemon with this configuration.
    pub(crate) fn appear_as(&mut self, config: &str) {
        let file = self.folder.join("bus.conf");
        fs::write(&file, config).unwrap();
        self.spawn(&[format!("--config-file={}", file.display())]);
    }

    fn spawn(&mut self, arguments: &[String]) {
        let mut command = tool("dbus-daemon");
        command.args(arguments).args(["--nofork", "--nopidfile", "--print-address"]);
        command.arg(format!("--address={}", self.address()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut daemon = command.spawn().unwrap();
        // The daemon prints its address when it listens.
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("unix:"), "no bus: {line:?}");
        self.daemon = Some(daemon);
    }

    /// Kills the daemon.
    pub(crate) fn vanish(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }

    /// `busctl` on this bus.
    pub(crate) fn busctl(&self) -> Command {
        let mut command = tool("busctl");
        command.env("DBUS_SESSION_BUS_ADDRESS", self.address()).arg("--user");
        command
    }

    /// Calls a method and returns its results. Arguments follow the name of the method.
    pub(crate) fn call(&self, service: &str, method: &[&str]) -> Vec<Value> {
        let answer = run(self.busctl().args(words(service)).args(method));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["data"].as_array().unwrap().clone()
    }

    /// Calls a method and returns its result or its error.
    pub(crate) fn try_call(&self, service: &str, method: &[&str]) -> Result<Value, String> {
        let output = self.busctl().args(words(service)).args(method).output().unwrap();
        if output.status.success() {
            Ok(serde_json::from_slice(&output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for MessageBus {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // It may have ended already.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The arguments before the name of the method.
fn words(service: &str) -> [String; 5] {
    let name = format!("ie.fio.OllamaProxy.{service}");
    let path = format!("/ie/fio/OllamaProxy/{service}");
    ["--json=short".into(), "call".into(), name.clone(), path, name]
}
