//! X05: paths and bodies that two servers could read in two ways, at every door: `serve`, the
//! endpoint picker and the Batch API. The dispatcher's own test is with its queues.

use serde_json::json;

use crate::support::envoy::FREE;
use crate::support::gateway::{TWO, config};
use crate::support::keys::Keys;
use crate::support::{Backend, ExtProcStream, Gateway, HttpRequest};

/// Paths that are a known one to some servers only.
pub(crate) const SPELLINGS: [&str; 25] = [
    "/api/blobs%2fsha256:1",
    "/api/blobs%252fsha256:1",
    "/api/blobs%5csha256:1",
    "/api/Blobs/sha256:1",
    "/api/Delete",
    "/api/delete/",
    "/api/delete%2f",
    "/api/delete%20",
    "/api/delete%00",
    "/api/delete%3fx=1",
    "/api/delete%23x",
    "/api/DELETE/",
    "/v1/load_lora_adapter/",
    "/v1/Load_lora_adapter",
    "/v1/unload_lora_adapter%2F",
    "/v1/responses/",
    "/v1/responses%2f",
    "/v1/Responses",
    "/v1/re%C5%BFponses",
    "/v1/chat%2fcompletions",
    "/v1/chat/Completions",
    "/v1/messages/",
    "/v1/Files",
    "/v1/batches/",
    "/v1/%2e%2e/api/delete",
];

/// Paths that no lock is on, whatever stands in them.
const OTHERS: [&str; 4] = ["/v1/jobs/a%2Fb", "/v1/audio/a%20b", "/v1/x/Delete", "/v1/things/"];

const BODY: &str = "{\"model\":\"m\",\"background\":true}";

/// Bodies that servers read differently, with their type.
const BODIES: [(&str, &str); 9] = [
    ("application/json", "{\"model\":\"m\",\"x\":\"\\ud800\"}"),
    ("application/json", "{\"model\":\"m\",\"x\":[{\"y\":\"a\\udc00b\"}]}"),
    ("application/json", "{\"model\":\"m\",\"\\ud800\":1}"),
    ("application/json", "{\"model\":\"m\\ud800\"}"),
    ("application/json", "{\"model\":7}"),
    ("application/x-www-form-urlencoded", "model=m&max_tokens=9"),
    ("application/x-www-form-urlencoded", "%7B%22model%22%3A%22secret%22%7D"),
    ("application/x-www-form-urlencoded", "{\"model\":\"m\",\"Max_Tokens\":9}"),
    ("application/x-www-form-urlencoded; charset=utf-8", "[{\"model\":\"secret\"}]"),
];

/// A known path, one of another API, and one that is forwarded as it is.
const PATHS: [&str; 3] = ["/v1/chat/completions", "/api/chat", "/v1/messages"];

const TENANT: &str = "[[tenants]]\nname = \"alpha\"\n[admin]\nwithout_key = \"all\"\n";

/// A request with a body of this type.
fn typed(path: &str, kind: &str, body: &str) -> HttpRequest {
    let mut ask = HttpRequest::post(path, body);
    ask.headers = vec![("content-type".into(), kind.into())];
    ask
}

#[test]
fn x05_no_other_spelling_of_a_path_passes_a_lock() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let gateway = Gateway::before(&format!("{}{TENANT}", keys.section()), &backend);
    let open = Gateway::before("", &backend);
    for path in SPELLINGS {
        for method in ["POST", "DELETE", "PUT"] {
            let ask = HttpRequest { method: method.into(), ..HttpRequest::post(path, BODY) };
            let refused = gateway.ask(&ask.clone().key(&key));
            assert_eq!(refused.code(), "invalid_request", "{method} {path}");
            assert_eq!(open.ask(&ask).code(), "invalid_request", "{method} {path}");
        }
    }
    let told = open.ask(&HttpRequest::post("/api/Delete", BODY)).text();
    assert!(told.contains("'/api/delete'"), "{told}");
    assert!(backend.seen().is_empty(), "{:?}", backend.seen());
    for path in OTHERS {
        assert_eq!(gateway.ask(&HttpRequest::post(path, BODY).key(&key)).status, 200, "{path}");
    }
}

