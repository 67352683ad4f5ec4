//! X03, X05: what the system lets the process have, and a clock that jumps.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::support::gateway::{config, fresh_file};
use crate::support::keys::Keys;
use crate::support::metrics::Metrics;
use crate::support::process::Process;
use crate::support::tools::{client, run, tool};
use crate::support::{Backend, Call, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// A gateway under a limit of the shell, such as `-n 256`, with its pages at an address of their
/// own.
fn limited(limit: &str, sections: &str, backends: &[&Backend]) -> Process {
    let file = fresh_file();
    let pages = "[admin]\nlisten = \"127.0.0.1:0\"\n";
    let named = ["one", "two"].into_iter().zip(backends.iter().map(|backend| backend.address()));
    let named: Vec<_> = named.collect();
    fs::write(&file, config(&format!("{sections}{pages}"), &named)).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]);
    command.args([env!("CARGO_BIN_EXE_tidegate"), "serve", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(&file).env_remove("TIDEGATE_SEED");
    let process = Process::run(command, &["listening on http://", "visibility on http://"]);
    eventually("ready", || match ask(process.addresses()[1], &HttpRequest::get("/ready")) {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    process
}

/// Two workers, and more places than files.
const MANY: &str = "[server]\nworkers = 2\n[controller]\nlower_bound_per_backend = 400\n\
                    watermark_per_backend = 400\nupper_bound_per_backend = 400\n";

fn ask(address: SocketAddr, request: &HttpRequest) -> u16 {
    Call::open(address, &request.bytes()).head().status
}

#[test]
fn x03_clients_take_no_more_files_than_the_process_may_open() {
    let backend = Backend::held();
    let gateway = limited("-n 256", MANY, &[&backend]);
    let [door, pages] = [gateway.addresses()[0], gateway.addresses()[1]];
    let told = "few connections of clients fit";
    gateway.await_log(told, 1);
    let status = Call::open(pages, &HttpRequest::get("/status").bytes()).finish().json();
    assert_eq!(status["connections"]["open_files_max"], 256);
    let most = status["connections"]["most"].as_u64().unwrap() as usize;
    assert!(status["findings"].to_string().contains("few_open_files"), "{status}");
    // Each of these has a connection to the backend, too.
    let served: Vec<Call> = (0..most).map(|_| Call::open(door, &chat("m").bytes())).collect();
    backend.await_held(most);
    // Further clients are told so at once, and the pages answer.
    let _crowd: Vec<Call> = (0..200).map(|_| Call::open(door, b"")).collect();
    assert_eq!(Call::open(door, b"").head().status, 503);
    assert_eq!(ask(pages, &HttpRequest::get("/health")), 200);
    assert_eq!(ask(pages, &HttpRequest::get("/metrics")), 200);
    backend.open();
    for call in served {
        assert_eq!(call.finish().status, 200);
    }
    let log = gateway.log();
    assert!(!log.contains("not accepted"), "{log}");
    assert_eq!(log.matches(told).count(), 1, "{log}");
}

/// Connections that do nothing have all places. Each further client hears so although it has sent a
/// request, and the operator sees why nobody is served.
#[test]
fn x03_m03_clients_beyond_connections_max_hear_so_and_are_counted() {
    let backend = Backend::quick();
    let gateway = limited("-n 1024", "[server]\nconnections_max = 4\n", &[&backend]);
    let [door, pages] = [gateway.addresses()[0], gateway.addresses()[1]];
    let idle = (0..4).map(|_| {
        let mut call = Call::open(door, &HttpRequest::get("/v1/models").bytes_kept());
        assert_eq!(call.answer().unwrap().status, 200);
        call
    });
    let idle: Vec<Call> = idle.collect();
    for _ in 0..20 {
        let long = chat("m").with("padding", "x".repeat(1 << 20));
        let response = Call::open(door, &long.bytes()).finish();
        assert_eq!((response.status, response.code().as_str()), (503, "overloaded"));
    }
    let found = eventually("found", || {
        let page = Call::open(pages, &HttpRequest::get("/status").bytes()).finish().json();
        let findings = page["findings"].as_array().cloned().unwrap_or_default();
        findings.into_iter().find(|one| one["subject"] == "overloaded").ok_or(page.to_string())
    });
    assert_eq!((&found["id"], &found["level"]), (&"requests_refused".into(), &"trouble".into()));
    assert!(found["text"].as_str().unwrap().starts_with("20 requests were not served"), "{found}");
    assert!(found["advice"].as_str().unwrap().contains("4 of 4 are open"), "{found}");
    drop(idle);
}

/// Whether the log blames a backend for the limit of the gateway.
fn assert_blameless(gateway: &Process) {
    let log = gateway.log();
    assert!(!log.contains("ejected") && !log.contains("Too many open files"), "{log}");
}

fn await_in_flight(pages: SocketAddr, count: usize) {
    eventually("in flight", || {
        let text = Call::open(pages, &HttpRequest::get("/metrics").bytes()).finish().text();
        match Metrics::read(&text).sum("tidegate_backend_in_flight") as usize {
            found if found == count => Ok(()),
            found => Err(found.to_string()),
        }
    });
}

/// Idle connections to one backend leave their files to another one.
#[test]
fn x03_idle_connections_to_backends_take_no_files_from_others() {
    let backends = [Backend::held(), Backend::held()];
    let gateway = limited("-n 256", MANY, &[&backends[0], &backends[1]]);
    let [door, pages] = [gateway.addresses()[0], gateway.addresses()[1]];
    let status = || Call::open(pages, &HttpRequest::get("/status").bytes()).finish().json();
    let most = status()["connections"]["most"].as_u64().unwrap() as usize;
    eventually("both ready", || match status()["backends_ready"].as_u64() {
        Some(2) => Ok(()),
        ready => Err(format!("{ready:?}")),
    });
    for (name, backend) in ["one", "two", "one"].into_iter().zip([0, 1, 0].map(|at| &backends[at]))
    {
        let request = chat("m").header("X-Target-Backend", name).bytes();
        let calls: Vec<Call> = (0..most).map(|_| Call::open(door, &request)).collect();
        backend.await_held(most);
        assert_eq!(ask(pages, &HttpRequest::get("/health")), 200);
        backend.release(most);
        for call in calls {
            assert_eq!(call.finish().status, 200);
        }
        eventually("closed", || match status()["connections"]["open"].as_u64() {
            Some(0) => Ok(()),
            open => Err(format!("{open:?}")),
        });
    }
    assert_blameless(&gateway);
}

/// One connection of HTTP/2 has more requests than there are files for backends: they wait for each
/// other, a critical one goes first, and neither the backend nor the pages suffer.
#[test]
fn x03_requests_wait_for_the_files_of_others_and_no_backend_is_blamed() {
    let backend = Backend::held();
    let gateway = limited("-n 256", MANY, &[&backend]);
    let [door, pages] = [gateway.addresses()[0], gateway.addresses()[1]];
    let body = fresh_file().with_file_name("body.json");
    fs::write(&body, chat("m").body).unwrap();
    let url = format!("http://{door}/v1/chat/completions");
    let load = ["-n", "300", "-c", "1", "-m", "300", "-d", body.to_str().unwrap(), &url];
    let mut load = tool("h2load").args(load).stdout(Stdio::piped()).spawn().unwrap();
    await_in_flight(pages, 300);
    gateway.await_log("requests wait for files", 1);
    // Of 256 files 64 are for the process itself, and half of the rest for clients.
    let held = 96;
    backend.await_held(held);
    let critical = Call::open(door, &chat("m").tag("critical").priority("critical").bytes());
    await_in_flight(pages, 301);
    // It may have been granted, and not wait for a file yet.
    backend.release(2);
    backend.await_seen(held + 2);
    assert!(backend.tags()[held..].contains(&"critical".to_owned()));
    backend.open();
    assert_eq!(critical.finish().status, 200);
    let mut printed = String::new();
    load.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    load.wait().unwrap();
    assert!(printed.contains("300 2xx"), "{printed}");
    assert_blameless(&gateway);
}

/// The bodies of waiting requests would be larger than the memory that the process may use.
#[test]
fn x03_bodies_are_refused_before_the_memory_of_the_process_is_used_up() {
    let backend = Backend::held();
    let gateway = limited("-d 900000", "[server]\nworkers = 1\n", &[&backend]);
    let [door, pages] = [gateway.addresses()[0], gateway.addresses()[1]];
    let refused = || {
        let text = Call::open(pages, &HttpRequest::get("/metrics").bytes()).finish().text();
        let metrics = Metrics::read(&text);
        metrics.sum_where("tidegate_requests_total", "outcome=\"overloaded\"") > 0.0
    };
    let large = chat("m").with("prompt", "word ".repeat(3 << 20)).bytes();
    let mut calls = Vec::new();
    for count in 0.. {
        // A refusal may close the connection while the body is sent.
        calls.extend(Call::try_open(door, &large));
        if refused() {
            break;
        }
        assert!(count < 60, "no body of 60 was refused");
    }
    // There is still room for small ones.
    let small = Call::open(door, &chat("m").tag("small").bytes());
    backend.open();
    assert_eq!(small.finish().status, 200);
    drop(calls);
}

/// The library that shifts the clock of a process, made in this folder.
fn clock_shift(folder: &std::path::Path) -> String {
    let library = folder.join("clock_shift.so");
    let source = client("clock_shift.c");
    run(tool("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl"));
    library.to_str().unwrap().to_owned()
}

/// This hour as accounts write it.
fn this_hour() -> String {
    run(tool("date").args(["--utc", "+%FT%H:00:00Z"])).trim().to_owned()
}

#[test]
fn x05_a_clock_that_jumps_gives_no_new_quota_and_keeps_no_old_one() {
    let usage = "{\"usage\":{\"prompt_tokens\":60,\"completion_tokens\":40}}";
    let backend = Backend::start(move |_| ScriptedResponse::json(200, usage));
    let keys = Keys::new();
    let [alpha, beta] = ["alpha", "beta"].map(|name| keys.tenant(name, name));
    let file = keys.file().with_file_name("usage.db");
    let tenant = |name| {
        format!("[[tenants]]\nname = {name:?}\ntokens_per_day = 100\non_quota = \"refuse\"\n")
    };
    let sections = format!(
        "{}{}{}[usage]\nfile = {file:?}\n[admin]\nwithout_key = \"all\"\n",
        keys.section(),
        tenant("alpha"),
        tenant("beta")
    );
    let folder = file.parent().unwrap();
    let (library, shift) = (clock_shift(folder), folder.join("shift"));
    let jump = |days: i64| {
        let next = folder.join("next");
        fs::write(&next, (days * 86_400).to_string()).unwrap();
        fs::rename(&next, &shift).unwrap();
    };
    jump(0);
    let began = this_hour();
    let text = config(&sections, &[("one", backend.address())]);
    let environment = [("LD_PRELOAD", &*library), ("CLOCK_SHIFT", shift.to_str().unwrap())];
    let gateway = Gateway::launch_in(&text, &environment);
    gateway.await_ready(1);
    let status = |key: &str| gateway.ask(&chat("m").key(key)).status;
    assert_eq!(status(&alpha), 200);
    eventually("charged", || match status(&alpha) {
        429 => Ok(()),
        other => Err(other.to_string()),
    });
    for days in [2, -2, 400, -20_000] {
        jump(days);
        assert_eq!(status(&alpha), 429, "{days} days");
        let quota = gateway.ask(&chat("m").key(&alpha));
        assert!(quota.retry_after() <= 86_400, "{days} days: {}", quota.retry_after());
    }
    jump(2);
    assert_eq!(status(&beta), 200);
    jump(0);
    let rows = gateway.ask(&HttpRequest::get("/usage")).json();
    let rows = rows["data"].as_array().unwrap();
    let mut hours = rows.iter().map(|row| row["hour"].as_str().unwrap());
    let last = this_hour();
    assert!(hours.all(|hour| hour >= &*began && hour <= &*last), "{rows:?}");
    assert!(rows.iter().any(|row| row["tenant"] == "beta"), "{rows:?}");
}
