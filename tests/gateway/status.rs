//! M03: the diagnosis of a running gateway. Each staged incident is named from `/status` and from
//! `tidegate status` alone.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::gateway::{ONE, config, fresh_file};
use crate::support::keys::Keys;
use crate::support::queueing::succeed;
use crate::support::tls::Authority;
use crate::support::tools::{leave_out, run};
use crate::support::{
    Backend, Engine, Gateway, HttpRequest, Nowhere, Process, ScriptedResponse, chat, eventually,
};

/// The output and the exit code of `tidegate status`.
fn status(url: &str, key: &str) -> (String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.args(["status", "--url", url]).env("TIDEGATE_API_KEY", key);
    let output = output.output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap())
}

/// Waits for a finding about a subject, on the page and in the output of the command.
pub(super) fn named(gateway: &Gateway, (id, subject): (&str, &str), key: &str) -> Value {
    let found = eventually(id, || {
        let page = gateway.ask(&HttpRequest::get("/status").key(key)).json();
        let findings = page["findings"].as_array().cloned().unwrap_or_default();
        let wanted = |one: &Value| one["id"] == id && one["subject"] == subject;
        findings.into_iter().find(wanted).ok_or(page.to_string())
    });
    let (said, code) = status(&gateway.url(), key);
    let text = found["text"].as_str().unwrap();
    let start = text.split([':', ',']).next().unwrap();
    assert!(said.contains(start), "{start}: {said}");
    assert!(said.contains(found["advice"].as_str().unwrap()), "{said}");
    assert_eq!(code, if said.contains("\ntrouble: ") { 2 } else { 1 }, "{said}");
    found
}

#[test]
fn m03_the_numbers_of_the_status_are_those_of_the_metrics() {
    let backend = Backend::held();
    let sections = format!("{ONE}[queue]\nflow_by = [\"header:x-team\"]\n");
    let (gateway, running) =
        Gateway::occupied(&sections, &backend, &chat("m").header("x-team", "a"));
    let mut calls = vec![running];
    for (others, (team, band)) in
        [("a", "high"), ("b", "normal"), ("a", "normal")].into_iter().enumerate()
    {
        let ask = chat("m").header("x-team", team).priority(band);
        calls.push(gateway.enqueue(&ask, others));
    }
    let (page, metrics) = (gateway.get("/status").json(), gateway.metrics());
    let queue = &page["queue"];
    assert_eq!(queue["depth"], metrics.sum("nexus_queue_depth") as u64, "{page}");
    assert_eq!(queue["capacity"], metrics.sum("tidegate_queue_capacity") as u64);
    assert_eq!(queue["in_flight"], metrics.sum("tidegate_requests_in_flight") as u64);
    assert_eq!(page["stock"]["now"], metrics.sum("tidegate_backend_stock"));
    assert_eq!(page["stock"]["watermark"], metrics.sum("tidegate_watermark"));
    assert_eq!(page["stock"]["binding"], "watermark");
    let names: Vec<&Value> = page["bands"].as_array().unwrap().iter().map(|b| &b["name"]).collect();
    assert_eq!(names, ["critical", "high", "normal", "best_effort"]);
    assert_eq!(
        (&page["bands"][1]["waiting"], &page["bands"][2]["waiting"]),
        (&1.into(), &2.into())
    );
    let flow = &page["flows"][0];
    assert_eq!((&flow["name"], &flow["queue_depth"]), (&"a".into(), &2.into()), "{page}");
    assert_eq!((&flow["share"], &flow["fair_share"]), (&1.0.into(), &0.5.into()));
    assert!(flow["oldest_seconds"].as_f64().unwrap() > 0.0, "{flow}");
    assert_eq!(page["models"][0]["queue_depth"], 3);
    assert_eq!(page["level"], "ok", "{page}");
    assert_eq!(status(&gateway.url(), "").1, 0);
    backend.open();
    succeed(calls);
}

