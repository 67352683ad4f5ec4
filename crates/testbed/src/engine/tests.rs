//! The stand-in engine from outside, over raw sockets: whatever a library would smooth over shows.

mod faults;
mod pace;
mod surface;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::{Engine, Pace, Running, Settings, TokenPace};

/// Long beyond anything that should happen, short of a hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came back.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

/// An engine that is as fast as it can be.
fn fast() -> Settings {
    let pace =
        TokenPace { first_token: Duration::ZERO, between: Duration::ZERO, ..TokenPace::default() };
    Settings { models: vec!["m".into()], pace: Pace::Tokens(pace), ..Settings::default() }
}

fn start(settings: Settings) -> Running {
    Engine::start(settings).unwrap()
}

/// Sends a request and leaves the answer to be read.
fn send(engine: &Running, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(engine.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let request = format!(
        "{head}\r\nhost: engine\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// All bytes of the answer, or how it broke.
fn raw(engine: &Running, head: &str, body: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    send(engine, head, body).read_to_end(&mut bytes).map(|_| bytes)
}

fn ask(engine: &Running, head: &str, body: &str) -> Reply {
    read(send(engine, head, body))
}

fn get(engine: &Running, path: &str) -> Reply {
    ask(engine, &format!("GET {path} HTTP/1.1"), "")
}

fn post(engine: &Running, path: &str, body: &str) -> Reply {
    ask(engine, &format!("POST {path} HTTP/1.1"), body)
}

fn chat(engine: &Running, rest: &str) -> Reply {
    post(engine, "/v1/chat/completions", &chat_body(rest))
}

fn chat_body(rest: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hello there"}}]{rest}}}"#)
}

/// Reads an answer to its end and takes the chunks apart.
fn read(stream: TcpStream) -> Reply {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "the head ends early: {head:?}");
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.contains("transfer-encoding: chunked");
    let mut body = Vec::new();
    let mut left = if chunked { 1 } else { 0 };
    while left > 0 {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        left = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; left + 2];
        reader.read_exact(&mut chunk).unwrap();
        body.extend_from_slice(&chunk[..left]);
    }
    reader.read_to_end(&mut body).unwrap();
    Reply { status, head, body: String::from_utf8(body).unwrap() }
}

/// Waits until the engine has seen something: it counts on its own thread.
fn until(engine: &Running, seen: impl Fn(&super::Counters) -> bool) -> super::Counters {
    let mut counters = engine.control().counters();
    let mut looks = 0u32;
    while !seen(&counters) {
        looks += 1;
        assert!(looks < 2_000, "it never came to that: {counters:?}");
        // Each look is a round trip through the engine, which is what is waited for.
        assert_eq!(get(engine, "/health").status, 200);
        counters = engine.control().counters();
    }
    counters
}

// === impl Reply ===

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The events of a stream without `[DONE]`, which must be its last.
    fn events(&self) -> Vec<Value> {
        let mut data: Vec<&str> =
            self.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{}", self.body);
        data.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// The lines of an Ollama stream.
    fn lines(&self) -> Vec<Value> {
        self.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
