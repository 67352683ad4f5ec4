//! Batches whose gateway dies, ends or fills its disk: what was accepted is finished all the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::tools::tool;
use crate::support::{Answer, Backend, Process, Random, Stopwatch, eventually, fresh_file, run};

/// A gateway with a Batch API that is started again and again in the same folder.
#[derive(Debug)]
struct House {
    file: PathBuf,
    process: Option<Process>,
}

// === impl House ===

impl House {
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
        let mut house = Self { file, process: None };
        house.start();
        house
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

    /// Submits so many requests as one batch; gives its id.
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

    /// Waits until a batch has ended like this.
    fn await_status(&self, id: &str, status: &str) -> Value {
        eventually(status, || {
            let batch = self.batch(id);
            if batch["status"] == status { Ok(batch) } else { Err(batch.to_string()) }
        })
    }

    /// The lines of a batch's file.
    fn lines(&self, file: &Value) -> Vec<Value> {
        let content = self.curl(&format!("/v1/files/{}/content", file.as_str().unwrap()), &[]);
        content.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn ids(lines: &[Value]) -> BTreeSet<String> {
    lines.iter().map(|line| line["custom_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn d07_a_gateway_killed_at_any_point_finishes_its_batch_with_one_answer_each() {
    let backend = Backend::start(|_| Answer::ok().after_ms(15));
    let workers = 8;
    let mut house = House::new(&format!("[dispatch]\nworkers = {workers}\n"), &backend);
    let mut random = Random::new("gateway killed");
    let count = 200;
    let id = house.submit(count, "1h");
    let mut kills = 0;
    while kills < 15 && house.batch(&id)["status"] != "completed" {
        let (life, watch) = (random.below(120), Stopwatch::start());
        eventually("its time has come", || {
            let over = watch.elapsed().as_millis() as u64 >= life;
            if over { Ok(()) } else { Err("it lives".into()) }
        });
        house.process().kill();
        kills += 1;
        house.start();
    }
    let batch = house.await_status(&id, "completed");
    let counts = json!({"total": count, "completed": count, "failed": 0});
    assert_eq!(batch["request_counts"], counts, "after {kills} kills");
    let lines = house.lines(&batch["output_file_id"]);
    assert_eq!((lines.len(), ids(&lines).len()), (count, count), "each has one answer");
    let sent = backend.seen().len();
    assert!(sent <= count + kills * workers, "{sent} were sent for {count}, {kills} kills");
}

#[test]
fn d10_a_batch_whose_window_closes_keeps_what_was_finished() {
    let backend = Backend::start(|seen| match seen.number {
        0..3 => Answer::ok(),
        _ => Answer::silence(),
    });
    let house = House::new("[dispatch]\nworkers = 3\n", &backend);
    let id = house.submit(10, "4s");
    let batch = house.await_status(&id, "expired");
    let answered = house.lines(&batch["output_file_id"]);
    let left = house.lines(&batch["error_file_id"]);
    assert_eq!((answered.len(), left.len()), (3, 7));
    assert!(left.iter().all(|line| line["error"]["code"] == "batch_expired"), "{left:?}");
}

#[test]
fn d10_a_batch_that_is_cancelled_cuts_off_what_is_under_way() {
    let backend = Backend::start(|seen| match seen.number {
        0..2 => Answer::ok(),
        _ => Answer::silence(),
    });
    let house = House::new("[dispatch]\nworkers = 4\n", &backend);
    let id = house.submit(20, "1h");
    backend.await_running(4);
    house.json(&format!("/v1/batches/{id}/cancel"), &["-X", "POST"]);
    let batch = house.await_status(&id, "cancelled");
    backend.await_left(4);
    assert_eq!(house.lines(&batch["output_file_id"]).len(), 2);
    assert_eq!(house.lines(&batch["error_file_id"]).len(), 18);
}

#[test]
fn d07_sigterm_in_the_middle_of_a_batch_loses_nothing() {
    let backend = Backend::start(|_| Answer::ok().held());
    let mut house = House::new("[dispatch]\nworkers = 5\n", &backend);
    let id = house.submit(12, "1h");
    backend.await_running(5);
    house.process().signal("TERM");
    assert!(house.process().exit().success());
    backend.open();
    house.start();
    let batch = house.await_status(&id, "completed");
    assert_eq!(house.lines(&batch["output_file_id"]).len(), 12);
}