#[test]
fn m03_a_dead_backend_is_named() {
    let (one, two) = (Backend::quick(), Backend::quick());
    let gateway = Gateway::start(&config("", &[("one", one.address()), ("two", two.address())]));
    two.stop();
    let found = named(&gateway, ("backend_down", "two"), "");
    assert!(found["text"].as_str().unwrap().contains("refused"), "{found}");
    one.stop();
    eventually("no backend is ready", || {
        let page = gateway.get("/status").json();
        let is_named = page["findings"][0]["id"] == "no_backend_ready";
        if is_named && page["level"] == "trouble" { Ok(()) } else { Err(page.to_string()) }
    });
    assert_eq!(status(&gateway.url(), "").1, 2);
    let nowhere = Nowhere::reserve();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["status", "--url", &format!("http://{}", nowhere.address())]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("refused").count(), 1, "{said}");
}

/// What waits for a dead backend is not the fault of those who sent it.
#[test]
fn m03_what_waits_for_a_dead_backend_is_no_flood() {
    let backend = Backend::start(|_| ScriptedResponse::json(503, "{}"));
    let gateway = Gateway::before("", &backend);
    let calls: Vec<_> = (0..20).map(|_| gateway.send(&chat("m"))).collect();
    // Longer than a flood needs to be a finding.
    eventually("a while", || {
        let page = gateway.get("/status").json();
        assert!(!page["findings"].to_string().contains("one_flow"), "{page}");
        match page["queue"]["oldest_seconds"].as_f64() {
            Some(9.0..) if page["findings"][0]["id"] == "no_backend_ready" => Ok(()),
            _ => Err(page.to_string()),
        }
    });
    drop(calls);
}

/// After one response the router avoids it, so that response must be enough.
#[test]
fn m03_a_backend_with_slow_tokens_is_named_after_one_response() {
    let one = Backend::start(|_| ScriptedResponse::stream_paced(60, 20, true));
    let two = Backend::start(|_| ScriptedResponse::stream_paced(30, 120, true));
    let gateway = Gateway::start(&config("", &[("one", one.address()), ("two", two.address())]));
    let both: Vec<_> = (0..2).map(|_| gateway.send(&chat("m").streamed())).collect();
    let found = named(&gateway, ("backend_slow", "two"), "");
    let text = found["text"].as_str().unwrap();
    assert!(text.contains("a token takes") && text.contains("at its peers"), "{text}");
    drop(both);
}

#[test]
fn m03_a_slow_backend_is_named() {
    let one = Backend::start(|_| ScriptedResponse::ok().after_ms(2));
    let two = Backend::start(|_| ScriptedResponse::ok().after_ms(400));
    let gateway = Gateway::start(&config(ONE, &[("one", one.address()), ("two", two.address())]));
    succeed((0..4).map(|_| gateway.send(&chat("m"))).collect::<Vec<_>>());
    let found = named(&gateway, ("backend_slow", "two"), "");
    assert!(found["evidence"]["own_ms"].as_f64() > found["evidence"]["peers_ms"].as_f64());
}

/// It answers every request at once, and serves none.
#[test]
fn m03_a_backend_that_refuses_every_request_is_named() {
    let backend = Backend::start(|_| ScriptedResponse::json(401, "{}"));
    let gateway = Gateway::before("", &backend);
    for _ in 0..20 {
        assert_eq!(gateway.ask(&chat("m")).status, 401);
    }
    let found = named(&gateway, ("backend_refusing", "one"), "");
    assert_eq!((&found["level"], &found["evidence"]["status"]), (&"trouble".into(), &401.0.into()));
}

/// It has no peer, so its tokens are compared with the objective.
#[test]
fn m03_a_lone_backend_with_slow_tokens_is_named() {
    let backend = Backend::start(|_| ScriptedResponse::stream_paced(600, 60, true));
    let sections = "[controller]\nslo_tpot = \"20ms\"\n";
    let gateway = Gateway::before(sections, &backend);
    let streams: Vec<_> = (0..2).map(|_| gateway.send(&chat("m").streamed())).collect();
    let found = named(&gateway, ("backend_slow", "one"), "");
    let text = found["text"].as_str().unwrap();
    assert!(text.contains("a token takes") && text.contains("objective is 20 ms"), "{text}");
    drop(streams);
}

