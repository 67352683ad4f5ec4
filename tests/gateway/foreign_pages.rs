//! X03, X05: status pages and foreign websites, and their connections beside those of clients.

use std::fs;

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::{
    Backend, Call, Gateway, HttpRequest, Process, ScriptedResponse, chat, eventually, fresh_file,
};

/// The status of a request with these lines of a head.
fn status(gateway: &Gateway, path: &str, lines: &str) -> u16 {
    let head = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n");
    Call::open(gateway.address(), head.as_bytes()).head().status
}

#[test]
fn x05_a_website_in_the_browser_of_an_operator_sees_no_page() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.make(&["--admin", "read", "--name", "operator"]);
    let sections = format!("{}[admin]\nwithout_key = \"all\"\n", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    for host in ["localhost:8430", "127.0.0.1:8430", "[::1]:8430", "gateway", "a.localhost"] {
        assert_eq!(status(&gateway, "/metrics", &format!("host: {host}\r\n")), 200, "{host}");
    }
    // A name of a domain that was made to point to this machine.
    let rebound = "host: attacker.example:8430\r\n";
    for path in ["/metrics", "/flows", "/backends", "/status", "/status/stream", "/requests/a"] {
        assert_eq!(status(&gateway, path, rebound), 403, "{path}");
    }
    // The files of the live page show nothing, and a proxy on this machine has a name.
    assert_eq!(status(&gateway, "/dashboard", rebound), 200);
    let foreign = "host: localhost:8430\r\norigin: https://attacker.example\r\n";
    assert_eq!(status(&gateway, "/flows", foreign), 403);
    let own = "host: localhost:8430\r\norigin: http://localhost:8430\r\n";
    assert_eq!(status(&gateway, "/flows", own), 200);
    // Probes say nothing, and a key proves the operator.
    assert_eq!(status(&gateway, "/health", rebound), 200);
    let proven = format!("{rebound}authorization: Bearer {key}\r\n");
    assert_eq!(status(&gateway, "/flows", &proven), 200);
}

/// The status of a chat with these lines of a head, as a page sends it without a preflight.
fn simple_post(gateway: &Gateway, path: &str, lines: &str) -> u16 {
    let body = "{\"model\":\"m\",\"messages\":[]}";
    let head = format!(
        "POST {path} HTTP/1.1\r\nconnection: close\r\ncontent-type: text/plain\r\n\
         content-length: {}\r\n{lines}\r\n{body}",
        body.len()
    );
    Call::open(gateway.address(), head.as_bytes()).head().status
}

#[test]
fn x05_a_website_reaches_neither_models_nor_files_without_a_key() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.make(&["--admin", "read", "--name", "operator"]);
    let usage = keys.file().with_file_name("usage.db");
    let sections = format!(
        "{}[batch]\nfolder = \"batches\"\n[usage]\nfile = {usage:?}\n\
         [admin]\nwithout_key = \"all\"\n[log]\nformat = \"json\"\n",
        keys.section()
    );
    let gateway = Gateway::before(&sections, &backend);
    let rebound = "host: attacker.example:8430\r\n";
    let foreign = "host: localhost:8430\r\norigin: https://attacker.example\r\n";
    let own = "host: localhost:8430\r\norigin: http://localhost:8430\r\n";
    for path in ["/v1/files", "/v1/batches", "/usage"] {
        let seen = [rebound, foreign, own].map(|lines| status(&gateway, path, lines));
        assert_eq!(seen, [403, 403, 200], "{path}");
        let proven = format!("{rebound}authorization: Bearer {key}\r\n");
        assert_eq!(status(&gateway, path, &proven), 200, "{path}");
    }
    let rebound_page = format!("{rebound}origin: http://attacker.example:8430\r\n");
    let sandboxed = "host: localhost:8430\r\norigin: null\r\n";
    for lines in [foreign, &rebound_page, sandboxed] {
        for path in ["/v1/chat/completions", "/v1/batches", "/v1/things"] {
            assert_eq!(simple_post(&gateway, path, lines), 403, "{path} {lines}");
        }
        assert_eq!(status(&gateway, "/v1/models", lines), 403, "{lines}");
    }
    assert!(backend.seen().is_empty(), "no page reaches a backend");
    let metrics = gateway.metrics();
    let refused = metrics.sum_where("tidegate_requests_total", "outcome=\"host_not_allowed\"");
    assert_eq!(refused, 18.0, "each is counted");
    let is_refused = |line: &serde_json::Value| line["outcome"] == "host_not_allowed";
    eventually("logged", || {
        match gateway.log_lines().iter().filter(|line| is_refused(line)).count() {
            18 => Ok(()),
            count => Err(count.to_string()),
        }
    });
    // A program under the name of a proxy on this machine, and a page behind a proxy that changes
    // the host.
    let behind = "host: 127.0.0.1:8430\r\norigin: https://chat.example\r\n\
                  sec-fetch-site: same-origin\r\n";
    for lines in [own, rebound, behind] {
        assert_eq!(simple_post(&gateway, "/v1/chat/completions", lines), 200, "{lines}");
    }
}

