//! An ext_proc stream of a test with a picker: message by message, in any order, right or wrong.
//!
//! The messages are made and read by the protocol's official Python package, so that a mistake in
//! our own reading of the protocol cannot agree with itself.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use serde_json::{Value, json};

use super::http_request::HttpRequest;
use super::tools::python;
use super::wait::BOUND;

/// A connection to a picker.
#[derive(Debug)]
pub(crate) struct ExtProcStream {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Messages of streams that the test has not read yet.
    kept: Vec<Value>,
    streams: usize,
}

/// One request's stream on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stream(usize);

/// What the picker decided about a request.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The answer to the request's head.
    pub(crate) head: Value,
    /// The body that goes on to the server, and in how many parts it came.
    pub(crate) body: Vec<u8>,
    pub(crate) parts: Vec<usize>,
}

/// A body as the letters that stand for its bytes.
pub(crate) fn letters(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn bytes(letters: &Value) -> Vec<u8> {
    letters.as_str().unwrap().chars().map(|letter| u8::try_from(letter).unwrap()).collect()
}

/// The head of a request as Envoy shows it.
pub(crate) fn head(ask: &HttpRequest) -> Vec<(String, String)> {
    let pseudo = [(":method", ask.method.as_str()), (":path", &ask.path), (":scheme", "http")];
    let pseudo = pseudo.into_iter().chain([(":authority", "tidegate")]);
    let pseudo = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let own = ask.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    pseudo.chain(own).collect()
}

// === impl ExtProcStream ===

impl ExtProcStream {
    pub(crate) fn with(picker: SocketAddr) -> Self {
        let mut command = python("ext_proc.py");
        command.arg(picker.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (tell, from) = channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map(|line| line.unwrap());
            // Until the test drops the stream.
            let _ = lines.try_for_each(|line| tell.send(serde_json::from_str(&line).unwrap()));
        });
        Self { child, to, from, kept: Vec::new(), streams: 0 }
    }

    /// A stream for a request. Nothing is sent yet, not even that there is one.
    pub(crate) fn stream(&mut self) -> Stream {
        self.streams += 1;
        Stream(self.streams)
    }

    pub(crate) fn say(&mut self, command: &Value) {
        writeln!(self.to, "{command}").unwrap();
    }

    fn on(&mut self, stream: Stream, mut command: Value) {
        command["on"] = stream.0.into();
        self.say(&command);
    }

    /// Opens a stream without a message.
    pub(crate) fn open(&mut self, stream: Stream) {
        self.on(stream, json!({"open": true}));
    }

    pub(crate) fn head(&mut self, stream: Stream, ask: &HttpRequest, more: Value) {
        let mut command = more;
        command["headers"] = json!(head(ask));
        self.on(stream, command);
    }

    pub(crate) fn body(&mut self, stream: Stream, part: &[u8], last: bool) {
        self.on(stream, json!({"body": letters(part), "eos": last}));
    }

    pub(crate) fn trailers(&mut self, stream: Stream) {
        self.on(stream, json!({"trailers": [["x-sum", "7"]]}));
    }

    /// A message of these bytes.
    pub(crate) fn raw(&mut self, stream: Stream, message: &[u8]) {
        self.on(stream, json!({"raw": letters(message)}));
    }

    pub(crate) fn end(&mut self, stream: Stream) {
        self.on(stream, json!({"end": true}));
    }

    pub(crate) fn cancel(&mut self, stream: Stream) {
        self.on(stream, json!({"cancel": true}));
    }

    /// A whole request: its head, its body in parts of this size, and the end in a part of its own,
    /// as Envoy does for HTTP/1.1.
    pub(crate) fn request(&mut self, ask: &HttpRequest, size: usize) -> Stream {
        self.request_with(ask, size, json!({}))
    }

    /// The same with metadata or another processing mode.
    pub(crate) fn request_with(&mut self, ask: &HttpRequest, size: usize, more: Value) -> Stream {
        let stream = self.stream();
        let mut more = more;
        more["eos"] = ask.body.is_empty().into();
        self.head(stream, ask, more);
        if !ask.body.is_empty() {
            for part in ask.body.chunks(size) {
                self.body(stream, part, false);
            }
            self.body(stream, &[], true);
        }
        stream
    }

    /// The head of an answer, from a server.
    pub(crate) fn answer_head(&mut self, stream: Stream, status: u16, kind: &str, more: Value) {
        let headers = [
            (":status", status.to_string()),
            ("content-type", kind.to_owned()),
            ("x-envoy-upstream-service-time", "1".to_owned()),
        ];
        let mut command = more;
        command["headers"] = json!(headers);
        command["response"] = true.into();
        self.on(stream, command);
    }

    pub(crate) fn answer_body(&mut self, stream: Stream, part: &[u8], last: bool) {
        self.on(stream, json!({"body": letters(part), "eos": last, "response": true}));
    }

    pub(crate) fn answer_trailers(&mut self, stream: Stream) {
        self.on(stream, json!({"trailers": [["x-sum", "7"]], "response": true}));
    }

    /// The next thing that came on this stream.
    pub(crate) fn heard(&mut self, stream: Stream) -> Value {
        let on = |value: &Value| value["on"] == stream.0;
        if let Some(at) = self.kept.iter().position(on) {
            return self.kept.remove(at);
        }
        loop {
            let value = self.next();
            if on(&value) {
                return value;
            }
            self.kept.push(value);
        }
    }

    /// The next thing that came at all.
    pub(crate) fn next(&mut self) -> Value {
        match self.from.recv_timeout(BOUND) {
            Ok(value) => value,
            Err(RecvTimeoutError::Timeout) => panic!("the picker says nothing"),
            Err(RecvTimeoutError::Disconnected) => panic!("the client has ended"),
        }
    }

    /// The next message on this stream, which must be of this kind.
    pub(crate) fn got(&mut self, stream: Stream, kind: &str) -> Value {
        let heard = self.heard(stream);
        assert_eq!(heard["got"]["kind"], kind, "{heard}");
        heard["got"].clone()
    }

    /// How the stream ended.
    pub(crate) fn ended(&mut self, stream: Stream) -> String {
        let heard = self.heard(stream);
        heard["ended"].as_str().unwrap_or_else(|| panic!("{heard}")).to_owned()
    }

    /// How the stream ended, whatever came before.
    pub(crate) fn until_ended(&mut self, stream: Stream) -> String {
        loop {
            if let Some(code) = self.heard(stream)["ended"].as_str() {
                return code.to_owned();
            }
        }
    }

    /// What the picker chose for a request with a body.
    pub(crate) fn choice(&mut self, stream: Stream) -> Choice {
        let head = self.got(stream, "request_headers");
        let mut choice = Choice { head, body: Vec::new(), parts: Vec::new() };
        loop {
            let part = self.got(stream, "request_body");
            let body = bytes(&part["body"]);
            choice.parts.push(body.len());
            choice.body.extend(body);
            if part["eos"] == true {
                return choice;
            }
        }
    }

    /// The picker's own answer: status, headers, body.
    pub(crate) fn refusal(&mut self, stream: Stream) -> (u16, BTreeMap<String, String>, Value) {
        let got = self.got(stream, "immediate_response");
        let headers = serde_json::from_value(got["set"].clone()).unwrap();
        let body = serde_json::from_str(got["body"].as_str().unwrap()).unwrap();
        (got["status"].as_u64().and_then(|status| status.try_into().ok()).unwrap(), headers, body)
    }

    /// Plays a server's whole answer on a stream whose request has gone, and gives what came back.
    pub(crate) fn serve(&mut self, stream: Stream, kind: &str, parts: &[&[u8]]) -> Vec<u8> {
        self.answer_head(stream, 200, kind, json!({}));
        self.got(stream, "response_headers");
        let mut back = Vec::new();
        for part in parts {
            self.answer_body(stream, part, false);
        }
        self.answer_body(stream, &[], true);
        loop {
            let part = self.got(stream, "response_body");
            back.extend(bytes(&part["body"]));
            if part["eos"] == true {
                break;
            }
        }
        self.end(stream);
        back
    }
}

impl Drop for ExtProcStream {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Choice ===

impl Choice {
    /// The servers that the request goes to, the best first.
    pub(crate) fn servers(&self) -> Vec<String> {
        let key = "x-gateway-destination-endpoint";
        let told = self.head["set"][key].as_str().unwrap_or_else(|| panic!("{}", self.head));
        assert_eq!(self.head["metadata"]["envoy.lb"][key], told, "header and metadata are equal");
        told.split(',').map(str::to_owned).collect()
    }
}