#[test]
fn x05_x02_behind_envoy_no_spelling_and_no_prefix_passes_a_lock() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let sections = format!("{}{TENANT}{TWO}", keys.section());
    let picker = Gateway::picker(&config(&sections, &[("one", backend.address())]), FREE);
    picker.await_ready(1);
    let mut talk = ExtProcStream::with(picker.process.address());
    let mut code = |method: &str, path: &str, body: &str| {
        let ask = HttpRequest { method: method.into(), ..HttpRequest::post(path, body) };
        let stream = talk.request(&ask.key(&key), 1000);
        let (_, _, body) = talk.refusal(stream);
        // A path of Ollama has the code beside its error.
        let code =
            [&body["error"]["code"], &body["code"]].into_iter().find_map(|code| code.as_str());
        code.unwrap_or_else(|| panic!("{body}")).to_owned()
    };
    for path in SPELLINGS {
        assert_eq!(code("POST", path, BODY), "invalid_request", "{path}");
        let behind = format!("/llm{path}");
        assert_eq!(code("POST", &behind, BODY), "invalid_request", "{behind}");
    }
    for path in ["/api/delete", "/api/blobs/sha256:1", "/v1/load_lora_adapter"] {
        for prefix in ["", "/llm", "/v1/team", "/api"] {
            let path = format!("{prefix}{path}");
            assert_eq!(code("POST", &path, BODY), "admin_only", "{path}");
        }
    }
    assert_eq!(code("DELETE", "/llm/api/delete", BODY), "admin_only");
    // In the background nobody knows the tokens, and a chat without a model is none.
    assert_eq!(code("POST", "/llm/v1/responses", BODY), "invalid_request");
    assert_eq!(code("POST", "/llm/v1/chat/completions", "{\"n\":1}"), "invalid_request");
    // What `serve` does not offer to a tenant, the picker does not.
    for path in ["/sleep", "/reset_prefix_cache", "/llm/flush_cache"] {
        assert_eq!(code("POST", path, "{\"model\":\"m\"}"), "not_found", "{path}");
    }
    assert_eq!(code("GET", "/slots", ""), "not_found");
    let stream =
        talk.request(&HttpRequest::post("/llm/v1/things", "{\"model\":\"m\"}").key(&key), 9);
    assert_eq!(talk.choice(stream).servers(), [backend.address().to_string()]);
}

#[test]
fn x05_no_batch_goes_to_another_spelling_of_a_path() {
    let gateway = Gateway::launch("[batch]\nfolder = \"batches\"\n");
    for path in SPELLINGS.into_iter().chain(["/v1/load_lora_adapter", "/api/delete"]) {
        let batch = json!({"input_file_id": "file-1", "endpoint": path,
            "completion_window": "24h"});
        let refused = gateway.ask(&HttpRequest::post("/v1/batches", batch.to_string()));
        assert_eq!(
            (refused.status, refused.json()["error"]["param"].as_str()),
            (400, Some("endpoint"))
        );
    }
}

#[test]
fn x05_no_body_passes_unread() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let sections = format!("{}{TENANT}{TWO}", keys.section());
    let gateway = Gateway::before(&sections, &backend);
    let picker = Gateway::picker(&config(&sections, &[("one", backend.address())]), FREE);
    picker.await_ready(1);
    let mut talk = ExtProcStream::with(picker.process.address());
    for (kind, body) in BODIES {
        for path in PATHS {
            let ask = typed(path, kind, body).key(&key);
            let refused = gateway.ask(&ask);
            assert_eq!(refused.status, 400, "{path} {kind} {body}: {}", refused.text());
            let stream = talk.request(&ask, 1000);
            assert_eq!(talk.refusal(stream).0, 400, "{path} {kind} {body}");
        }
    }
    assert!(backend.seen().is_empty(), "{:?}", backend.seen());
}

/// Curl labels JSON as a form unless it is told otherwise. A server that reads the label would read
/// another request, so the label is corrected.
#[test]
fn x05_json_that_is_labelled_as_a_form_is_json_for_all() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let tenant = TENANT.replace("[admin]", "models = [\"m\"]\n[admin]");
    let sections = format!("{}{tenant}{TWO}", keys.section());
    let gateway = Gateway::before(&sections, &backend);
    let picker = Gateway::picker(&config(&sections, &[("one", backend.address())]), FREE);
    picker.await_ready(1);
    let mut talk = ExtProcStream::with(picker.process.address());
    let curl = |path, body: &str| typed(path, "application/x-www-form-urlencoded", body).key(&key);
    for (path, body, status) in [
        ("/v1/responses", BODY, 400),
        ("/v1/messages", "{\"model\":\"secret\"}", 403),
        ("/v1/chat/completions", "{\"model\":\"secret\"}", 403),
    ] {
        let ask = curl(path, body);
        assert_eq!(gateway.ask(&ask).status, status, "{path}");
        let stream = talk.request(&ask, 1000);
        assert_eq!(talk.refusal(stream).0, status, "{path}");
    }
    let body = "{\"model\":\"m\",\"stream\":true,\"x\":\"&model=secret&max_tokens=9&\"}";
    for path in PATHS {
        let ask = curl(path, body);
        assert_eq!(gateway.ask(&ask).status, 200, "{path}");
        let seen = backend.seen().pop().unwrap();
        assert_eq!(seen.header("content-type"), Some("application/json"), "{path}");
        assert_eq!(seen.body, body.as_bytes());
        let stream = talk.request(&ask, 1000);
        let choice = talk.choice(stream);
        assert_eq!(choice.head["set"]["content-type"], "application/json", "{path}");
        talk.cancel(stream);
    }
}
