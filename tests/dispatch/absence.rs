//! Stores that are away when the process starts: whoever does not need them is served, and what
//! waits goes on when they come.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::yard::{Dispatcher, OPEN, QUEUE, QUICK, Yard, await_results, config, submit, unix};
use crate::support::{
    Answer, Backend, Gateway, Redis, Stopwatch, call, chat, eventually, fresh_file,
};

/// A small disk with no room on it, where whoever runs the tests may have one.
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
            eprintln!("not checked: a small disk cannot be mounted here");
            return None;
        }
        let disk = Self(place);
        // It takes what fits and then says that there is no room.
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
        // Whoever still has a file open there keeps it until the end.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Says that it cannot now, and when to try again.
fn assert_away(answer: &call::Response) {
    answer.refused(503, "store_unavailable");
    assert!(answer.retry_after() > 0);
}

#[test]
fn a_gateway_serves_while_redis_is_away_and_sends_when_it_comes() {
    let (mut redis, backend) = (Redis::start(), Backend::start(|_| Answer::ok()));
    redis.kill();
    let sections = format!(
        "{QUICK}{OPEN}\n[dispatch.redis]\nurls = [\"{}\"]\n\
         [[dispatch.queues]]\nname = \"{QUEUE}\"\ngates = [\"open\"]\n\
         [[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"m\"]\n",
        redis.url(),
        backend.address()
    );
    let gateway = Gateway::start(&sections);
    assert_eq!(gateway.ask(&chat("m")).status, 200, "who asks now needs no queue");
    let text = gateway.get("/dispatch.txt").text();
    assert!(text.contains("cannot be used") && text.contains("127.0.0.1"), "{text}");
    assert_away(&gateway.get(&format!("/dispatch/dead?queue={QUEUE}")));
    assert!(gateway.process.log().contains("Redis"), "{}", gateway.process.log());
    redis.restart();
    submit(&redis, "later", unix() + 600);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
    eventually("no trouble", || match gateway.get("/dispatch").json() {
        page if page["trouble"] == serde_json::json!([]) => Ok(()),
        page => Err(page.to_string()),
    });
}

