//! A request of a client, as bytes.

use serde_json::{Value, json};

/// A request that is not sent yet.
#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A chat with this model.
pub(crate) fn chat(model: &str) -> HttpRequest {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "hello"}]});
    HttpRequest::post("/v1/chat/completions", body.to_string())
}

// === impl HttpRequest ===

impl HttpRequest {
    pub(crate) fn get(path: &str) -> Self {
        Self { method: "GET".into(), path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".into(), "application/json".into())];
        Self { method: "POST".into(), path: path.into(), headers, body: body.into() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets a field of the body.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        let mut body: Value = serde_json::from_slice(&self.body).unwrap();
        body[field] = value.into();
        self.body = body.to_string().into_bytes();
        self
    }

    /// Sets a tag, by which the records of the scripted backend distinguish requests.
    pub(crate) fn tag(self, tag: &str) -> Self {
        self.with("mark", tag)
    }

    pub(crate) fn streamed(self) -> Self {
        self.with("stream", true)
    }

    pub(crate) fn priority(self, band: &str) -> Self {
        self.header("X-Priority", band)
    }

    /// The request as bytes, for a connection of its own.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes_on("close")
    }

    /// The same for a connection that stays open.
    pub(crate) fn bytes_kept(&self) -> Vec<u8> {
        self.bytes_on("keep-alive")
    }

    fn bytes_on(&self, connection: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: tidegate\r\n", self.method, self.path);
        head += &format!("connection: {connection}\r\n");
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if self.method != "GET" {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        head += "\r\n";
        [head.as_bytes(), &self.body].concat()
    }
}