#[test]
fn m03_a_flooding_tenant_is_named() {
    let (backend, keys) = (Backend::held(), Keys::new());
    let (loud, quiet) = (keys.tenant("loud", "a"), keys.tenant("quiet", "b"));
    let admin = keys.make(&["--admin", "read", "--name", "operator"]);
    let early = keys.tenant("early", "c");
    let tenants = ["loud", "quiet", "early"].map(|name| format!("[[tenants]]\nname = {name:?}\n"));
    let others = "[queue]\nflow_by = [\"tenant\"]\n[[models]]\nname = \"unserved\"\n";
    let sections = format!("{ONE}{}{others}{}", keys.section(), tenants.concat());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    let flood: Vec<_> = (0..20).map(|_| gateway.send(&chat("m").key(&loud))).collect();
    let other = gateway.send(&chat("m").key(&quiet));
    named(&gateway, ("flow_floods", "loud"), &admin);
    // Requests that no backend can serve hide nothing.
    let unserved: Vec<_> = (0..40).map(|_| gateway.send(&chat("unserved").key(&early))).collect();
    eventually("named beside them", || {
        let found = named(&gateway, ("flow_floods", "loud"), &admin);
        let counted = "waiting requests that a backend can serve (";
        if found["text"].to_string().contains(counted) { Ok(()) } else { Err(found.to_string()) }
    });
    drop(unserved);
    assert_eq!(gateway.ask(&HttpRequest::get("/status").key(&loud)).status, 403);
    assert_eq!(gateway.ask(&HttpRequest::get("/status")).status, 401);
    assert_eq!(status(&gateway.url(), "wrong").1, 3, "it shows nothing without a key");
    backend.open();
    succeed(flood);
    succeed([other]);
}

#[test]
fn m03_a_wrong_watermark_is_named() {
    for (watermark, seqs, id) in
        [("30", "2", "watermark_too_high"), ("1", "8", "watermark_too_low")]
    {
        let engine =
            Engine::start(&["--model", "m", "--service-time", "500ms", "--max-num-seqs", seqs]);
        let sections = format!("[controller]\nwatermark_per_backend = {watermark}\n");
        let gateway = Gateway::start(&config(&sections, &[("one", engine.address())]));
        let calls: Vec<_> = (0..24).map(|_| gateway.send(&chat("m"))).collect();
        named(&gateway, (id, "one"), "");
        drop(calls);
    }
}

/// Submits a batch of so many requests.
fn submit(gateway: &Gateway, requests: usize) {
    let file = gateway.folder().join("work.jsonl");
    let body = r#""url":"/v1/chat/completions","body":{"model":"m","messages":[]}"#;
    let line = format!("{{\"custom_id\":\"ID\",\"method\":\"POST\",{body}}}");
    let lines: String =
        (1..=requests).map(|id| format!("{}\n", line.replace("ID", &id.to_string()))).collect();
    fs::write(&file, lines).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    run(command.args(["batch", "submit", "--url", &gateway.url()]).arg(&file));
}

#[test]
fn m03_a_closed_gate_is_named() {
    let backend = Backend::held();
    let sections = format!("{ONE}[batch]\nfolder = \"batches\"\n");
    let (gateway, running) = Gateway::occupied(&sections, &backend, &chat("m"));
    let waiting = gateway.enqueue(&chat("m"), 0);
    submit(&gateway, 9);
    let found = eventually("closed", || {
        let page = gateway.get("/status").json();
        let findings = page["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|one| one["id"] == "gate_closed").ok_or(page.to_string())
    });
    assert!(found["evidence"]["pending"].as_f64().unwrap() > 0.0, "{found}");
    // This gate stands in no file, so the advice names no section that has it.
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.contains("tidegate dispatch explain"), "{advice}");
    assert!(advice.contains("kind = \"gateway\""), "{advice}");
    // Beside an overload, which stands first, the gate is named as well.
    let flood: Vec<_> = (0..20).map(|_| gateway.send(&chat("m"))).collect();
    eventually("both", || {
        let page = gateway.get("/status").json();
        let sentence = page["sentence"].as_str().unwrap_or_default();
        let first = page["findings"][0]["id"] == "one_flow";
        let both = first && sentence.contains("batch requests wait (the gate gateway is closed)");
        if both { Ok(()) } else { Err(page.to_string()) }
    });
    backend.open();
    succeed(flood);
    succeed([running, waiting]);
}

