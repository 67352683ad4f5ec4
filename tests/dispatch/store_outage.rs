//! Stores that are unavailable: other requests are served meanwhile, and messages continue when the
//! store is back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::fixture::{
    Dispatcher, Fixture, OPEN, QUEUE, QUICK, await_results, config, results, submit, unix,
};
use crate::support::tools::leave_out;
use crate::support::{
    Backend, Gateway, Redis, ScriptedResponse, Stopwatch, call, chat, eventually, fresh_file,
};

/// A small disk without free space, if this user may mount one.
#[derive(Debug)]
struct FullDisk(PathBuf);

// === impl FullDisk ===

impl FullDisk {
    fn mount() -> Option<Self> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let place = place.join(format!("full-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tidegate-test"]).arg(&place);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            leave_out("a small disk cannot be mounted here");
            return None;
        }
        let disk = Self(place);
        // The write fills the disk and fails.
        let full = fs::write(disk.ballast(), vec![0; 8 << 20]);
        assert!(full.is_err(), "8 MB do not fit into 4");
        Some(disk)
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        // A lazy unmount: open files stay usable.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Asserts a response that asks the client to try again later.
fn assert_unavailable(answer: &call::Response) {
    answer.refused(503, "store_unavailable");
    assert!(answer.retry_after() > 0);
}

#[test]
fn a_gateway_serves_while_redis_is_unavailable_and_sends_when_it_is_back() {
    let (mut redis, backend) = (Redis::start(), Backend::start(|_| ScriptedResponse::ok()));
    redis.kill();
    let sections = format!(
        "{QUICK}{OPEN}\n[dispatch.redis]\nurls = [\"{}\"]\n\
         [[dispatch.queues]]\nname = \"{QUEUE}\"\ngates = [\"open\"]\n\
         [[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"m\"]\n",
        redis.url(),
        backend.address()
    );
    let gateway = Gateway::start(&sections);
    assert_eq!(gateway.ask(&chat("m")).status, 200, "an interactive request needs no queue");
    let text = gateway.get("/dispatch.txt").text();
    assert!(text.contains("store unavailable") && text.contains("127.0.0.1"), "{text}");
    assert_unavailable(&gateway.get(&format!("/dispatch/dead?queue={QUEUE}")));
    gateway.process.await_log("Redis", 1);
    redis.restart();
    submit(&redis, "later", unix() + 600);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
    eventually("no trouble", || match gateway.get("/dispatch").json() {
        page if page["trouble"] == serde_json::json!([]) => Ok(()),
        page => Err(page.to_string()),
    });
}

#[test]
fn a_dispatcher_waits_for_redis_and_is_ready_when_it_is_back() {
    let (mut redis, backend) = (Redis::start(), Backend::start(|_| ScriptedResponse::ok()));
    redis.kill();
    let dispatcher = Dispatcher::start(&config(QUICK, "\"open\"", &redis, backend.address()));
    assert_unavailable(&dispatcher.page("/ready"));
    let health = dispatcher.page("/health");
    assert_eq!((health.status, &health.json()["status"]), (200, &"store_unavailable".into()));
    redis.restart();
    eventually("ready", || match dispatcher.page("/ready").status {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    submit(&redis, "later", unix() + 600);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
}

/// An operator who empties Redis deletes its messages. Those that come later have their results.
#[test]
fn d07_after_redis_was_emptied_later_messages_have_their_results() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok().held());
    submit(&fixture.redis, "in flight", unix() + 600);
    fixture.backend.await_running(1);
    fixture.redis.call(&["FLUSHALL"]);
    fixture.backend.open();
    for number in 0..5 {
        submit(&fixture.redis, &format!("later-{number}"), unix() + 600);
    }
    eventually("five results", || {
        let found = results(&fixture.redis);
        let later = found.iter().filter(|result| result.to_string().contains("later-")).count();
        if later == 5 { Ok(()) } else { Err(format!("{found:?}")) }
    });
    assert_eq!(fixture.dispatcher.page("/ready").status, 200);
}

#[test]
fn an_unavailable_redis_is_reported_and_the_shutdown_does_not_wait_for_it() {
    let mut fixture = Fixture::start("", |_| ScriptedResponse::ok().held());
    submit(&fixture.redis, "in flight", unix() + 600);
    fixture.backend.await_running(1);
    fixture.redis.kill();
    let text = fixture.dispatcher.page("/dispatch.txt").text();
    assert!(text.contains("counts unknown, 1 claimed by this process"), "{text}");
    assert!(text.contains("nothing is sent: "), "{text}");
    let page = fixture.dispatcher.queue(QUEUE);
    assert!(page["pending"].is_null() && page["trouble"].is_string(), "{page}");
    let watch = Stopwatch::start();
    fixture.dispatcher.process.signal("TERM");
    assert!(fixture.dispatcher.process.exit().success());
    // The limit is 4 s; the timeouts of the parts add up to 10 s.
    assert!(watch.elapsed() < Duration::from_secs(8), "{:?}", watch.elapsed());
}

#[test]
fn a_dispatcher_without_claims_ends_at_once_while_redis_is_unavailable() {
    let mut fixture = Fixture::start("", |_| ScriptedResponse::ok());
    fixture.redis.kill();
    eventually("trouble", || match fixture.dispatcher.page("/ready").status {
        503 => Ok(()),
        other => Err(other.to_string()),
    });
    let watch = Stopwatch::start();
    fixture.dispatcher.process.signal("TERM");
    assert!(fixture.dispatcher.process.exit().success());
    // The limit is half a second; with claims to release it would be 4 s.
    assert!(watch.elapsed() < Duration::from_secs(3), "{:?}", watch.elapsed());
    let log = fixture.dispatcher.process.log();
    assert!(!log.contains("the shutdown took too long"), "{log}");
}

