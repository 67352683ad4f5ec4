//! X05: names that were made to point to this machine (DNS rebinding), at each of its addresses,
//! and what browsers may take our responses for.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::support::gateway::{config, fresh_file};
use crate::support::keys::Keys;
use crate::support::process::Process;
use crate::support::tools::{leave_out, run, tool};
use crate::support::{Backend, Call, Gateway, HttpRequest, chat, eventually};

/// An address of this machine that other machines may reach; nothing is sent to find it.
fn lan_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// A gateway that listens on every address of the machine.
fn on_all_addresses(sections: &str, backend: &Backend) -> Process {
    let file = fresh_file();
    std::fs::write(&file, config(sections, &[("one", backend.address())])).unwrap();
    let path = file.to_str().unwrap();
    Process::start(&["serve", "--config", path, "--listen", "0.0.0.0:0"])
}

/// The status of a request with these lines of a head.
fn status(to: SocketAddr, request: &str, lines: &str) -> u16 {
    let body =
        if request.ends_with("/completions") { "{\"model\":\"m\",\"messages\":[]}" } else { "" };
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n{lines}\r\n{body}"
    );
    Call::open(to, head.as_bytes()).head().status
}

/// The status of a request of another machine: this one, as seen from one of its other addresses.
fn remote_status(from: IpAddr, port: u16, path: &str, headers: &[&str]) -> u16 {
    let mut curl = tool("curl");
    curl.args([
        "--silent",
        "--noproxy",
        "*",
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code}",
    ]);
    curl.args(["--interface", &from.to_string()]);
    for header in headers {
        curl.args(["--header", header]);
    }
    if path.ends_with("/completions") {
        curl.args(["--data", "{\"model\":\"m\",\"messages\":[]}"]);
    }
    if path.ends_with("/drain") {
        curl.args(["--request", "POST"]);
    }
    run(curl.arg(format!("http://127.0.0.1:{port}{path}"))).parse().unwrap()
}

const CHAT: &str = "/v1/chat/completions";
const REBOUND: &str = "host: attacker.example:8430";
const ITSELF: &str = "origin: http://attacker.example:8430";

#[test]
fn x05_a_rebound_name_reaches_nothing_at_any_address_of_the_machine() {
    let Some(lan) = lan_address() else { return leave_out("this machine has one address") };
    let backend = Backend::quick();
    let gateway = on_all_addresses("", &backend);
    let port = gateway.address().port();
    for address in [lan, [127, 0, 0, 1].into()] {
        let to = SocketAddr::new(address, port);
        let page = format!("{REBOUND}\r\n{ITSELF}\r\n");
        for request in ["POST /v1/chat/completions", "POST /backends/one/drain", "GET /flows"] {
            assert_eq!(status(to, request, &page), 403, "{request} at {to}");
        }
        let alone = format!("{REBOUND}\r\n");
        for request in ["GET /flows", "GET /metrics", "GET /requests", "POST /backends/one/drain"] {
            assert_eq!(status(to, request, &alone), 403, "{request} at {to}");
        }
        let own = format!("host: {to}\r\norigin: http://{to}\r\n");
        assert_eq!(status(to, "GET /flows", &own), 200, "{to}");
        assert_eq!(status(to, "POST /v1/chat/completions", &own), 200, "{to}");
    }
    assert_eq!(backend.seen().len(), 2);
}

/// In the browser of another machine of the network.
#[test]
fn x05_a_rebound_name_in_a_browser_of_another_machine_reaches_nothing() {
    let Some(lan) = lan_address() else { return leave_out("this machine has one address") };
    let backend = Backend::quick();
    let listed = "[server]\ncors_origins = [\"http://gateway.example:8430\"]\n";
    let gateway = on_all_addresses(listed, &backend);
    let ask =
        |path: &str, headers: &[&str]| remote_status(lan, gateway.address().port(), path, headers);
    // A page cannot keep its browser from saying one of these.
    for mark in [ITSELF, "referer: http://attacker.example:8430/", "accept-language: de"] {
        for path in ["/flows", "/metrics", "/usage", "/backends/one/drain"] {
            assert_eq!(ask(path, &[REBOUND, mark]), 403, "{path} {mark}");
        }
    }
    assert_eq!(ask(CHAT, &[REBOUND, ITSELF, "content-type: text/plain"]), 403);
    // Programs use any name: a service in a cluster, a name of the organisation.
    let node = ["accept-language: *", "sec-fetch-mode: cors"];
    for host in ["host: tidegate.models.svc:8430", "host: llm.example", "host: gateway"] {
        assert_eq!(ask(CHAT, &[host]), 200, "{host}");
        assert_eq!(ask("/metrics", &[host]), 200, "{host}");
        assert_eq!(ask("/metrics", &[host, node[0], node[1]]), 200, "{host}");
    }
    // A browser behind a proxy with TLS, at a name that nobody else may own, and at a listed one.
    let behind =
        ["host: llm.example", "origin: https://llm.example", "sec-fetch-site: same-origin"];
    let local = ["host: gateway.lan:8430", "origin: http://gateway.lan:8430"];
    let named = ["host: gateway.example:8430", "origin: http://gateway.example:8430"];
    for headers in [&behind[..], &local, &named] {
        assert_eq!(ask(CHAT, headers), 200, "{headers:?}");
        assert_eq!(
            ask("/flows", &[headers, &["accept-language: de"]].concat()),
            200,
            "{headers:?}"
        );
    }
}

