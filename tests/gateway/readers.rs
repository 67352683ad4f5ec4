//! X05: bodies that programs read in different ways. `tests/corpus/readers.json` says what each of
//! them reads; `tests/clients/readers` writes that table.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::{Backend, Gateway, HttpRequest};

const TABLE: &str = include_str!("../corpus/readers.json");

/// A known path of each API, one that is forwarded as it is, and one of forms.
const DOORS: [&str; 5] =
    ["/v1/chat/completions", "/api/chat", "/api/show", "/v1/messages", "/v1/audio/transcriptions"];

/// Readers of forms, by parts of their names.
const FORM_READERS: [&str; 3] = ["ParseMultipartForm", "email", "starlette"];

#[derive(Deserialize)]
struct Case {
    name: String,
    r#type: String,
    /// Each letter is a byte.
    body: String,
    /// What each reader reads; nothing if it refuses the body.
    readers: BTreeMap<String, Option<BTreeMap<String, Value>>>,
}

// === impl Case ===

impl Case {
    fn request(&self, path: &str) -> HttpRequest {
        let mut ask = HttpRequest::post(path, self.bytes());
        ask.headers.retain(|(name, _)| name != "content-type");
        if self.r#type.is_empty() { ask } else { ask.header("content-type", &self.r#type) }
    }

    fn bytes(&self) -> Vec<u8> {
        self.body.chars().map(|letter| u8::try_from(letter).unwrap()).collect()
    }

    /// Whether all programs that accept the body read the same, and the model `m`. No server reads
    /// a form at a path of chats, and none gets one without files: that label of JSON is corrected.
    fn is_clear(&self, takes_forms: bool) -> bool {
        let is_of_forms = |name: &str| FORM_READERS.iter().any(|word| name.contains(word));
        let counts = |name: &&String| takes_forms || !is_of_forms(name);
        let readers = self.readers.iter().filter(|(name, _)| counts(name));
        let mut read: Vec<_> = readers.filter_map(|(_, fields)| fields.clone()).collect();
        if let Ok(Value::Object(own)) = serde_json::from_slice(&self.bytes()) {
            read.push(own.into_iter().filter(|(name, _)| name == "model").collect());
        }
        let values = |field: &str| -> Vec<Value> {
            read.iter().filter_map(|fields| fields.get(field)).map(comparable).collect()
        };
        let is_one = |field| values(field).windows(2).all(|two| two[0] == two[1]);
        let is_allowed = values("model").iter().all(|model| model == "m");
        is_allowed && ["stream", "max_tokens", "n", "num_predict"].into_iter().all(is_one)
    }

    fn is_plain(&self) -> bool {
        self.name.starts_with("plain:")
    }
}

/// A number by its value: some programs make a whole number a float.
fn comparable(value: &Value) -> Value {
    value.as_f64().map_or_else(|| value.clone(), Value::from)
}

fn cases() -> Vec<Case> {
    let cases: Vec<Case> = serde_json::from_str(TABLE).unwrap();
    let unclear = cases.iter().filter(|case| !case.is_clear(true)).count();
    assert!(unclear >= 60, "the table has bodies that are read differently: {unclear}");
    cases
}

#[test]
fn x05_no_body_passes_that_two_servers_read_differently() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let sections = format!(
        "{}[[tenants]]\nname = \"alpha\"\nmodels = [\"m\"]\n[admin]\nwithout_key = \"all\"\n",
        keys.section()
    );
    let gateway = Gateway::start(&config(&sections, &[("one", backend.address())]));
    let mut wrong = Vec::new();
    for case in cases() {
        for path in DOORS {
            let answer = gateway.ask(&case.request(path).key(&key));
            let is_form = case.r#type.to_ascii_lowercase().starts_with("multipart");
            let may_pass = !is_form || path.starts_with("/v1/audio");
            let takes_forms = is_form && !path.contains("chat") && path.starts_with("/v1/");
            let good = match answer.status {
                200 => case.is_clear(takes_forms),
                400 | 403 => !(case.is_plain() && may_pass),
                _ => false,
            };
            if !good {
                wrong.push(format!("{} at {path}: {} {}", case.name, answer.status, case.body));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without tenants nothing is locked, but each request is still charged by what its backend reads.
#[test]
fn x05_what_is_refused_says_what_to_write() {
    let backend = Backend::quick();
    let gateway = Gateway::before("", &backend);
    for (body, words) in [
        (r#"{"model":"m","Model":"x"}"#, "'model' in another spelling"),
        (r#"{"model":"m","model":"x"}"#, "'model' twice"),
        (r#"{"model":"m","Max_Tokens":9}"#, "'max_tokens' in another spelling"),
        (r#"{"model":"m","n":1,"n":9}"#, "'n' twice"),
        (r#"{"model":"m","n":"9"}"#, "'n' must be a number"),
        (r#"{"model":"m","stream":"true"}"#, "'stream' must be true or false"),
        (r#"{"model":"m","options":{"Num_Predict":9}}"#, "'num_predict'"),
    ] {
        for path in ["/v1/chat/completions", "/api/generate", "/v1/messages"] {
            let answer = gateway.ask(&HttpRequest::post(path, body));
            assert_eq!(answer.status, 400, "{body} {path}");
            assert!(answer.text().contains(words), "{}", answer.text());
            let mut other = HttpRequest::post(path, body);
            other.headers = vec![("content-type".into(), "application/octet-stream".into())];
            assert_eq!(gateway.ask(&other).text(), answer.text(), "whatever its type");
        }
    }
    let two = HttpRequest::post("/api/show", r#"{"model":"m","name":"x"}"#);
    assert!(gateway.ask(&two).text().contains("another one as 'name'"));
    // The files of a model are no requests, whatever they look like.
    let blob = HttpRequest::post("/api/blobs/sha256:1", r#"{"model":{},"Model":1} {"#);
    assert_eq!(gateway.ask(&blob).status, 200);
    assert_eq!(backend.seen().len(), 1);
}
