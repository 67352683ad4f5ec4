//! X04: TLS for clients, with real clients and certificates.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::gateway::{ONE, config, fresh_file};
use crate::support::tls::{Authority, KeyedCertificate};
use crate::support::tools::tool;
use crate::support::wait::BOUND;
use crate::support::{Backend, Call, HttpRequest, Process, ScriptedResponse, chat, eventually};

/// A gateway with TLS, in front of one backend.
struct TlsGateway {
    process: Process,
    folder: PathBuf,
}

// === impl TlsGateway ===

impl TlsGateway {
    /// Starts it with this certificate, these further keys of `[server.tls]`, and these sections.
    fn start(
        keyed: &KeyedCertificate,
        (keys, sections): (&str, &str),
        backend: &Backend,
        files: &[(&str, &str)],
    ) -> Self {
        let file = fresh_file();
        let folder = file.parent().unwrap().to_owned();
        for (name, content) in files {
            fs::write(folder.join(name), content).unwrap();
        }
        let tls = format!("[server.tls]\ncert_file = \"a.crt\"\nkey_file = \"a.key\"\n{keys}\n");
        let text = config(&format!("{tls}{sections}"), &[("one", backend.address())]);
        fs::write(&file, text).unwrap();
        write(&folder, "a", keyed);
        let arguments = ["serve", "--config", file.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let process = Process::start_saying(&arguments, &["listening on https://"]);
        Self { process, folder }
    }

    fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// A call of curl, which trusts the authority and resolves every name to the gateway.
    fn curl(&self, authority: &Authority, name: &str, more: &[&str]) -> Output {
        let roots = self.folder.join("roots.pem");
        fs::write(&roots, authority.pem()).unwrap();
        let port = self.address().port();
        let mut command = curl();
        command
            .arg("--cacert")
            .arg(&roots)
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")]);
        command.args(more).arg(format!("https://{name}:{port}/v1/chat/completions"));
        command.args(["-d", &String::from_utf8(chat("m").body).unwrap()]).output().unwrap()
    }

    /// The status of such a call.
    fn status(&self, authority: &Authority, name: &str, more: &[&str]) -> String {
        let output = self.curl(authority, name, more);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Writes a certificate and its key, each by renaming as certificate managers do.
fn write(folder: &std::path::Path, name: &str, keyed: &KeyedCertificate) {
    for (ending, content) in [("crt", &keyed.certificate), ("key", &keyed.key)] {
        let next = folder.join("next");
        fs::write(&next, content).unwrap();
        fs::rename(next, folder.join(format!("{name}.{ending}"))).unwrap();
    }
}

/// curl that prints the version of HTTP and the status.
fn curl() -> Command {
    let mut command = tool("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "30"]);
    command.args(["--output", "/dev/null", "--write-out", "%{http_version} %{http_code}"]);
    command.args(["-H", "content-type: application/json"]);
    command
}

fn model_server() -> Backend {
    Backend::start(|_| ScriptedResponse::ok())
}

#[test]
fn x04_clients_speak_tls_with_either_version_of_http() {
    let (authority, backend) = (Authority::new("test"), model_server());
    let keyed = authority.issue(&["gw.example"]);
    let gateway = TlsGateway::start(&keyed, ("", ""), &backend, &[]);
    assert_eq!(gateway.status(&authority, "gw.example", &["--http1.1"]), "1.1 200");
    assert_eq!(gateway.status(&authority, "gw.example", &["--http2"]), "2 200");
    assert_eq!(gateway.status(&authority, "gw.example", &["--tls-max", "1.2"]), "2 200");
    let refused = gateway.curl(&authority, "other.example", &[]);
    assert!(!refused.status.success(), "the name is not in the certificate");
}

#[test]
fn x04_a_client_gets_the_certificate_of_the_name_that_it_asks_for() {
    let (authority, backend) = (Authority::new("test"), model_server());
    let (first, second) = (authority.issue(&["a.example"]), authority.issue(&["*.b.example"]));
    let keys = "certificates = [{ cert_file = \"b.crt\", key_file = \"b.key\" }]";
    let files = [("b.crt", second.certificate.as_str()), ("b.key", second.key.as_str())];
    let gateway = TlsGateway::start(&first, (keys, ""), &backend, &files);
    for name in ["a.example", "x.b.example"] {
        assert_eq!(gateway.status(&authority, name, &[]), "2 200", "{name}");
    }
}

/// The commands have no setting for an issuer: they trust what the system trusts.
#[test]
fn x04_a_command_says_how_to_trust_the_issuer_of_a_certificate() {
    let (authority, backend) = (Authority::new("test"), model_server());
    let keyed = authority.issue(&["localhost"]);
    let gateway = TlsGateway::start(&keyed, ("", ""), &backend, &[("ca.pem", &authority.pem())]);
    let url = format!("https://localhost:{}", gateway.address().port());
    let ask = |roots: Option<PathBuf>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["status", "--url", &url]).env_remove("SSL_CERT_FILE");
        command.envs(roots.map(|file| ("SSL_CERT_FILE", file)));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = ask(None);
    assert!(code == Some(3) && said.contains("variable SSL_CERT_FILE"), "{code:?} {said}");
    let (code, said) = ask(Some(gateway.folder.join("ca.pem")));
    assert!(code != Some(3), "{said}");
}

#[test]
fn x04_plain_http_to_a_port_with_tls_is_told_so() {
    let (authority, backend) = (Authority::new("test"), model_server());
    let gateway = TlsGateway::start(&authority.issue(&["a.example"]), ("", ""), &backend, &[]);
    let response = Call::open(gateway.address(), &chat("m").bytes()).finish();
    assert_eq!((response.status, response.code()), (400, "tls_required".to_owned()));
    assert!(response.text().contains("write the URL with https://"), "{}", response.text());
}

/// All that an operator hears of such clients is that they have no success.
#[test]
fn x04_m03_clients_without_a_handshake_are_never_a_green_verdict() {
    let (authority, other) = (Authority::new("test"), Authority::new("other"));
    let backend = model_server();
    let gateway = TlsGateway::start(&authority.issue(&["a.example"]), ("", ONE), &backend, &[]);
    for _ in 0..6 {
        assert!(!gateway.curl(&other, "a.example", &[]).status.success());
        assert_eq!(Call::open(gateway.address(), &chat("m").bytes()).finish().status, 400);
    }
    // A look at the port alone is no client.
    for _ in 0..6 {
        drop(Call::open(gateway.address(), b""));
    }
    let wanted = [
        "6 of 12 requests of the last minute failed in the handshake of TLS",
        "6 of 12 requests of the last minute spoke HTTP to a port with TLS",
    ];
    eventually("told", || {
        let mut page = openssl(&gateway, &HttpRequest::get("/status"));
        let mut text = String::new();
        page.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        page.wait().unwrap();
        if wanted.iter().all(|wanted| text.contains(wanted)) { Ok(()) } else { Err(text) }
    });
}

/// A connection that has begun stays, a broken file changes nothing, a good one is used at once.
#[test]
fn x04_certificates_are_replaced_without_dropping_a_connection() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["a", "b"]));
    let gateway = TlsGateway::start(&old.issue(&["a.example"]), ("", ONE), &backend, &[]);
    let mut stream = openssl(&gateway, &chat("m").streamed());
    backend.await_held(1);
    backend.release(1);
    fs::write(gateway.folder.join("a.crt"), "broken").unwrap();
    gateway.process.await_log("the old certificates stay in force", 1);
    let probe = |authority: &Authority| gateway.curl(authority, "a.example", &["-X", "OPTIONS"]);
    assert!(probe(&old).status.success());
    write(&gateway.folder, "a", &new.issue(&["a.example"]));
    eventually("replaced", || {
        let outcome = probe(&new);
        if outcome.status.success() { Ok(()) } else { Err(format!("{outcome:?}")) }
    });
    assert!(!probe(&old).status.success(), "the old one is not shown any more");
    backend.open();
    let mut text = String::new();
    stream.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    stream.wait().unwrap();
    assert!(text.contains("[DONE]"), "{text}");
}

