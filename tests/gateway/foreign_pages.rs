//! X03, X05: status pages and foreign websites, and their connections beside those of clients.

use std::fs;

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::{Backend, Call, Gateway, Process, eventually, fresh_file};

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
