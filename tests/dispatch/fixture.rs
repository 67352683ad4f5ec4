//! The fixture of most tests here: a real Redis with a queue, a dispatcher and a model server.
//!
//! Messages are written in the format of llm-d-async with plain Redis commands, so that the program
//! under test takes no part in it.

use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use crate::support::backend::Seen;
use crate::support::{
    Backend, HttpRequest, Process, Redis, ScriptedResponse, call, eventually, fresh_file,
};

/// The queue of these tests.
pub(super) const QUEUE: &str = "request-sortedset";

/// A dispatcher between Redis and a model server.
#[derive(Debug)]
pub(super) struct Fixture {
    pub(super) redis: Redis,
    pub(super) backend: Backend,
    pub(super) dispatcher: Dispatcher,
}

/// A running `tidegate dispatch`.
#[derive(Debug)]
pub(super) struct Dispatcher {
    pub(super) process: Process,
}

/// A configuration that retries quickly, with a gate that is always open.
pub(super) const QUICK: &str = "[dispatch]\nbackoff = \"20ms\"\nbackoff_max = \"200ms\"\n";
pub(super) const OPEN: &str =
    "[[dispatch.gates]]\nname = \"open\"\nkind = \"constant\"\ncapacity = 1000\nbaseline = 0.0\n";

/// A configuration of a dispatcher: the given sections, and one queue with these gates.
pub(super) fn config(sections: &str, gates: &str, redis: &Redis, target: SocketAddr) -> String {
    format!(
        "{sections}\n{OPEN}\n[dispatch.redis]\nurls = [\"{}\"]\n\
         [[dispatch.queues]]\nname = \"{QUEUE}\"\ntarget = \"http://{target}\"\n\
         gates = [{gates}]\n",
        redis.url()
    )
}

/// Seconds since 1970, the unit of deadlines.
pub(super) fn unix() -> u64 {
    UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// A message of llm-d-async.
pub(super) fn message(id: &str, deadline: u64) -> Value {
    json!({
        "internal": {"request_token": format!("{:032x}", id.len())},
        "request_kind": "redis",
        "data": {
            "id": id, "created": unix(), "deadline": deadline,
            "payload": {"model": "m", "mark": id, "messages": [{"role": "user", "content": id}]},
            "metadata": {"userid": "team-a"},
            "endpoint": "/v1/chat/completions",
        },
    })
}

/// Submits a message as a producer of llm-d-async does.
pub(super) fn submit(redis: &Redis, id: &str, deadline: u64) {
    submit_to(redis, QUEUE, &message(id, deadline));
}

pub(super) fn submit_to(redis: &Redis, queue: &str, message: &Value) {
    let id = message["data"]["id"].as_str().unwrap();
    let token = message["internal"]["request_token"].as_str().unwrap();
    let deadline = message["data"]["deadline"].to_string();
    redis.call(&["SET", &format!("request-active:{id}"), token, "EX", "1000"]);
    redis.call(&["ZADD", queue, &deadline, &message.to_string()]);
}

/// The results so far, oldest first.
pub(super) fn results(redis: &Redis) -> Vec<Value> {
    let lines = redis.call(&["LRANGE", "result-list", "0", "-1"]).texts();
    let read =
        |line: &String| serde_json::from_str(line).unwrap_or_else(|_| panic!("no result: {line}"));
    let mut results: Vec<Value> = lines.iter().map(read).collect();
    results.reverse();
    results
}

/// The number of pending messages.
pub(super) fn count(redis: &Redis) -> usize {
    redis.call(&["ZCARD", QUEUE]).texts()[0].parse().unwrap()
}

/// Waits for this number of results.
pub(super) fn await_results(redis: &Redis, count: usize) -> Vec<Value> {
    eventually("results", || {
        let results = results(redis);
        if results.len() >= count { Ok(results) } else { Err(format!("{} results", results.len())) }
    })
}

// === impl Fixture ===

impl Fixture {
    /// A queue whose messages go to a server with this script, through an open gate.
    pub(super) fn start(sections: &str, script: fn(&Seen) -> ScriptedResponse) -> Self {
        let (redis, backend) = (Redis::start(), Backend::start(script));
        let config = config(&format!("{QUICK}{sections}"), "\"open\"", &redis, backend.address());
        let dispatcher = Dispatcher::start(&config);
        Self { redis, backend, dispatcher }
    }
}

// === impl Dispatcher ===

impl Dispatcher {
    pub(super) fn start(config: &str) -> Self {
        let file = fresh_file();
        std::fs::write(&file, config).unwrap();
        let path = file.to_str().unwrap();
        let arguments = ["dispatch", "--config", path, "--listen", "127.0.0.1:0"];
        Self { process: Process::start(&arguments) }
    }

    pub(super) fn page(&self, path: &str) -> call::Response {
        self.ask(&HttpRequest::get(path))
    }

    pub(super) fn ask(&self, ask: &HttpRequest) -> call::Response {
        call::Call::open(self.process.address(), &ask.bytes()).finish()
    }

    /// The entry of a queue on `/dispatch`.
    pub(super) fn queue(&self, name: &str) -> Value {
        let page = self.page("/dispatch").json();
        let queues = page["queues"].as_array().unwrap().clone();
        queues.into_iter().find(|queue| queue["name"] == name).unwrap()
    }
}
