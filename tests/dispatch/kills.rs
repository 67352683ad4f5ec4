//! kill -9 in a loop with small work: accepted work is lost by no kill, and none is done twice.
//!
//! A dozen kills run with the other tests. `make kills` runs thousands for each store; the
//! environment variables below set another number or a bound in time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{QUEUE, QUICK, config, count, results, submit, unix};
use super::pubsub;
use crate::support::{
    Backend, Call, HttpRequest, Process, Random, Redis, ScriptedResponse, Stopwatch, call,
    eventually, fresh_file,
};

/// How often each store's process is killed, and after how many minutes a run ends early.
const KILLS: &str = "KILLS";
const KILL_MINUTES: &str = "KILL_MINUTES";
const IN_CI: u64 = 12;
/// After so many kills the ledger is compared, and the next store begins empty.
const ROUND: u64 = 200;
/// The longest life of a process that is killed while it starts, and of one that works.
const START_MICROS: u64 = 60_000;
const WORK_MICROS: u64 = 15_000;
const WORKERS: usize = 4;
/// The kills of a round on Pub/Sub, and how long its server keeps a message for a subscriber that
/// says nothing.
const PUBSUB_ROUND: u64 = 40;
const PUBSUB_LEASE_SECONDS: f64 = 11.0;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    kills: u64,
    /// Kills after the process had begun to work on a message.
    at_work: u64,
    /// Messages or lines that were accepted. Each has one result, or the test fails.
    accepted: u64,
    /// Requests that the model server received for them.
    sent: u64,
    /// Messages with a second result. Only Pub/Sub has them: it takes a result and the end of a
    /// message in two calls.
    doubled: u64,
}

