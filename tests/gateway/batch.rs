//! D10: the Batch API as clients see it.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::tools::{leave_out, python, run, tool};
use crate::support::{Backend, Call, Gateway, HttpRequest, eventually};

const MIB: usize = 1 << 20;

/// A gateway with these sections and a folder for batches.
fn gateway(sections: &str) -> Gateway {
    // The path is relative to the folder of the configuration file.
    let alone = "[discovery]\nendpoints_file = \"none.yaml\"\n[batch]\nfolder = \"batches\"\n";
    Gateway::launch(&format!("{sections}{alone}"))
}

/// The head of an upload of a file of this length; in chunks if there is no length.
fn opening(length: Option<usize>) -> Vec<u8> {
    let head = "POST /v1/files HTTP/1.1\r\nhost: tidegate\r\nconnection: close\r\n\
                content-type: multipart/form-data; boundary=XYZ\r\n";
    let framing = length.map_or_else(
        || "transfer-encoding: chunked\r\n\r\n".to_owned(),
        |length| format!("content-length: {}\r\n\r\n", length + BEFORE.len() + AFTER.len()),
    );
    format!("{head}{framing}").into_bytes()
}

const BEFORE: &str = "--XYZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
    --XYZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n";
const AFTER: &str = "\r\n--XYZ--\r\n";

/// Begins to upload a file of this length.
fn begin(gateway: &Gateway, length: usize) -> Call {
    let mut call = Call::open(gateway.address(), &opening(Some(length)));
    call.send(BEFORE.as_bytes()).unwrap();
    call
}

fn upload(gateway: &Gateway, content: &str) -> Value {
    let mut call = begin(gateway, content.len());
    call.send(content.as_bytes()).unwrap();
    call.send(AFTER.as_bytes()).unwrap();
    call.finish().json()
}

fn line(name: &str, padding: usize) -> String {
    let body = json!({"model": "m", "prompt": "x".repeat(padding)});
    json!({"custom_id": name, "method": "POST", "url": "/v1/completions", "body": body}).to_string()
        + "\n"
}

fn create(gateway: &Gateway, file: &Value) -> String {
    let wanted = json!({"input_file_id": file["id"], "endpoint": "/v1/completions",
        "completion_window": "24h"});
    let made = gateway.ask(&HttpRequest::post("/v1/batches", wanted.to_string()));
    assert_eq!(made.status, 200, "{}", made.text());
    made.json()["id"].as_str().unwrap().to_owned()
}

fn await_status(gateway: &Gateway, batch: &str, status: &str) -> Value {
    eventually(status, || {
        let batch = gateway.get(&format!("/v1/batches/{batch}")).json();
        if batch["status"] == status { Ok(batch) } else { Err(batch.to_string()) }
    })
}