/// A page with a key of its own is no foreign page, and learns that its key is wrong.
#[test]
fn x05_a_wrong_key_of_a_website_is_refused_as_a_key() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let tenants = "[[tenants]]\nname = \"alpha\"\n[admin]\nwithout_key = \"all\"\n";
    let tenants = format!("{}{tenants}", keys.section());
    let gateway = Gateway::before(&tenants, &backend);
    let foreign = |more: &str| {
        let lines = format!("host: localhost:8430\r\norigin: https://attacker.example\r\n{more}");
        ["/v1/chat/completions", "/v1/batches"].map(|path| simple_post(&gateway, path, &lines))
    };
    assert_eq!(foreign(""), [403; 2]);
    assert_eq!(foreign("authorization: Bearer wrong\r\n"), [401; 2]);
    assert_eq!(foreign(&format!("authorization: Bearer {key}\r\n"))[0], 200);
    // Without keys a key proves nothing.
    let open = Gateway::before("", &backend);
    let lines = "host: localhost:8430\r\norigin: https://attacker.example\r\nx-api-key: any\r\n";
    assert_eq!(simple_post(&open, "/v1/chat/completions", lines), 403);
}

#[test]
fn x05_listed_websites_use_the_api_and_see_no_page() {
    let cors = "HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\n\
                access-control-allow-credentials: true\r\ncontent-length: 2\r\n\r\n{}";
    let backend = Backend::start(move |_| ScriptedResponse::raw(cors));
    let sections = "[server]\ncors_origins = [\"https://chat.example\"]\n";
    let gateway = Gateway::before(sections, &backend);
    let from = |request: HttpRequest, origin| request.header("origin", origin);
    let allowed = "access-control-allow-origin";
    let listed = gateway.ask(&from(chat("m"), "https://chat.example"));
    assert_eq!((listed.status, listed.header(allowed)), (200, Some("https://chat.example")));
    assert_eq!(listed.header("access-control-allow-credentials"), None);
    assert_eq!(listed.header("vary"), Some("Origin"));
    // A cache that has the answer to a program must not give it to a page.
    let program = gateway.ask(&chat("m"));
    assert_eq!((program.status, program.header("vary")), (200, Some("Origin")));
    assert_eq!(program.header(allowed), None, "the backend's word does not count");
    // A proxy on this machine forwards requests under its own name.
    let behind = "host: llm.example\r\norigin: https://chat.example\r\n";
    assert_eq!(simple_post(&gateway, "/v1/chat/completions", behind), 200);
    // The page reads why it was refused, too.
    let refused = gateway.ask(&from(chat("other"), "https://chat.example"));
    assert_eq!((refused.status, refused.header(allowed)), (404, Some("https://chat.example")));
    let other = gateway.ask(&from(chat("m"), "https://attacker.example"));
    assert_eq!((other.status, other.header(allowed)), (403, None));
    let page = gateway.ask(&from(HttpRequest::get("/flows"), "https://chat.example"));
    assert_eq!((page.status, page.header(allowed)), (403, None));
    let preflight = |origin| {
        let ask = HttpRequest { method: "OPTIONS".into(), ..HttpRequest::get(&chat("m").path) };
        let ask = from(ask, origin).header("access-control-request-method", "POST");
        gateway.ask(&ask.header("access-control-request-headers", "authorization"))
    };
    let answer = preflight("https://chat.example");
    assert_eq!((answer.status, answer.header(allowed)), (204, Some("https://chat.example")));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization"));
    assert!(answer.header("access-control-allow-methods").unwrap().contains("POST"));
    assert_eq!(preflight("https://attacker.example").header(allowed), None);
}

#[test]
fn x03_a_request_without_a_host_or_with_several_is_refused() {
    let backend = Backend::quick();
    let gateway = Gateway::before("", &backend);
    let one = "host: localhost\r\n";
    let cases = [("", 400), ("host: a\r\nhost: b\r\n", 400), (&one.repeat(2), 400), (one, 200)];
    for (lines, expected) in cases {
        assert_eq!(simple_post(&gateway, "/v1/chat/completions", lines), expected, "{lines}");
        assert_eq!(status(&gateway, "/health", lines), expected, "{lines}");
    }
    let mut old = Call::open(gateway.address(), b"GET /health HTTP/1.0\r\n\r\n");
    assert_eq!(old.head().status, 200, "HTTP/1.0 has no Host");
    assert_eq!(backend.seen().len(), 1);
}

#[test]
fn x03_clients_that_take_all_connections_do_not_close_the_pages() {
    let backend = Backend::quick();
    let sections =
        "[server]\nconnections_max = 2\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    let file = fresh_file();
    fs::write(&file, config(sections, &[("one", backend.address())])).unwrap();
    let path = file.to_str().unwrap();
    let arguments = ["serve", "--config", path, "--listen", "127.0.0.1:0"];
    let words = ["listening on http://", "visibility on http://"];
    let gateway = Process::start_saying(&arguments, &words);
    let [door, pages] = [gateway.addresses()[0], gateway.addresses()[1]];
    let idle: Vec<_> = (0..2).map(|_| Call::open(door, b"GET ")).collect();
    let page = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let status = |at| Call::open(at, page.as_bytes()).head().status;
    eventually("full", || match status(door) {
        503 => Ok(()),
        other => Err(other.to_string()),
    });
    assert_eq!(status(pages), 200);
    drop(idle);
}