#[test]
fn a_dispatcher_waits_for_redis_and_is_ready_when_it_comes() {
    let (mut redis, backend) = (Redis::start(), Backend::start(|_| Answer::ok()));
    redis.kill();
    let dispatcher = Dispatcher::start(&config(QUICK, "\"open\"", &redis, backend.address()));
    assert_away(&dispatcher.page("/ready"));
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

#[test]
fn a_redis_that_goes_away_is_told_and_the_end_does_not_wait_for_it() {
    let mut yard = Yard::start("", |_| Answer::ok().held());
    submit(&yard.redis, "under way", unix() + 600);
    yard.backend.await_running(1);
    yard.redis.kill();
    let text = yard.dispatcher.page("/dispatch.txt").text();
    assert!(text.contains("nobody knows how many wait, 1 are under way"), "{text}");
    assert!(text.contains("nothing goes while its store cannot be used"), "{text}");
    let page = yard.dispatcher.queue(QUEUE);
    assert!(page["pending"].is_null() && page["trouble"].is_string(), "{page}");
    let watch = Stopwatch::start();
    yard.dispatcher.process.signal("TERM");
    assert!(yard.dispatcher.process.exit().success());
    // It is 4 s; what each of its parts would wait for makes 10.
    assert!(watch.elapsed() < Duration::from_secs(8), "{:?}", watch.elapsed());
}

#[test]
fn a_dispatcher_that_holds_nothing_ends_at_once_though_redis_is_away() {
    let mut yard = Yard::start("", |_| Answer::ok());
    yard.redis.kill();
    eventually("trouble", || match yard.dispatcher.page("/ready").status {
        503 => Ok(()),
        other => Err(other.to_string()),
    });
    let watch = Stopwatch::start();
    yard.dispatcher.process.signal("TERM");
    assert!(yard.dispatcher.process.exit().success());
    // It is half a second; with something to hand back it would be 4.
    assert!(watch.elapsed() < Duration::from_secs(3), "{:?}", watch.elapsed());
    let log = yard.dispatcher.process.log();
    assert!(!log.contains("the end took too long"), "{log}");
}

#[test]
fn a_redis_that_says_nothing_is_told_to_whoever_asks_for_the_dead() {
    let yard = Yard::start("", |_| Answer::ok());
    yard.redis.call(&["CLIENT", "PAUSE", "60000"]);
    let watch = Stopwatch::start();
    assert_away(&yard.dispatcher.page(&format!("/dispatch/dead?queue={QUEUE}")));
    // It is 2 s; what the store would try makes more than 9.
    assert!(watch.elapsed() < Duration::from_secs(6), "{:?}", watch.elapsed());
}

/// It does not know its user at first.
#[test]
fn a_redis_that_is_mended_after_it_came_is_asked_how_it_is_set() {
    let mut redis = Redis::start_with(&["--appendonly", "no"]);
    redis.kill();
    let backend = Backend::start(|_| Answer::ok());
    let sections = config(QUICK, "\"open\"", &redis, backend.address());
    let dispatcher = Dispatcher::start(&sections.replace("redis://", "redis://bob:secret@"));
    let await_words = |words: &str| {
        eventually(words, || match dispatcher.process.log() {
            log if log.contains(words) => Ok(()),
            log => Err(log),
        });
    };
    redis.restart();
    await_words("Redis is not as it is configured here");
    redis.call(&["ACL", "SETUSER", "bob", "on", ">secret", "~*", "&*", "+@all"]);
    await_words("appendonly no");
    let log = dispatcher.process.log();
    assert_eq!(log.matches("not as it is configured").count(), 1, "{log}");
}

/// What was answered meanwhile is kept here and not asked for again: the lease is a minute, by the
/// end of which nobody would wait for this test.
#[test]
fn d07_an_answer_that_redis_missed_is_kept_when_it_is_back() {
    let redis = Redis::start_with(&["--appendfsync", "always"]);
    let backend = Backend::held();
    let sections = config(QUICK, "\"open\"", &redis, backend.address());
    let mut yard = Yard { dispatcher: Dispatcher::start(&sections), redis, backend };
    submit(&yard.redis, "patient", unix() + 600);
    yard.backend.await_running(1);
    yard.redis.kill();
    yard.backend.open();
    eventually("an answer that waits", || {
        let log = yard.dispatcher.process.log();
        if log.contains("a result waits until the store can take it") { Ok(()) } else { Err(log) }
    });
    yard.redis.restart();
    assert_eq!(await_results(&yard.redis, 1)[0]["status_code"], 200);
    assert_eq!(yard.backend.seen().len(), 1, "it was asked for once");
}

#[test]
fn a_target_that_is_away_is_told_once_with_its_reason() {
    let backend = Backend::start(|_| Answer::ok());
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
    assert!(text.contains(&format!("its target takes no more: {why}")), "{text}");
    let log = dispatcher.process.log();
    assert_eq!(log.matches("the target takes no more").count(), 1, "{log}");
}

#[test]
fn x03_a_gateway_serves_while_the_disk_of_its_batches_is_full() {
    let Some(disk) = FullDisk::mount() else { return };
    let backend = Backend::start(|_| Answer::ok());
    let sections = format!(
        "[batch]\nfolder = \"{}\"\n\
         [[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"m\"]\n",
        disk.0.join("batch").display(),
        backend.address()
    );
    let gateway = Gateway::start(&sections);
    assert_eq!(gateway.ask(&chat("m")).status, 200, "who asks now needs no disk");
    let away = gateway.get("/v1/batches");
    assert_away(&away);
    let folder = disk.0.to_str().unwrap();
    assert!(!away.text().contains(folder), "it is nobody's business: {}", away.text());
    let text = gateway.get("/dispatch.txt").text();
    assert!(text.contains("cannot be used") && text.contains(folder), "{text}");
    fs::remove_file(disk.ballast()).unwrap();
    eventually("the Batch API", || match gateway.get("/v1/batches").status {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    drop(gateway);
}

#[test]
fn a_folder_that_cannot_be_one_or_is_in_use_is_told_at_the_start() {
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
