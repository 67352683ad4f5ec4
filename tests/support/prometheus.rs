//! Debian's Prometheus as a process: it scrapes its targets every second and answers PromQL.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::call::Call;
use super::http_request::HttpRequest;
use super::redis::kept_port;
use super::tools::tool;
use super::wait::eventually;

/// A running Prometheus. It ends with its owner.
#[derive(Debug)]
pub(crate) struct Prometheus {
    child: Child,
    address: SocketAddr,
    folder: PathBuf,
}

// === impl Prometheus ===

impl Prometheus {
    /// Starts a Prometheus that scrapes these targets and adds these labels, such as the name of a
    /// pool.
    pub(crate) fn scraping(targets: &[(SocketAddr, &[(&str, &str)])]) -> Self {
        Self::start(targets, "")
    }

    /// The same with a file of rules, which it evaluates every second.
    pub(crate) fn scraping_with(targets: &[(SocketAddr, &[(&str, &str)])], rules: &Path) -> Self {
        Self::start(targets, &format!("rule_files: [{rules:?}]\n"))
    }

    fn start(targets: &[(SocketAddr, &[(&str, &str)])], rules: &str) -> Self {
        let folder = fresh_folder();
        let target = |(address, labels): &(SocketAddr, &[(&str, &str)])| {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}: '{value}'")).collect();
            format!("  - targets: ['{address}']\n    labels: {{{}}}\n", labels.join(", "))
        };
        let targets: String = targets.iter().map(target).collect();
        let settings = format!(
            "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  evaluation_interval: 1s\n\
             {rules}scrape_configs:\n- job_name: tidegate\n  static_configs:\n{targets}"
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, settings).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, kept_port()));
        let mut command = tool("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"));
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let prometheus = Self { child: quiet.spawn().unwrap(), address, folder };
        eventually("ready", || prometheus.ready());
        prometheus
    }

    fn ready(&self) -> Result<(), String> {
        TcpStream::connect(self.address).map_err(|error| error.to_string())?;
        let answer = Call::open(self.address, &HttpRequest::get("/-/ready").bytes()).finish();
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    }

    /// Ends it before its owner ends.
    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The rules and how they fare.
    pub(crate) fn rules(&self) -> Vec<Value> {
        let answer = Call::open(self.address, &HttpRequest::get("/api/v1/rules").bytes()).finish();
        let answer = answer.json();
        let groups = answer["data"]["groups"].as_array().unwrap().iter();
        groups.flat_map(|group| group["rules"].as_array().unwrap()).cloned().collect()
    }

    /// All samples of an expression.
    pub(crate) fn query(&self, expression: &str) -> Vec<f64> {
        let path = format!("/api/v1/query?query={}", encoded(expression));
        let answer = Call::open(self.address, &HttpRequest::get(&path).bytes()).finish().json();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let samples = answer["data"]["result"].as_array().unwrap();
        let number = |sample: &Value| sample["value"][1].as_str().unwrap().parse().unwrap();
        samples.iter().map(number).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn fresh_folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("prometheus-{}-{number}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