/// The names of the files in a subfolder.
fn names(gateway: &Gateway, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(gateway.folder().join("batches").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The gateway checks each line as it checks a request, before the first one is sent.
#[test]
fn x05_d10_a_batch_with_a_line_that_servers_read_differently_fails() {
    let gateway = gateway("");
    for body in ["{\"model\":\"m\",\"Model\":\"x\"}", "{\"model\":\"m\",\"n\":1,\"N\":9}"] {
        let head = "\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\"";
        let line = format!("{{{head},\"body\":{body}}}\n");
        let batch = create(&gateway, &upload(&gateway, &line));
        let failed = await_status(&gateway, &batch, "failed");
        let error = &failed["errors"]["data"][0];
        assert_eq!((&error["line"], &error["param"]), (&json!(1), &json!("body")), "{failed}");
        assert!(error["message"].as_str().unwrap().contains("another spelling"), "{failed}");
    }
    for (name, other) in [("body", "Body"), ("url", "URL"), ("method", "Method")] {
        let line = format!("{{\"{other}\":{{\"model\":\"secret\"}},{}", &line("a", 1)[1..]);
        let batch = create(&gateway, &upload(&gateway, &line));
        let failed = await_status(&gateway, &batch, "failed");
        let error = failed["errors"]["data"][0]["message"].as_str().unwrap();
        assert!(error.contains(&format!("'{name}' in another spelling")), "{failed}");
    }
}

fn await_no_drafts(gateway: &Gateway) {
    eventually("no drafts", || match names(gateway, "drafts") {
        drafts if drafts.is_empty() => Ok(()),
        drafts => Err(format!("{drafts:?}")),
    });
}

/// The peak memory of the gateway, in bytes.
fn peak(gateway: &Gateway) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

fn openai(gateway: &Gateway, steps: &[&str]) {
    let printed = run(python("openai_batch.py").arg(gateway.url()).args(steps));
    assert_eq!(printed.split_whitespace().collect::<Vec<_>>(), steps);
}

#[test]
fn d10_openais_own_client_has_files_and_batches() {
    let gateway = gateway("");
    openai(&gateway, &["files", "pages", "batches", "flaws", "errors"]);
    await_no_drafts(&gateway);
}

#[test]
fn d10_openais_own_client_has_its_batches_answered() {
    let backend = Backend::quick();
    let gateway = Gateway::before("[batch]\nfolder = \"batches\"\n", &backend);
    openai(&gateway, &["complete"]);
    gateway.await_idle();
}

#[test]
fn d10_a_file_that_is_too_large_is_refused_with_a_reason() {
    let gateway = gateway("");
    let tight = Gateway::launch("[batch]\nfolder = \"batches\"\nfile_limit = \"1MiB\"\n");
    openai(&tight, &["large"]);
    // A chunked upload does not announce its length.
    let mut call = Call::open(tight.address(), &opening(None));
    let mut chunk = |bytes: &[u8]| {
        let framed = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        call.send(&framed)
    };
    chunk(BEFORE.as_bytes()).unwrap();
    for _ in 0..3 {
        chunk(&vec![b'x'; MIB / 2]).unwrap();
    }
    call.send(b"0\r\n\r\n").unwrap();
    let answer = call.finish();
    assert_eq!((answer.status, answer.code().as_str()), (413, "file_too_large"));
    // A client that expects `100 Continue` gets the refusal before it sends.
    let announced = opening(Some(500 * MIB));
    let asks = [&announced[..announced.len() - 2], b"expect: 100-continue\r\n\r\n"].concat();
    let answer = Call::open(gateway.address(), &asks).finish();
    assert_eq!((answer.status, answer.code().as_str()), (413, "file_too_large"));
    for gateway in [&gateway, &tight] {
        await_no_drafts(gateway);
        assert_eq!(names(gateway, "files"), Vec::<String>::new());
    }
}

#[test]
fn d10_without_a_folder_the_error_names_the_setting() {
    let gateway = Gateway::launch("");
    openai(&gateway, &["disabled"]);
}

#[test]
fn d10_paths_take_their_methods_and_no_others() {
    let gateway = gateway("");
    let mut put = HttpRequest::post("/v1/files/file-0", "{}");
    put.method = "PUT".into();
    let answer = gateway.ask(&put);
    assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"));
    assert_eq!(gateway.get("/v1/files/file-0/more").status, 404);
    let asked = HttpRequest::get("/v1/files/file-0").header("x-request-id", "mine");
    let answer = gateway.ask(&asked);
    assert_eq!((answer.status, answer.header("x-request-id")), (404, Some("mine")));
}

#[test]
fn d10_two_uploads_at_once_are_both_complete() {
    let gateway = gateway("");
    let contents = ["a", "b"].map(|letter| letter.repeat(300_000));
    let mut calls = [0, 1].map(|which: usize| begin(&gateway, contents[which].len()));
    for part in 0..3 {
        for (call, content) in calls.iter_mut().zip(&contents) {
            call.send(&content.as_bytes()[part * 100_000..(part + 1) * 100_000]).unwrap();
        }
    }
    for (mut call, content) in calls.into_iter().zip(contents) {
        call.send(AFTER.as_bytes()).unwrap();
        let file = call.finish().json();
        let path = format!("/v1/files/{}/content", file["id"].as_str().unwrap());
        assert!(gateway.get(&path).text() == content, "{file}");
    }
}

#[test]
fn x03_an_upload_that_stops_or_is_aborted_leaves_no_file() {
    let gateway = gateway("[server]\nbody_timeout = \"200ms\"\n");
    let mut silent = begin(&gateway, MIB);
    silent.send(&vec![b'x'; MIB / 2]).unwrap();
    let mut leaving = begin(&gateway, MIB);
    leaving.send(&vec![b'x'; MIB / 2]).unwrap();
    drop(leaving);
    let answer = silent.finish();
    assert_eq!((answer.status, answer.code().as_str()), (408, "request_timeout"));
    await_no_drafts(&gateway);
    assert_eq!(names(&gateway, "files"), Vec::<String>::new());
}

#[test]
fn d07_a_gateway_that_is_killed_leaves_nothing_half_done_and_goes_on() {
    let mut first = gateway("");
    let content: String = (0..3000).map(|number| line(&number.to_string(), 10)).collect();
    let file = upload(&first, &content);
    let batch = create(&first, &file);
    let mut call = begin(&first, MIB);
    call.send(&vec![b'x'; MIB / 2]).unwrap();
    eventually("a draft", || match names(&first, "drafts").len() {
        1 => Ok(()),
        other => Err(other.to_string()),
    });
    first.process.kill();
    let folder = first.folder().join("batches");
    let again = format!("[batch]\nfolder = \"{}\"\n", folder.display());
    let second = Gateway::launch(&again);
    let drafts = fs::read_dir(folder.join("drafts")).unwrap().count();
    assert_eq!(drafts, 0, "no draft is left");
    let batch = await_status(&second, &batch, "in_progress");
    assert_eq!(batch["request_counts"]["total"], 3000);
    assert_eq!(second.get("/v1/files").json()["data"].as_array().unwrap().len(), 1);
}

#[test]
fn d10_a_large_file_is_never_held_in_memory() {
    let gateway = gateway("");
    // A first upload allocates the memory that every upload needs.
    let small = upload(&gateway, &line("warm", 10).repeat(1000));
    let before = peak(&gateway);
    let line = |number: usize| line(&format!("{number:05}"), 4000);
    let length = line(0).len();
    let mut call = begin(&gateway, 50_000 * length);
    for first in (0..50_000).step_by(250) {
        let lines: String = (first..first + 250).map(line).collect();
        call.send(lines.as_bytes()).unwrap();
    }
    call.send(AFTER.as_bytes()).unwrap();
    let file = call.finish().json();
    assert_eq!(file["bytes"], 50_000 * length, "{file}");
    assert!(50_000 * length > 200_000_000);
    let batch = create(&gateway, &file);
    let batch = await_status(&gateway, &batch, "in_progress");
    assert_eq!(batch["request_counts"]["total"], 50_000);
    let path = format!("/v1/files/{}/content", file["id"].as_str().unwrap());
    let mut call = gateway.send(&HttpRequest::get(&path));
    assert_eq!(call.head().status, 200);
    let answer = call.finish();
    assert_eq!(answer.body.len(), 50_000 * length);
    let after = peak(&gateway);
    assert!(after < before + 48 * MIB, "it needs {} MiB more", (after - before) / MIB);
    drop(small);
}

#[test]
fn d10_a_file_is_downloaded_over_http2() {
    let gateway = gateway("");
    let content = line("x", 3000).repeat(1000);
    let file = upload(&gateway, &content);
    let url = format!("{}/v1/files/{}/content", gateway.url(), file["id"].as_str().unwrap());
    let printed = run(tool("curl").args(["-sS", "--http2-prior-knowledge", &url]));
    assert!(printed == content);
}

#[test]
fn d10_an_aborted_transfer_is_logged_with_its_bytes() {
    let gateway = gateway("");
    let content = line("x", 3000).repeat(10_000);
    let file = upload(&gateway, &content);
    let path = format!("/v1/files/{}/content", file["id"].as_str().unwrap());
    let mut leaving = gateway.send(&HttpRequest::get(&path));
    assert_eq!(leaving.head().status, 200);
    drop(leaving);
    let mut leaving = begin(&gateway, 30 * MIB);
    leaving.send(&vec![b'x'; MIB]).unwrap();
    eventually("a draft", || match names(&gateway, "drafts").len() {
        1 => Ok(()),
        other => Err(other.to_string()),
    });
    drop(leaving);
    let count = |line: &str, key: &str| -> usize {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(key));
        word.unwrap().parse().unwrap()
    };
    eventually("both lines", || {
        let lines = gateway.process.access();
        let left: Vec<_> = lines.lines().filter(|line| line.contains("client_closed")).collect();
        let [download, upload] = left[..] else { return Err(lines) };
        assert!(count(download, "bytes_out=") < content.len(), "{download}");
        assert!(count(upload, "bytes_in=") <= 2 * MIB, "{upload}");
        Ok(())
    });
    let whole = gateway.get(&path);
    assert_eq!(whole.body.len(), content.len());
    eventually("its line", || {
        let lines = gateway.process.access();
        let words = format!("bytes_out={}", content.len());
        if lines.lines().any(|line| line.contains("outcome=ok") && line.contains(&words)) {
            Ok(())
        } else {
            Err(lines)
        }
    });
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tidegate_requests_cancelled_total"), 0.0, "no request waited");
    assert!(!metrics.has("tidegate_request_duration_seconds_count"), "no request was queued");
    assert_eq!(metrics.sum_where("tidegate_requests_total", "band=\"normal\""), 0.0);
}

/// A small disk of its own, if the tests may mount one.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(path: std::path::PathBuf, size: &str) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tidegate-test"])
            .arg(&path)
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(path));
        }
        leave_out("a small disk cannot be mounted here");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A process that has a file open there keeps it until it ends.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The log of the database must not fill a small disk: nothing could be written ever after.