/// A program with a configuration that is started and killed again and again.
#[derive(Debug)]
struct Victim {
    verb: &'static str,
    file: PathBuf,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs rounds until the kills or the time are used up.
fn run(what: &str, round: fn(&mut Random, u64) -> Ledger) {
    let (wanted, minutes) = (number(KILLS).unwrap_or(IN_CI), number(KILL_MINUTES));
    let limit = Duration::from_secs(60 * minutes.unwrap_or(24 * 60));
    let (mut random, watch) = (Random::new(what), Stopwatch::start());
    let mut total = Ledger::default();
    while total.kills < wanted && watch.elapsed() < limit {
        let part = round(&mut random, ROUND.min(wanted - total.kills));
        total = Ledger {
            kills: total.kills + part.kills,
            at_work: total.at_work + part.at_work,
            accepted: total.accepted + part.accepted,
            sent: total.sent + part.sent,
            doubled: total.doubled + part.doubled,
        };
        let Ledger { kills, at_work, accepted, sent, doubled } = total;
        eprintln!(
            "{what}: {kills} kills, {at_work} of them at work; {accepted} accepted, {sent} sent, \
             0 lost, {doubled} doubled; {} s",
            watch.elapsed().as_secs()
        );
    }
    assert!(total.at_work > 0 && total.accepted > 0, "{total:?}: nothing was tried");
}

#[test]
fn d07_a_dispatcher_killed_again_and_again_loses_no_message_of_redis() {
    run("dispatcher on Redis", redis_round);
}

#[test]
fn d07_a_dispatcher_killed_again_and_again_loses_no_message_of_pubsub() {
    run("dispatcher on Pub/Sub", pubsub_round);
}

#[test]
fn d07_a_gateway_killed_again_and_again_loses_no_line_of_a_batch() {
    run("gateway with batches", batch_round);
}

fn redis_round(random: &mut Random, kills: u64) -> Ledger {
    let redis = Redis::start();
    let backend = Backend::start(|_| ScriptedResponse::ok().after_ms(5));
    let sections = format!("{QUICK}workers = {WORKERS}\nlease = \"1s\"\n");
    // A gate is shared by all dispatchers that are present, and a killed one seems present for some
    // seconds. Without a gate the next one works at once.
    let config = config(&sections, "", &redis, backend.address());
    let victim = Victim::new("dispatch", &config);
    let mut ledger = Ledger { kills, ..Ledger::default() };
    for _ in 0..kills {
        for _ in 0..=random.below(3) {
            submit(&redis, &format!("m{}", ledger.accepted), unix() + 6000);
            ledger.accepted += 1;
        }
        if random.below(3) == 0 {
            victim.killed_while_starting(random);
            continue;
        }
        let before = backend.seen().len();
        let mut process = victim.start();
        await_more(&backend, before);
        pause(random.below(WORK_MICROS));
        process.kill();
        ledger.at_work += 1;
    }
    let _last = victim.start();
    let total = ledger.accepted as usize;
    let results = eventually("a result of each message", || {
        let (results, pending) = (results(&redis), count(&redis));
        let state = format!("{} of {total} results, {pending} pending", results.len());
        if results.len() >= total && pending == 0 { Ok(results) } else { Err(state) }
    });
    let ids: BTreeSet<&str> = results.iter().filter_map(|result| result["id"].as_str()).collect();
    assert_eq!((results.len(), ids.len()), (total, total), "a message has two results");
    let claimed = redis.call(&["ZCARD", &format!("{QUEUE}:claims-idx")]).texts();
    assert_eq!(claimed, ["0"], "a claim outlives its message");
    ledger.check_sent(&backend)
}

/// The clock of the server jumps after each kill, so that the messages of the killed process come
/// back at once. The server forgets messages after ten minutes, so a round is short.
fn pubsub_round(random: &mut Random, kills: u64) -> Ledger {
    let (server, backend) =
        (pubsub::server(), Backend::start(|_| ScriptedResponse::ok().after_ms(5)));
    let sections = format!("{QUICK}workers = {WORKERS}\nlease = \"2s\"\n");
    let config = pubsub::config(&sections, "", &server, &backend);
    let victim = Victim::new("dispatch", &config);
    let kills = kills.min(PUBSUB_ROUND);
    let mut ledger = Ledger { kills, ..Ledger::default() };
    let mut requests = BTreeMap::new();
    for _ in 0..kills {
        for _ in 0..=random.below(3) {
            let id = format!("m{}", ledger.accepted);
            requests.insert(pubsub::submit(&server, &id, unix() + 6000), id);
            ledger.accepted += 1;
        }
        if random.below(3) == 0 {
            victim.killed_while_starting(random);
        } else {
            let before = backend.seen().len();
            let mut process = victim.start();
            await_more(&backend, before);
            pause(random.below(WORK_MICROS));
            process.kill();
            ledger.at_work += 1;
        }
        server.advance(PUBSUB_LEASE_SECONDS);
    }
    let _last = victim.start();
    let acknowledged = |events: &[Value]| {
        let acks = events.iter().filter(|event| event["call"] == "ack");
        acks.map(|event| event["message"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let events = eventually("the end of each message", || {
        let events = server.events();
        let ended = acknowledged(&events).len();
        if ended == requests.len() { Ok(events) } else { Err(format!("{ended} ended")) }
    });
    let mut results = Vec::new();
    for event in &events {
        if event["call"] == "publish" {
            let result: Value = event["data"].as_str().unwrap().parse().unwrap();
            results.push(result["id"].as_str().unwrap().to_owned());
        } else {
            let request = &requests[event["message"].as_str().unwrap()];
            assert!(results.contains(request), "{request} ended before its result: {events:?}");
        }
    }
    let ids: BTreeSet<&String> = results.iter().collect();
    assert_eq!(ids.len(), requests.len(), "a message has no result");
    ledger.doubled = (results.len() - ids.len()) as u64;
    ledger.check_sent(&backend)
}

fn batch_round(random: &mut Random, kills: u64) -> Ledger {
    let backend = Backend::start(|_| ScriptedResponse::ok().after_ms(5));
    let victim = Victim::new("serve", &batch_config(backend.address()));
    let (mut ledger, mut batches) = (Ledger { kills, ..Ledger::default() }, Vec::new());
    for number in 0..kills {
        let lines = 1 + random.below(4) as usize;
        // The first one is at work, so that no seed tries nothing.
        match if number == 0 { 2 } else { random.below(3) } {
            0 => victim.killed_while_starting(random),
            1 => {
                // The kill comes while the client uploads, creates, or just after.
                let mut process = victim.start();
                let address = process.address();
                let client = thread::spawn(move || create(address, lines));
                pause(random.below(START_MICROS));
                process.kill();
                batches.extend(client.join().unwrap().map(|id| (id, lines)));
            }
            _ => {
                let (mut process, before) = (victim.start(), backend.seen().len());
                let id = create(process.address(), lines).unwrap();
                batches.push((id, lines));
                await_more(&backend, before);
                pause(random.below(WORK_MICROS));
                process.kill();
                ledger.at_work += 1;
            }
        }
    }
    let last = victim.start();
    for (id, lines) in &batches {
        check_batch(last.address(), id, *lines);
        ledger.accepted += *lines as u64;
    }
    let ledger = ledger.check_sent(&backend);
    drop(last);
    fs::remove_dir_all(victim.folder()).unwrap();
    ledger
}

/// Waits until the model server has received more requests than these.
fn await_more(backend: &Backend, before: usize) {
    eventually("at work", || match backend.seen().len() {
        seen if seen > before => Ok(()),
        seen => Err(format!("{seen} requests")),
    });
}

/// A pause in microseconds, so that kills fall between any two steps of the process.
fn pause(micros: u64) {
    thread::park_timeout(Duration::from_micros(micros));
}

// === impl Ledger ===

impl Ledger {
    /// A kill repeats at most the requests that were in flight.
    fn check_sent(mut self, backend: &Backend) -> Self {
        self.sent = backend.seen().len() as u64;
        backend.stop();
        let most = self.accepted + self.kills * WORKERS as u64;
        assert!(self.sent >= self.accepted && self.sent <= most, "{self:?}");
        self
    }
}

// === impl Victim ===

impl Victim {
    fn new(verb: &'static str, config: &str) -> Self {
        let file = fresh_file();
        fs::write(&file, config).unwrap();
        Self { verb, file }
    }

    fn folder(&self) -> &Path {
        self.file.parent().unwrap()
    }

    fn arguments(&self) -> [&str; 5] {
        [self.verb, "--config", self.file.to_str().unwrap(), "--listen", "127.0.0.1:0"]
    }

    /// Starts it and waits until it listens.
    fn start(&self) -> Process {
        Process::start(&self.arguments())
    }

    /// Starts it and kills it before long, mostly before it listens.
    fn killed_while_starting(&self, random: &mut Random) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(self.arguments()).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        pause(random.below(START_MICROS));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

// === batches ===

fn batch_config(backend: SocketAddr) -> String {
    format!(
        "[batch]\nfolder = \"batch\"\n[dispatch]\nworkers = {WORKERS}\n\
         [[dispatch.queues]]\nname = \"batch\"\ngates = [\"open\"]\n\
         [[dispatch.gates]]\nname = \"open\"\nkind = \"constant\"\ncapacity = 1000\n\
         [controller]\nwatermark_per_backend = 100\n\
         [[backends]]\nid = \"one\"\nurl = \"http://{backend}\"\nmodels = [\"m\"]\n"
    )
}

fn ask(address: SocketAddr, request: &HttpRequest) -> Option<call::Response> {
    Call::try_open(address, &request.bytes()).ok()?.answer().ok()
}

/// Uploads a file of so many lines and makes a batch of it. Returns the id of the batch once the
/// gateway has accepted it.
fn create(address: SocketAddr, lines: usize) -> Option<String> {
    let line = |number: usize| {
        let body = json!({"model": "m", "messages": []});
        let (custom, url) = (format!("r{number}"), "/v1/chat/completions");
        json!({"custom_id": custom, "method": "POST", "url": url, "body": body}).to_string()
    };
    let lines: Vec<String> = (0..lines).map(line).collect();
    let form = format!(
        "--XYZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --XYZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n\
         {}\r\n--XYZ--\r\n",
        lines.join("\n")
    );
    let mut upload = HttpRequest::post("/v1/files", form);
    upload.headers = vec![("content-type".into(), "multipart/form-data; boundary=XYZ".into())];
    let file = ask(address, &upload)?;
    assert_eq!(file.status, 200, "{}", file.text());
    let wanted = json!({"input_file_id": file.json()["id"], "endpoint": "/v1/chat/completions",
        "completion_window": "24h"});
    let batch = ask(address, &HttpRequest::post("/v1/batches", wanted.to_string()))?;
    assert_eq!(batch.status, 200, "{}", batch.text());
    Some(batch.json()["id"].as_str().unwrap().to_owned())
}

/// Waits until a batch is complete, and compares its output with its input.
fn check_batch(address: SocketAddr, id: &str, lines: usize) {
    let page = |path: String| ask(address, &HttpRequest::get(&path)).unwrap();
    let batch = eventually("completed", || {
        let batch = page(format!("/v1/batches/{id}")).json();
        if batch["status"] == "completed" { Ok(batch) } else { Err(batch.to_string()) }
    });
    let output = page(format!("/v1/files/{}/content", batch["output_file_id"].as_str().unwrap()));
    let output = output.text();
    let results: Vec<Value> = output.lines().map(|line| line.parse().unwrap()).collect();
    let ids: BTreeSet<&str> =
        results.iter().filter_map(|result| result["custom_id"].as_str()).collect();
    assert_eq!((results.len(), ids.len()), (lines, lines), "{id}: {output}");
}
