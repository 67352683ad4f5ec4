//! D10: the requests of a batch belong to the flow of the client that submitted it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::gateway::config;
use crate::support::{Backend, Gateway, HttpRequest, chat, eventually};

/// Teams by a header; the team `lab` has three shares and one place at the backends.
const TEAMS: &str = "[queue]\nflow_by = [\"header:x-team\"]\n\
    [[flows]]\nmatch = { \"header:x-team\" = \"lab\" }\nweight = 3.0\nmax_in_flight = 1\n\
    [batch]\nfolder = \"batches\"\n\
    [[dispatch.queues]]\nname = \"batch\"\ngates = [\"open\"]\n";

/// A gateway with teams and a gate that lets this many batch requests go at once.
fn gateway(room: u32, backend: &Backend) -> Gateway {
    let gate = "[[dispatch.gates]]\nname = \"open\"\nkind = \"constant\"\n";
    let sections =
        format!("{TEAMS}{gate}capacity = {room}\n[controller]\nwatermark_per_backend = 100\n");
    Gateway::start(&config(&sections, &[("one", backend.address())]))
}

/// The lines of a batch with this many requests, which all have this tag.
fn lines(tag: &str, count: usize) -> String {
    let line = |number: usize| {
        let body = json!({"model": "m", "mark": tag, "messages": []});
        let name = format!("{tag}{number}");
        let url = "/v1/chat/completions";
        json!({"custom_id": name, "method": "POST", "url": url, "body": body}).to_string() + "\n"
    };
    (0..count).map(line).collect()
}

/// Creates a batch over HTTP, with these headers.
fn create(gateway: &Gateway, content: &str, headers: &[(&str, &str)]) -> String {
    let form = format!(
        "--XYZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--XYZ\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"in\"\r\n\r\n{content}\r\n\
         --XYZ--\r\n"
    );
    let mut upload = HttpRequest::post("/v1/files", form);
    upload.headers = vec![("content-type".into(), "multipart/form-data; boundary=XYZ".into())];
    let file = gateway.ask(&upload).json();
    let batch = json!({"input_file_id": file["id"], "endpoint": "/v1/chat/completions",
        "completion_window": "24h"});
    let ask = HttpRequest::post("/v1/batches", batch.to_string());
    let ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    let made = gateway.ask(&ask);
    assert_eq!(made.status, 200, "{}", made.text());
    made.json()["id"].as_str().unwrap().to_owned()
}

fn await_status(gateway: &Gateway, id: &str, status: &str) {
    eventually(status, || {
        let batch = gateway.get(&format!("/v1/batches/{id}")).json();
        if batch["status"] == status { Ok(()) } else { Err(batch.to_string()) }
    });
}

fn flow(gateway: &Gateway, name: &str) -> Option<Value> {
    let flows = gateway.get("/flows").json()["flows"].clone();
    flows.as_array().unwrap().iter().find(|flow| flow["name"] == name).cloned()
}

/// Waits until the flow `lab` has one request in flight and others that wait for its limit.
fn await_limit(gateway: &Gateway) -> Value {
    eventually("lab waits at its limit", || {
        let found = flow(gateway, "lab").ok_or_else(|| gateway.get("/flows").text())?;
        let waits = found["queue_depth"].as_u64().unwrap() > 0;
        if found["in_flight"] == 1 && waits { Ok(found) } else { Err(found.to_string()) }
    })
}

/// Whether a file in this folder, or below it, contains a text.
fn folder_contains(folder: &Path, text: &str) -> bool {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().any(|path| {
        if path.is_dir() {
            return folder_contains(&path, text);
        }
        // The engine deletes its journal now and then.
        let content = fs::read(&path).unwrap_or_default();
        content.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[test]
fn d10_and_q01_batch_submit_gives_its_headers_to_the_flow() {
    let backend = Backend::held();
    let gateway = gateway(100, &backend);
    let file = gateway.folder().join("in.jsonl");
    fs::write(&file, lines("lab", 5)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["batch", "submit", file.to_str().unwrap(), "--url", &gateway.url()]);
    command.args(["-H", "x-team: lab", "-H", "Authorization: Bearer key-1234"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let found = await_limit(&gateway);
    assert_eq!((&found["weight"], &found["class"]), (&json!(3.0), &json!(1)));
    // The limit of the team applies.
    backend.await_running(1);
    backend.open();
    await_status(&gateway, &id, "completed");
    assert_eq!(backend.most(), 1);
    for seen in backend.seen() {
        assert_eq!(seen.header("x-team"), Some("lab"));
        assert_eq!(seen.header("authorization"), None);
    }
    assert!(!folder_contains(&gateway.folder().join("batches"), "key-1234"));
}

#[test]
fn d10_and_q01_a_batch_over_http_gives_its_headers_to_the_flow() {
    let backend = Backend::held();
    let gateway = gateway(100, &backend);
    let id = create(&gateway, &lines("lab", 5), &[("X-Team", "lab"), ("X-Other", "not kept")]);
    await_limit(&gateway);
    let team = chat("m").tag("direct").header("x-team", "lab");
    let direct = gateway.send(&team);
    eventually("one flow", || {
        let waiting = flow(&gateway, "lab").unwrap()["waiting"].clone();
        if waiting["normal"] == 1 { Ok(()) } else { Err(waiting.to_string()) }
    });
    backend.open();
    assert_eq!(direct.finish().status, 200);
    await_status(&gateway, &id, "completed");
    assert_eq!(backend.most(), 1, "the team has one place for both");
    assert!(backend.seen().iter().all(|seen| seen.header("x-other").is_none()));
}

#[test]
fn d08_teams_share_the_queue_of_batches_fairly() {
    let backend = Backend::held();
    let gateway = gateway(1, &backend);
    let large = create(&gateway, &lines("a", 20), &[("x-team", "a")]);
    backend.await_running(1);
    let small = create(&gateway, &lines("b", 3), &[("x-team", "b")]);
    await_status(&gateway, &small, "in_progress");
    backend.open();
    await_status(&gateway, &small, "completed");
    await_status(&gateway, &large, "completed");
    let order = backend.tags();
    let last = order.iter().rposition(|tag| tag == "b").unwrap();
    assert!(last <= 8, "the small batch waits for its share only: {order:?}");
}

/// The rules of bands may use headers that make up no flow.
#[test]
fn d10_and_p02_the_rules_of_bands_hold_for_the_requests_of_a_batch() {
    let backend = Backend::held();
    let sections = "[batch]\nfolder = \"batches\"\n\
        [[band_rules]]\nmatch = { \"header:x-tier\" = \"free\" }\nband_max = \"best-effort\"\n\
        [[dispatch.queues]]\nname = \"batch\"\nband = \"high\"\n";
    let gateway = Gateway::before(sections, &backend);
    let id = create(&gateway, &lines("free", 1), &[("x-tier", "free"), ("x-other", "not kept")]);
    backend.await_running(1);
    let counts = gateway.backend("one")["priority_counts"].clone();
    assert_eq!((&counts["best_effort"], &counts["high"]), (&json!(1), &json!(0)));
    backend.open();
    await_status(&gateway, &id, "completed");
    let seen = backend.seen().remove(0);
    assert_eq!((seen.header("x-tier"), seen.header("x-other")), (Some("free"), None));
}
