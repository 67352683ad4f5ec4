//! Google's own fake of Pub/Sub for one test, on a free port. It ends with its owner. A test tells
//! it in lines of JSON what to do (`tests/clients/pubsub_server`); nothing here uses Tidegate's
//! code.
//!
//! The tests of `crates/store` use this file, too.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// The project of all tests.
pub(crate) const PROJECT: &str = "tests";

/// A server.
#[derive(Debug)]
pub(crate) struct PubSub {
    server: Child,
    address: String,
    lines: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

/// The whole name of a topic.
pub(crate) fn topic(id: &str) -> String {
    format!("projects/{PROJECT}/topics/{id}")
}

/// The whole name of a subscription.
pub(crate) fn subscription(id: &str) -> String {
    format!("projects/{PROJECT}/subscriptions/{id}")
}

// === impl PubSub ===

impl PubSub {
    /// A server without topics.
    pub(crate) fn start() -> Self {
        let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let program = folders
            .map(|folder| folder.join(".tools/pubsub_server/pubsub_server"))
            .find(|program| program.exists());
        let Some(program) = program else {
            panic!("Google's fake of Pub/Sub is not there: run tools/setup.sh")
        };
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let input = server.stdin.take().unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let mut address = String::new();
        output.read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        Self { server, address, lines: Mutex::new((input, output)) }
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn tell(&self, command: &Value) -> Value {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, output) = &mut *lines;
        writeln!(input, "{command}").unwrap();
        let mut reply = String::new();
        output.read_line(&mut reply).unwrap();
        let reply: Value = serde_json::from_str(&reply).unwrap_or_else(|_| panic!("{reply:?}"));
        assert_eq!(reply.get("error"), None, "{command}");
        reply
    }

    /// Creates a topic.
    pub(crate) fn create_topic(&self, id: &str) {
        self.tell(&json!({"do": "topic", "topic": topic(id)}));
    }

    /// Creates a topic and its subscription, with the same id. Messages that were delivered many
    /// times go to the topic `forwarded`, so that deliveries are counted.
    pub(crate) fn create_queue(&self, id: &str) {
        self.create_topic(id);
        self.tell(&json!({
            "do": "subscription", "subscription": subscription(id), "topic": topic(id),
            "ackSeconds": 10, "deadLetters": topic("forwarded"), "attempts": 100,
        }));
    }

    /// Publishes a message; returns its id.
    pub(crate) fn publish(&self, to: &str, data: &str, attributes: &Value) -> String {
        let command =
            json!({"do": "publish", "topic": topic(to), "data": data, "attributes": attributes});
        self.tell(&command)["id"][0].as_str().unwrap().to_owned()
    }

    /// What was published by calls, and acknowledged, in this order.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.tell(&json!({"do": "events"})).as_array().unwrap().clone()
    }

    /// All messages, with their deliveries and acknowledgements.
    pub(crate) fn messages(&self) -> Vec<Value> {
        self.tell(&json!({"do": "messages"})).as_array().unwrap().clone()
    }

    /// What was published to a topic by calls, as JSON.
    pub(crate) fn published(&self, id: &str) -> Vec<Value> {
        let events = self.events().into_iter();
        let of_topic = events.filter(|event| event["topic"] == topic(id));
        of_topic
            .map(|event| serde_json::from_str(event["data"].as_str().unwrap()).unwrap())
            .collect()
    }

    /// Lets the clock of the server jump ahead.
    pub(crate) fn advance(&self, seconds: f64) {
        self.tell(&json!({"do": "advance", "seconds": seconds}));
    }

    /// Lets a call such as `Publish` fail with a code of gRPC, until this is called with 0.
    pub(crate) fn fail(&self, call: &str, code: u32) {
        self.tell(&json!({"do": "fail", "call": call, "code": code}));
    }
}

impl Drop for PubSub {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