/// A browser names no origin where a page reads from its own.
#[test]
fn x05_a_rebound_name_reads_nothing_of_a_backend() {
    let Some(lan) = lan_address() else { return leave_out("this machine has one address") };
    let backend = Backend::quick();
    let gateway = on_all_addresses("", &backend);
    let port = gateway.address().port();
    let paths = ["/v1/responses/resp_1", "/v1/models", "/v1/models/m", "/api/tags", "/dashboard"];
    for mark in ["referer: http://attacker.example:8430/", "accept-language: de", ITSELF] {
        for path in paths {
            let lines = format!("{REBOUND}\r\n{mark}\r\n");
            for (method, at) in [("GET", lan), ("HEAD", lan), ("GET", [127, 0, 0, 1].into())] {
                let (request, to) = (format!("{method} {path}"), SocketAddr::new(at, port));
                assert_eq!(status(to, &request, &lines), 403, "{request} {mark} at {to}");
            }
            assert_eq!(remote_status(lan, port, path, &[REBOUND, mark]), 403, "{path} {mark}");
        }
    }
    assert!(backend.seen().is_empty(), "{:?}", backend.seen());
    let to = SocketAddr::new(lan, port);
    eventually("ready", || match status(to, "GET /ready", "host: localhost\r\n") {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    // A program behind a proxy with a name, a browser at an address, and one behind TLS.
    let address = format!("host: {lan}:{port}");
    let headers = [&["host: llm.example"][..], &[&address, "accept-language: de"]];
    let behind = ["host: llm.example", "accept-language: de", "sec-fetch-site: none"];
    for headers in headers.into_iter().chain([&behind[..]]) {
        assert_eq!(remote_status(lan, port, "/v1/responses/resp_1", headers), 200, "{headers:?}");
    }
}

/// What asks for a key needs no such rule, and its page may have any name.
#[test]
fn x05_the_live_page_has_any_name_where_a_key_is_asked_for() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    keys.make(&["--admin", "read", "--name", "operator"]);
    let gateway = Gateway::launch(&config(&keys.section(), &[("one", backend.address())]));
    let lines = format!("{REBOUND}\r\naccept-language: de\r\n");
    assert_eq!(status(gateway.address(), "GET /dashboard", &lines), 200);
    assert_eq!(status(gateway.address(), "GET /flows", &lines), 403);
}

/// An address is read in all its forms, and nobody can own one. What is no host is refused.
#[test]
fn x05_a_host_is_read_in_one_way() {
    let backend = Backend::quick();
    let gateway = Gateway::before("", &backend);
    let seen = |host: &str| {
        let lines = format!("host: {host}\r\n");
        ["GET /flows", "GET /health", "POST /v1/chat/completions"]
            .map(|request| status(gateway.address(), request, &lines))
    };
    for host in ["127.1", "127.1:80", "0x7f.0.0.1:80", "2130706433", "017700000001", "127.0.0.1."] {
        assert_eq!(seen(host), [200; 3], "{host}");
    }
    for host in ["127.1.attacker.example", "0x7f.example", "1.example:80"] {
        assert_eq!(seen(host)[0], 403, "{host}");
    }
    for host in [
        "127.0.0.1:+80",
        "localhost:+80",
        "localhost:80:90",
        "localhost:0x50",
        "localhost:123456",
        "a@localhost",
        "attacker.example:.localhost",
        "attacker.example/.localhost",
        "attacker.example, localhost",
        "[::1",
        "::1",
        "[::1]x",
        "localhost%2e",
    ] {
        assert_eq!(seen(host), [400; 3], "{host}");
    }
}

#[test]
fn x05_no_response_of_the_gateway_is_sniffed() {
    let backend = Backend::quick();
    let gateway = Gateway::before("[batch]\nfolder = \"batches\"\n", &backend);
    let read = [
        "/",
        "/health",
        "/ready",
        "/version",
        "/metrics",
        "/status",
        "/status/history",
        "/backends",
        "/flows",
        "/workloads",
        "/requests",
        "/requests/none",
        "/usage",
        "/dashboard",
        "/dashboard/app.js",
        "/v1/models",
        "/v1/models/m",
        "/api/tags",
        "/api/version",
        "/v1/files",
        "/v1/batches",
        "/dispatch",
        "/none",
    ];
    let reads = read.map(HttpRequest::get);
    let refused = [chat("other"), HttpRequest::post("/v1/chat/completions", "{")];
    for ask in reads.into_iter().chain(refused) {
        let answer = gateway.ask(&ask);
        let said = answer.header("x-content-type-options");
        assert_eq!(said, Some("nosniff"), "{} {}", ask.path, answer.status);
    }
    let served = gateway.ask(&chat("m"));
    assert_eq!(served.header("x-content-type-options"), None, "it is the backend's");
}