/// Kubernetes mounts a secret as links to a folder behind a link, and swaps that link.
#[test]
fn x04_certificates_behind_links_are_replaced_when_a_link_changes() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let backend = model_server();
    let gateway = TlsGateway::start(&old.issue(&["a.example"]), ("", ONE), &backend, &[]);
    let at = |name: &str| gateway.folder.join(name);
    let link = |target: &str, name: &str| {
        symlink(target, at("next")).unwrap();
        fs::rename(at("next"), at(name)).unwrap();
    };
    for (folder, authority) in [("..one", &old), ("..two", &new)] {
        fs::create_dir(at(folder)).unwrap();
        write(&at(folder), "a", &authority.issue(&["a.example"]));
    }
    link("..one", "..data");
    link("..data/a.crt", "a.crt");
    link("..data/a.key", "a.key");
    let probe = |authority: &Authority| gateway.curl(authority, "a.example", &["-X", "OPTIONS"]);
    assert!(probe(&old).status.success());
    link("..two", "..data");
    eventually("replaced", || {
        let outcome = probe(&new);
        if outcome.status.success() { Ok(()) } else { Err(format!("{outcome:?}")) }
    });
}

/// A client that sends a request and reads until the end of the connection.
fn openssl(gateway: &TlsGateway, request: &HttpRequest) -> std::process::Child {
    let mut command = tool("openssl");
    command.args(["s_client", "-quiet", "-connect", &gateway.address().to_string()]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&request.bytes()).unwrap();
    child
}