#[test]
fn a_silent_redis_makes_the_dead_letters_unavailable() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    fixture.redis.call(&["CLIENT", "PAUSE", "60000"]);
    let watch = Stopwatch::start();
    assert_unavailable(&fixture.dispatcher.page(&format!("/dispatch/dead?queue={QUEUE}")));
    // The limit is 2 s; the retries of the store would take more than 9 s.
    assert!(watch.elapsed() < Duration::from_secs(6), "{:?}", watch.elapsed());
}

/// The Redis user does not exist at first.
#[test]
fn the_settings_of_redis_are_checked_after_an_operator_corrects_it() {
    let mut redis = Redis::start_with(&["--appendonly", "no"]);
    redis.kill();
    let backend = Backend::start(|_| ScriptedResponse::ok());
    let sections = config(QUICK, "\"open\"", &redis, backend.address());
    let dispatcher = Dispatcher::start(&sections.replace("redis://", "redis://bob:secret@"));
    redis.restart();
    dispatcher.process.await_log("Redis does not match the configuration", 1);
    redis.call(&["ACL", "SETUSER", "bob", "on", ">secret", "~*", "&*", "+@all"]);
    let log = dispatcher.process.await_log("appendonly no", 1);
    assert_eq!(log.matches("does not match the configuration").count(), 1, "{log}");
}

/// The dispatcher keeps the response and does not send the request again. The lease is a minute, so
/// it does not expire within this test.
#[test]
fn d07_a_response_during_an_outage_of_redis_is_stored_when_it_is_back() {
    let redis = Redis::start_with(&["--appendfsync", "always"]);
    let backend = Backend::held();
    let sections = config(QUICK, "\"open\"", &redis, backend.address());
    let mut fixture = Fixture { dispatcher: Dispatcher::start(&sections), redis, backend };
    submit(&fixture.redis, "patient", unix() + 600);
    fixture.backend.await_running(1);
    fixture.redis.kill();
    fixture.backend.open();
    fixture.dispatcher.process.await_log("a result waits for the store", 1);
    fixture.redis.restart();
    assert_eq!(await_results(&fixture.redis, 1)[0]["status_code"], 200);
    assert_eq!(fixture.backend.seen().len(), 1, "the request was sent once");
}

#[test]
fn an_unreachable_target_is_logged_once_with_its_reason() {
    let backend = Backend::start(|_| ScriptedResponse::ok());
    let (redis, target) = (Redis::start(), backend.address());
    drop(backend);
    let dispatcher = Dispatcher::start(&config(QUICK, "\"open\"", &redis, target));
    for number in 0..5 {
        submit(&redis, &number.to_string(), unix() + 600);
    }
    eventually("congested", || match dispatcher.queue(QUEUE) {
        queue if queue["ends"]["congested"].as_u64() >= Some(10) => Ok(()),
        queue => Err(queue.to_string()),
    });
    let queue = dispatcher.queue(QUEUE);
    let why = queue["overload"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("refused"), "{queue}");
    let text = dispatcher.page("/dispatch.txt").text();
    assert!(text.contains(&format!("the target refuses requests: {why}")), "{text}");
    let log = dispatcher.process.await_log("the target refuses messages", 1);
    assert_eq!(log.matches("the target refuses messages").count(), 1, "{log}");
}

#[test]
fn x03_a_gateway_serves_while_the_disk_of_its_batches_is_full() {
    let Some(disk) = FullDisk::mount() else { return };
    let backend = Backend::start(|_| ScriptedResponse::ok());
    let sections = format!(
        "[batch]\nfolder = \"{}\"\n\
         [[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"m\"]\n",
        disk.0.join("batch").display(),
        backend.address()
    );
    let gateway = Gateway::start(&sections);
    assert_eq!(gateway.ask(&chat("m")).status, 200, "an interactive request needs no disk");
    let unavailable = gateway.get("/v1/batches");
    assert_unavailable(&unavailable);
    let folder = disk.0.to_str().unwrap();
    assert!(
        !unavailable.text().contains(folder),
        "clients do not see the folder: {}",
        unavailable.text()
    );
    let text = gateway.get("/dispatch.txt").text();
    assert!(text.contains("store unavailable") && text.contains(folder), "{text}");
    fs::remove_file(disk.ballast()).unwrap();
    eventually("the Batch API", || match gateway.get("/v1/batches").status {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    drop(gateway);
}

#[test]
fn a_folder_that_is_a_file_or_in_use_is_an_error_at_the_start() {
    let said = |folder: &Path| {
        let arguments = ["serve", "--batch", folder.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(arguments).output().unwrap();
        assert!(!output.status.success(), "{folder:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let file = fresh_file();
    fs::write(&file, "something else").unwrap();
    let wrong = said(&file);
    assert!(wrong.contains(file.to_str().unwrap()), "{wrong}");
    let folder = file.parent().unwrap().join("batch");
    let sections = format!("[batch]\nfolder = \"{}\"\n", folder.display());
    let _first = Gateway::launch(&sections);
    let second = said(&folder);
    assert!(second.contains("in use by another process"), "{second}");
}