#[test]
fn d09_a_batch_ends_on_a_small_disk() {
    let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let place = place.join(format!("small-disk-{}", std::process::id()));
    let Some(disk) = Disk::mount(place, "2m") else { return };
    let backend = Backend::quick();
    let batches = format!("[batch]\nfolder = \"{}\"\n", disk.0.display());
    let gateway = Gateway::before(&batches, &backend);
    let lines: String = (0..200).map(|number| line(&format!("r{number}"), 10)).collect();
    let batch = create(&gateway, &upload(&gateway, &lines));
    let ended = await_status(&gateway, &batch, "completed");
    assert_eq!(ended["request_counts"]["completed"], 200, "{ended}");
    drop(gateway);
}

#[test]
fn x03_a_full_disk_is_reported_and_no_part_of_the_file_stays() {
    let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let place = place.join(format!("disk-{}", std::process::id()));
    let Some(disk) = Disk::mount(place, "8m") else { return };
    let gateway = Gateway::launch(&format!("[batch]\nfolder = \"{}\"\n", disk.0.display()));
    let mut call = begin(&gateway, 16 * MIB);
    for _ in 0..16 {
        // The gateway refuses the upload at some point.
        let _ = call.send(&vec![b'x'; MIB]);
    }
    let _ = call.send(AFTER.as_bytes());
    let answer = call.finish();
    assert_eq!((answer.status, answer.code().as_str()), (507, "storage_full"), "{}", answer.text());
    eventually("no drafts", || match fs::read_dir(disk.0.join("drafts")).unwrap().count() {
        0 => Ok(()),
        other => Err(other.to_string()),
    });
    let file = upload(&gateway, &line("x", 10));
    assert_eq!(file["object"], "file", "there is room again: {file}");
    drop(gateway);
}