#[test]
fn x04_client_certificates_are_required_or_optional() {
    let (authority, clients) = (Authority::new("test"), Authority::new("clients"));
    let backend = model_server();
    let keyed = authority.issue(&["a.example"]);
    let roots = clients.pem();
    let files = [("clients.pem", roots.as_str())];
    for (required, keys) in [(true, ""), (false, "client_certificates = \"optional\"\n")] {
        let keys = format!("{keys}client_ca_file = \"clients.pem\"");
        let gateway = TlsGateway::start(&keyed, (&keys, ""), &backend, &files);
        write(&gateway.folder, "me", &clients.issue_for_client("team-a"));
        write(&gateway.folder, "stranger", &authority.issue_for_client("team-a"));
        let with = |name: &str| {
            let path = |ending: &str| gateway.folder.join(format!("{name}.{ending}"));
            let (crt, key) = (path("crt"), path("key"));
            let more = ["--cert", crt.to_str().unwrap(), "--key", key.to_str().unwrap()];
            gateway.curl(&authority, "a.example", &more)
        };
        let good = with("me");
        assert_eq!(String::from_utf8_lossy(&good.stdout), "2 200", "{good:?}");
        eventually("logged", || {
            let log = gateway.process.access();
            if log.contains(" client=team-a ") { Ok(()) } else { Err(log) }
        });
        assert!(!with("stranger").status.success(), "another issuer");
        let without = gateway.curl(&authority, "a.example", &[]);
        assert_eq!(without.status.success(), !required, "{without:?}");
    }
}

/// A certificate names the tenant of a client that has no key.
#[test]
fn x05_x04_a_certificate_names_a_tenant() {
    let (authority, clients) = (Authority::new("test"), Authority::new("clients"));
    let (backend, roots) = (model_server(), clients.pem());
    let keys = "client_ca_file = \"clients.pem\"";
    let tenants = "[[tenants]]\nname = \"team-a\"\n";
    let files = [("clients.pem", roots.as_str())];
    let keyed = authority.issue(&["a.example"]);
    let gateway = TlsGateway::start(&keyed, (keys, tenants), &backend, &files);
    for (tenant, expected) in [("team-a", "2 200"), ("team-b", "2 401")] {
        write(&gateway.folder, tenant, &clients.issue_for_client(tenant));
        let path = |ending: &str| gateway.folder.join(format!("{tenant}.{ending}"));
        let (crt, key) = (path("crt"), path("key"));
        let more = ["--cert", crt.to_str().unwrap(), "--key", key.to_str().unwrap()];
        assert_eq!(gateway.status(&authority, "a.example", &more), expected, "{tenant}");
    }
    eventually("logged", || {
        let log = gateway.process.access();
        if log.contains("tenant=team-a") { Ok(()) } else { Err(log) }
    });
}