/// The batch waits for the backend, so the backend is the cause and the gate is not.
#[test]
fn m03_a_dead_backend_is_named_before_the_gate_that_it_closes() {
    let backend = Backend::held();
    let sections = format!("{ONE}[batch]\nfolder = \"batches\"\n");
    let gateway = Gateway::before(&sections, &backend);
    submit(&gateway, 9);
    backend.await_held(1);
    backend.stop();
    let page = eventually("both", || {
        let page = gateway.get("/status").json();
        let findings = page["findings"].to_string();
        let both = findings.contains("no_backend_ready") && findings.contains("\"gate_");
        if both { Ok(page) } else { Err(page.to_string()) }
    });
    let sentence = page["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("No backend is ready (one: "), "{sentence}");
    assert!(sentence.contains("batch requests wait"), "{sentence}");
    assert!(sentence.contains("1 request waits until a backend is ready"), "{sentence}");
    assert!(!sentence.contains("no request waits"), "{sentence}");
}

#[test]
fn m03_one_flow_that_holds_all_requests_is_named() {
    let backend = Backend::held();
    let sections = format!("{ONE}[queue]\nslo_ttft = \"100ms\"\n");
    let (gateway, running) = Gateway::occupied(&sections, &backend, &chat("m"));
    let calls: Vec<_> = (0..20).map(|_| gateway.send(&chat("m"))).collect();
    let found = named(&gateway, ("one_flow", "m"), "");
    let text = found["text"].as_str().unwrap();
    assert!(text.starts_with("all 20 waiting requests are in one flow (m)"), "{text}");
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.contains("queue.flow_by") && advice.contains("[[tenants]]"), "{advice}");
    backend.open();
    succeed([running]);
    succeed(calls);
}

#[test]
fn m03_requests_that_expire_count_as_refused_of_their_flow() {
    let backend = Backend::held();
    let sections = format!("{ONE}[queue]\nflow_by = [\"header:x-team\"]\nqueue_ttl = \"100ms\"\n");
    let ask = |team: &str| chat("m").header("x-team", team);
    let (gateway, running) = Gateway::occupied(&sections, &backend, &ask("a"));
    let calls: Vec<_> = (0..3).map(|_| gateway.send(&ask("b"))).collect();
    assert!(calls.into_iter().all(|call| call.finish().status == 503));
    for path in ["/status", "/flows"] {
        let page = gateway.get(path).json();
        let flows = page["flows"].as_array().unwrap();
        let flow =
            flows.iter().find(|flow| flow["name"] == "b").unwrap_or_else(|| panic!("{page}"));
        assert_eq!(flow["refused"], 3, "{path}: {flow}");
    }
    backend.open();
    succeed([running]);
}

/// A file system of one megabyte. Only root can mount one.
struct Tiny(std::path::PathBuf);

impl Tiny {
    fn mount(folder: std::path::PathBuf) -> Option<Self> {
        fs::create_dir_all(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&folder);
        mount.output().is_ok_and(|output| output.status.success()).then(|| Self(folder))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        // The process that used it may end a moment later, so it is detached.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn m03_a_full_disk_is_named() {
    let (backend, keys) = (Backend::quick(), Keys::new());
    let Some(disk) = Tiny::mount(keys.file().with_file_name("tiny")) else {
        return leave_out("this takes the right to mount a small file system");
    };
    let admin = keys.make(&["--admin", "read", "--name", "operator"]);
    let alpha = keys.tenant("alpha", "a");
    let usage = disk.0.join("usage.db");
    let sections =
        format!("{}[usage]\nfile = {usage:?}\n[[tenants]]\nname = \"alpha\"\n", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    // The file system is full when no byte more can be written.
    let rest = vec![0; 2 << 20];
    assert!(fs::write(disk.0.join("rest"), rest).is_err());
    let found = eventually("full", || {
        assert_eq!(gateway.ask(&chat("m").key(&alpha)).status, 200, "requests need no file");
        let page = gateway.ask(&HttpRequest::get("/status").key(&admin)).json();
        let findings = page["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|one| one["id"] == "disk_full").ok_or(page.to_string())
    });
    assert_eq!(found["subject"], "usage.file", "{found}");
    assert!(found["text"].as_str().unwrap().contains(usage.to_str().unwrap()), "{found}");
    fs::remove_file(disk.0.join("rest")).unwrap();
    eventually("room", || {
        let page = gateway.ask(&HttpRequest::get("/status").key(&admin)).json();
        if page["level"] == "ok" { Ok(()) } else { Err(page.to_string()) }
    });
}

/// An upload that finds no room is refused, and the finding stays until there is room.
#[test]
fn m03_a_full_disk_of_batches_is_named_without_a_batch() {
    let (backend, folder) = (Backend::quick(), fresh_file().with_file_name("small"));
    let Some(disk) = Tiny::mount(folder) else {
        return leave_out("this takes the right to mount a small file system");
    };
    let sections = format!("[batch]\nfolder = {:?}\n", disk.0);
    let gateway = Gateway::start(&config(&sections, &[("one", backend.address())]));
    assert!(fs::write(disk.0.join("rest"), vec![0; 2 << 20]).is_err());
    let found = named(&gateway, ("disk_full", "batch.folder"), "");
    assert!(found["text"].as_str().unwrap().contains(disk.0.to_str().unwrap()), "{found}");
    let form = format!(
        "--XYZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--XYZ\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"in\"\r\n\r\n{}\r\n--XYZ--\r\n",
        "x".repeat(300_000)
    );
    let kind = "multipart/form-data; boundary=XYZ".to_owned();
    let headers = vec![("content-type".to_owned(), kind)];
    let upload = HttpRequest { headers, ..HttpRequest::post("/v1/files", form) };
    let refused = gateway.ask(&upload);
    assert_eq!((refused.status, refused.code().as_str()), (507, "storage_full"));
    let refusals = named(&gateway, ("requests_refused", "storage_full"), "");
    let advice = refusals["advice"].as_str().unwrap();
    assert!(advice.starts_with("See disk_full"), "{advice}");
    fs::remove_file(disk.0.join("rest")).unwrap();
    let page = eventually("room", || {
        let page = gateway.get("/status").json();
        let findings = page["findings"].to_string();
        if findings.contains("disk_full") { Err(findings) } else { Ok(page) }
    });
    assert!(page["recent"].to_string().contains("disk_full"), "it was so a moment ago: {page}");
    let (said, _) = status(&gateway.url(), "");
    assert!(said.contains(" s ago, it said: the disk is full: batch.folder"), "{said}");
}

/// The page at which a finding with this id is shown, or at which none is.
fn page_with(gateway: &Gateway, id: &str, wanted: bool) -> Value {
    eventually(id, || {
        let page = gateway.get("/status").json();
        let is_shown = page["findings"].to_string().contains(&format!("{id:?}"));
        if is_shown == wanted { Ok(page) } else { Err(page.to_string()) }
    })
}

#[test]
fn m03_a_changed_configuration_that_is_not_in_force_is_named() {
    let backend = Backend::quick();
    let gateway = Gateway::before(ONE, &backend);
    let write = |sections: &str| gateway.rewrite(&config(sections, &[("one", backend.address())]));
    write(&format!("{ONE}[queue]\nqueue_tll = \"5s\"\n"));
    let page = page_with(&gateway, "reload_failed", true);
    assert!(page["findings"][0]["text"].as_str().unwrap().contains("queue_tll"), "{page}");
    assert_eq!(status(&gateway.url(), "").1, 1);
    write(&format!("{ONE}[server]\nworkers = 3\n"));
    let page = page_with(&gateway, "restart_needed", true);
    assert_eq!(page["reload"]["awaits_restart"][0], "server.workers", "{page}");
    assert_eq!((&page["level"], &page["reload"]["problems_total"]), (&"ok".into(), &0.into()));
    write(ONE);
    page_with(&gateway, "restart_needed", false);
}

#[test]
fn m03_the_program_explains_a_finding_without_a_gateway() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let said = run(command.args(["explain", "gate_closed"]));
    assert!(said.starts_with("gate_closed\n\nBatch requests wait because"), "{said}");
}

/// Waits until a gateway whose pages need a key is ready.
fn await_backend(gateway: &Gateway) {
    eventually("ready", || match gateway.get("/ready") {
        ready if ready.status == 200 => Ok(()),
        other => Err(other.text()),
    });
}

#[test]
fn m03_a_quota_and_a_key_that_end_name_their_tenant() {
    let (backend, keys) = (Backend::quick(), Keys::new());
    let admin = keys.make(&["--admin", "read", "--name", "operator"]);
    let lab = keys.make(&["--tenant", "lab", "--name", "ci", "--expires", "2d"]);
    let tenant = "[[tenants]]\nname = \"lab\"\ntokens_per_day = 1\n";
    let sections = format!("{}{tenant}", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    await_backend(&gateway);
    assert_eq!(gateway.ask(&chat("m").key(&lab)).status, 200);
    let page = eventually("used up", || {
        let page = gateway.ask(&HttpRequest::get("/status").key(&admin)).json();
        let used_up = page["findings"].to_string().contains("quota_used_up");
        if used_up { Ok(page) } else { Err(page.to_string()) }
    });
    let findings = page["findings"].as_array().unwrap();
    let text = |id: &str| {
        let finding = findings.iter().find(|one| one["id"] == id);
        finding.unwrap_or_else(|| panic!("{page}"))["text"].as_str().unwrap().to_owned()
    };
    let quota = text("quota_used_up");
    let start = "lab has used its quota of 1 tokens a day; the next day begins in ";
    assert!(quota.starts_with(start), "{quota}");
    let key = text("key_expires");
    assert!(key.starts_with("the API key ci of lab expires in "), "{key}");
}

#[test]
fn m03_an_expired_certificate_is_named() {
    let backend = Backend::quick();
    let keyed = Authority::new("authority").issue_with(&["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let file = fresh_file();
    let [certificate, key] = ["old.crt", "old.key"].map(|name| file.with_file_name(name));
    fs::write(&certificate, keyed.certificate).unwrap();
    fs::write(&key, keyed.key).unwrap();
    // The status pages have an address of their own, without TLS.
    let sections = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\ntls = false\n\
         [server.tls]\ncert_file = {certificate:?}\nkey_file = {key:?}\n"
    );
    fs::write(&file, config(&sections, &[("one", backend.address())])).unwrap();
    let arguments = ["serve", "--config", file.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let words = ["listening on https://", "visibility on http://"];
    let gateway = Process::start_saying(&arguments, &words);
    let (said, code) = status(&format!("http://{}", gateway.addresses()[1]), "");
    assert_eq!(code, 2, "{said}");
    let named = format!("the certificate in {} expired on Wed, 01 Jan 2020", certificate.display());
    assert!(said.contains(&named), "{said}");
}

#[test]
fn m03_status_says_how_to_give_a_key() {
    let (backend, keys) = (Backend::quick(), Keys::new());
    let admin = keys.make(&["--admin", "read", "--name", "operator"]);
    let sections = format!("{}[[tenants]]\nname = \"lab\"\n", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    await_backend(&gateway);
    let key_file = gateway.folder().join("operator.key");
    let asked = |file: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["status", "--url", &gateway.url()]).env_remove("TIDEGATE_API_KEY");
        if file {
            command.arg("--key-file").arg(&key_file);
        }
        let output = command.output().unwrap();
        (String::from_utf8(output.stderr).unwrap(), output.status.code())
    };
    let (said, code) = asked(false);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("TIDEGATE_API_KEY") && said.contains("--key-file"), "{said}");
    let (said, code) = asked(true);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("operator.key: No such file"), "{said}");
    fs::write(&key_file, format!("{admin}\n")).unwrap();
    assert_eq!(asked(true), (String::new(), Some(0)));
    let refused = gateway.ask(&chat("m").key(&admin));
    assert!(refused.status == 401 && refused.text().contains("an admin key"), "{}", refused.text());
}
