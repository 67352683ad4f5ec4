//! Batches whose gateway is killed, stopped or has a full disk: accepted batches still finish.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::tools::tool;
use crate::support::{
    Backend, Process, Random, ScriptedResponse, Stopwatch, eventually, fresh_file, run,
};

/// A gateway with a Batch API that restarts in the same folder.
#[derive(Debug)]
struct RestartedGateway {
    file: PathBuf,
    process: Option<Process>,
}

// === impl RestartedGateway ===

impl RestartedGateway {
    fn new(sections: &str, backend: &Backend) -> Self {
        let file = fresh_file();
        let config = format!(
            "[batch]\nfolder = \"batch\"\n{sections}\n\
             [[dispatch.queues]]\nname = \"batch\"\ngates = [\"open\"]\n\
             [[dispatch.gates]]\nname = \"open\"\nkind = \"constant\"\ncapacity = 1000\n\
             [controller]\nwatermark_per_backend = 100\n\
             [[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"m\"]\n",
            backend.address()
        );
        fs::write(&file, config).unwrap();
        let mut gateway = Self { file, process: None };
        gateway.start();
        gateway
    }

    fn start(&mut self) {
        let path = self.file.to_str().unwrap();
        let arguments = ["serve", "--config", path, "--listen", "127.0.0.1:0"];
        self.process = Some(Process::start(&arguments));
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.process.as_ref().unwrap().address())
    }

    fn folder(&self) -> &Path {
        self.file.parent().unwrap()
    }

    fn curl(&self, path: &str, arguments: &[&str]) -> String {
        run(tool("curl").args(["-sS", "--fail-with-body"]).args(arguments).arg(self.url(path)))
    }

    fn json(&self, path: &str, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.curl(path, arguments)).unwrap()
    }

    /// Submits a batch of `count` requests; returns its id.
    fn submit(&self, count: usize, window: &str) -> String {
        let line = |number: usize| {
            let body = json!({"model": "m", "mark": format!("r{number}"), "messages": []});
            let custom = format!("r{number}");
            json!({
                "custom_id": custom, "method": "POST", "url": "/v1/chat/completions", "body": body,
            })
            .to_string()
        };
        let lines: Vec<String> = (0..count).map(line).collect();
        let input = self.folder().join("input.jsonl");
        fs::write(&input, lines.join("\n")).unwrap();
        let form = format!("file=@{}", input.display());
        let file = self.json("/v1/files", &["-F", "purpose=batch", "-F", &form]);
        let batch = json!({
            "input_file_id": file["id"], "endpoint": "/v1/chat/completions",
            "completion_window": window,
        });
        let batch = self.json("/v1/batches", &["--json", &batch.to_string()]);
        batch["id"].as_str().unwrap().to_owned()
    }

    fn batch(&self, id: &str) -> Value {
        self.json(&format!("/v1/batches/{id}"), &[])
    }

    /// Waits until a batch has this status.
    fn await_status(&self, id: &str, status: &str) -> Value {
        eventually(status, || {
            let batch = self.batch(id);
            if batch["status"] == status { Ok(batch) } else { Err(batch.to_string()) }
        })
    }

    /// The lines of an output file.
    fn lines(&self, file: &Value) -> Vec<Value> {
        let content = self.curl(&format!("/v1/files/{}/content", file.as_str().unwrap()), &[]);
        content.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn ids(lines: &[Value]) -> BTreeSet<String> {
    lines.iter().map(|line| line["custom_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn d07_a_gateway_killed_at_any_point_finishes_its_batch_with_one_response_each() {
    let backend = Backend::start(|_| ScriptedResponse::ok().after_ms(15));
    let workers = 8;
    let mut gateway =
        RestartedGateway::new(&format!("[dispatch]\nworkers = {workers}\n"), &backend);
    let mut random = Random::new("gateway killed");
    let count = 200;
    let id = gateway.submit(count, "1h");
    let mut kills = 0;
    while kills < 15 && gateway.batch(&id)["status"] != "completed" {
        let (life, watch) = (random.below(120), Stopwatch::start());
        eventually("its time has come", || {
            let over = watch.elapsed().as_millis() as u64 >= life;
            if over { Ok(()) } else { Err("it lives".into()) }
        });
        gateway.process().kill();
        kills += 1;
        gateway.start();
    }
    let batch = gateway.await_status(&id, "completed");
    let counts = json!({"total": count, "completed": count, "failed": 0});
    assert_eq!(batch["request_counts"], counts, "after {kills} kills");
    let lines = gateway.lines(&batch["output_file_id"]);
    assert_eq!((lines.len(), ids(&lines).len()), (count, count), "each has one answer");
    let sent = backend.seen().len();
    assert!(sent <= count + kills * workers, "{sent} were sent for {count}, {kills} kills");
}

#[test]
fn d10_an_expired_batch_keeps_its_responses() {
    let backend = Backend::start(|seen| match seen.number {
        0..3 => ScriptedResponse::ok(),
        _ => ScriptedResponse::silence(),
    });
    let gateway = RestartedGateway::new("[dispatch]\nworkers = 3\n", &backend);
    let id = gateway.submit(10, "4s");
    let batch = gateway.await_status(&id, "expired");
    let answered = gateway.lines(&batch["output_file_id"]);
    let left = gateway.lines(&batch["error_file_id"]);
    assert_eq!((answered.len(), left.len()), (3, 7));
    assert!(left.iter().all(|line| line["error"]["code"] == "batch_expired"), "{left:?}");
}

#[test]
fn d10_cancelling_a_batch_aborts_its_requests_in_flight() {
    let backend = Backend::start(|seen| match seen.number {
        0..2 => ScriptedResponse::ok(),
        _ => ScriptedResponse::silence(),
    });
    let gateway = RestartedGateway::new("[dispatch]\nworkers = 4\n", &backend);
    let id = gateway.submit(20, "1h");
    backend.await_running(4);
    gateway.json(&format!("/v1/batches/{id}/cancel"), &["-X", "POST"]);
    let batch = gateway.await_status(&id, "cancelled");
    backend.await_left(4);
    assert_eq!(gateway.lines(&batch["output_file_id"]).len(), 2);
    assert_eq!(gateway.lines(&batch["error_file_id"]).len(), 18);
}

#[test]
fn d07_sigterm_in_the_middle_of_a_batch_loses_nothing() {
    let backend = Backend::start(|_| ScriptedResponse::ok().held());
    let mut gateway = RestartedGateway::new("[dispatch]\nworkers = 5\n", &backend);
    let id = gateway.submit(12, "1h");
    backend.await_running(5);
    gateway.process().signal("TERM");
    assert!(gateway.process().exit().success());
    backend.open();
    gateway.start();
    let batch = gateway.await_status(&id, "completed");
    assert_eq!(gateway.lines(&batch["output_file_id"]).len(), 12);
}
