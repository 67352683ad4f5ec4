//! HEAD: the head of a page, without its body, over HTTP/1.1 and HTTP/2.

use serde_json::Value;

use crate::support::gateway::TWO;
use crate::support::tools::{run, tool};
use crate::support::{Backend, Call, Gateway, HttpRequest, ScriptedResponse};

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// The head of the response to a HEAD request. Curl fails if a body follows.
fn head(version: &str, url: &str) -> String {
    run(tool("curl").args(["-sSI", "--max-time", "20", version, url])).to_ascii_lowercase()
}

fn length(head: &str) -> Option<usize> {
    let line = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    line.trim().parse().ok()
}

#[test]
fn x01_head_has_the_length_of_the_page_and_no_body() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    for path in
        ["/health", "/ready", "/backends", "/v1/models", "/api/tags", "/nothing", "/v1/a//b"]
    {
        for version in VERSIONS {
            let head = head(version, &format!("{}{path}", gateway.url()));
            assert!(length(&head).is_some_and(|length| length > 0), "{version} {path}: {head}");
            assert!(head.contains("content-type: application/json"), "{version} {path}: {head}");
        }
    }
    let fixed = gateway.get("/api/version").body.len();
    for version in VERSIONS {
        let head = head(version, &format!("{}/api/version", gateway.url()));
        assert_eq!(length(&head), Some(fixed), "{version}: {head}");
    }
}

#[test]
fn x01_head_of_a_stored_file_has_its_length_and_no_body() {
    let gateway = Gateway::launch("[batch]\nfolder = \"batches\"\n");
    let content = "{}\n".repeat(100_000);
    let form = [
        "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n",
        "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n",
        &content,
        "\r\n--B--\r\n",
    ]
    .concat();
    let mut upload = HttpRequest::post("/v1/files", form);
    upload.headers = vec![("content-type".into(), "multipart/form-data; boundary=B".into())];
    let file: Value = gateway.ask(&upload).json();
    let url = format!("{}/v1/files/{}/content", gateway.url(), file["id"].as_str().unwrap());
    for version in VERSIONS {
        assert_eq!(length(&head(version, &url)), Some(content.len()), "{version}");
    }
}

/// The backend's response to HEAD has a length too, and passes without a body.
#[test]
fn x01_head_of_a_backends_path_passes_with_its_length() {
    let said = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 7\r\n\r\n";
    let backend = Backend::start(move |_| ScriptedResponse::raw(said));
    let gateway = Gateway::before(TWO, &backend);
    for version in VERSIONS {
        let head = head(version, &format!("{}/v1/things", gateway.url()));
        assert_eq!(length(&head), Some(7), "{version}: {head}");
        gateway.await_idle();
    }
    assert_eq!(
        Call::open(gateway.address(), &HttpRequest::get("/health").bytes()).head().status,
        200
    );
}