/// A certificate that the configuration names opens the pages, by two rights, and no other does.
#[test]
fn x05_x04_a_certificate_of_an_operator_opens_the_pages() {
    let (authority, clients) = (Authority::new("test"), Authority::new("clients"));
    let (backend, roots) = (model_server(), clients.pem());
    let keys = "client_ca_file = \"clients.pem\"\nclient_certificates = \"optional\"";
    let sections = "[admin]\nread_certificates = [\"grafana\"]\n\
        change_certificates = [\"operator\"]\n[[tenants]]\nname = \"team-a\"\n";
    let files = [("clients.pem", roots.as_str())];
    let keyed = authority.issue(&["a.example"]);
    let gateway = TlsGateway::start(&keyed, (keys, sections), &backend, &files);
    fs::write(gateway.folder.join("roots.pem"), authority.pem()).unwrap();
    let port = gateway.address().port();
    let status = |name: &str, more: &[&str]| {
        let mut command = curl();
        command.current_dir(&gateway.folder).args(["--cacert", "roots.pem"]);
        command.args(["--resolve", &format!("a.example:{port}:127.0.0.1")]);
        if !name.is_empty() {
            write(&gateway.folder, name, &clients.issue_for_client(name));
            command.args(["--cert", &format!("{name}.crt"), "--key", &format!("{name}.key")]);
        }
        let (path, more) = more.split_first().unwrap();
        let output = command.args(more).arg(format!("https://a.example:{port}{path}")).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let read = ["/flows"];
    let change = ["/backends/one/drain", "-X", "POST"];
    for (name, expected) in [
        ("", ["2 401", "2 401"]),
        ("team-a", ["2 401", "2 401"]),
        ("grafana", ["2 200", "2 403"]),
        ("operator", ["2 200", "2 200"]),
    ] {
        assert_eq!([status(name, &read), status(name, &change)], expected, "{name}");
    }
    // A key counts alone, and a browser sends its certificate for any website.
    let keyed = ["/flows", "-H", "authorization: Bearer wrong"];
    assert_eq!(status("operator", &keyed), "2 401");
    let foreign = ["/flows", "-H", "origin: https://evil.example"];
    assert_eq!(status("operator", &foreign), "2 403");
}

/// The gateway sends the requests of a batch to its own listener, which needs a certificate.
#[test]
fn x04_d10_batches_pass_a_listener_that_needs_client_certificates() {
    let (authority, clients) = (Authority::new("test"), Authority::new("clients"));
    let backend = model_server();
    let (roots, mine) = (clients.pem(), clients.issue_for_client("team-a"));
    let body: serde_json::Value = serde_json::from_slice(&chat("m").body).unwrap();
    let url = "/v1/chat/completions";
    let line = serde_json::json!({"custom_id": "1", "method": "POST", "url": url, "body": body});
    let line = format!("{line}\n");
    let files = [
        ("clients.pem", roots.as_str()),
        ("me.crt", mine.certificate.as_str()),
        ("me.key", mine.key.as_str()),
        ("in.jsonl", line.as_str()),
    ];
    let sections = "[batch]\nfolder = \"batches\"\n";
    let keys = "client_ca_file = \"clients.pem\"";
    let keyed = authority.issue(&["a.example"]);
    let gateway = TlsGateway::start(&keyed, (keys, sections), &backend, &files);
    fs::write(gateway.folder.join("roots.pem"), authority.pem()).unwrap();
    let port = gateway.address().port();
    let call = |path: &str, more: &[&str]| -> serde_json::Value {
        let mut command = tool("curl");
        command.current_dir(&gateway.folder).args(["--silent", "--cacert", "roots.pem"]);
        command.args(["--cert", "me.crt", "--key", "me.key", "--noproxy", "*"]);
        command.args(["--resolve", &format!("a.example:{port}:127.0.0.1")]).args(more);
        let output = command.arg(format!("https://a.example:{port}{path}")).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let file = call("/v1/files", &["-F", "purpose=batch", "-F", "file=@in.jsonl"]);
    let wanted = serde_json::json!({"input_file_id": file["id"], "endpoint": url,
        "completion_window": "24h"});
    let kind = "content-type: application/json";
    let batch = call("/v1/batches", &["-H", kind, "-d", &wanted.to_string()]);
    let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap_or_default());
    eventually("completed", || {
        let batch = call(&path, &[]);
        let is_whole = batch["request_counts"]["completed"] == 1;
        if batch["status"] == "completed" && is_whole { Ok(()) } else { Err(batch.to_string()) }
    });
}

/// Clients that connect and say nothing displace each other, and keep no other client out.
#[test]
fn x04_silent_clients_do_not_keep_others_from_a_handshake() {
    let (authority, backend) = (Authority::new("test"), model_server());
    let keys = "handshakes_max = 4\nhandshake_timeout = \"1h\"";
    let gateway = TlsGateway::start(&authority.issue(&["a.example"]), (keys, ""), &backend, &[]);
    let mut silent: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(gateway.address()).unwrap()).collect();
    assert_eq!(gateway.status(&authority, "a.example", &[]), "2 200");
    // The first is the oldest, and the gateway has closed it.
    silent[0].set_read_timeout(Some(BOUND)).unwrap();
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
}

#[test]
fn x04_a_slow_handshake_is_timed_out() {
    let (authority, backend) = (Authority::new("test"), model_server());
    let keys = "handshake_timeout = \"200ms\"";
    let gateway = TlsGateway::start(&authority.issue(&["a.example"]), (keys, ""), &backend, &[]);
    let mut silent = TcpStream::connect(gateway.address()).unwrap();
    silent.set_read_timeout(Some(BOUND)).unwrap();
    silent.write_all(&[0x16, 0x03, 0x01]).unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
}

#[test]
fn x04_a_certificate_that_cannot_be_used_stops_the_start() {
    let (authority, file) = (Authority::new("test"), fresh_file());
    let folder = file.parent().unwrap();
    let keyed = authority.issue(&["a.example"]);
    write(folder, "a", &KeyedCertificate { key: authority.issue(&["x"]).key, ..keyed });
    fs::write(&file, "[server.tls]\ncert_file = \"a.crt\"\nkey_file = \"a.key\"\n").unwrap();
    // If it starts all the same, it must not run for ever.
    let mut command = tool("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_tidegate"), "serve", "--listen", "127.0.0.1:0"]);
    let output = command.arg("--config").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("does not belong to"), "{said}");
}
