//! The sections `server`, `admin`, `epp`, `log` and `dbus`.

use std::net::{IpAddr, SocketAddr};

use crate::config::settings::{Admin, Bus, Config, Epp, EppTls, Log, Server, ServerTls, Traces};
use crate::process_limits;
use crate::schema::Section;

/// The most memory for all bodies, where the operator sets no limit.
const BODIES_MAX: usize = 1 << 30;

pub(in crate::config) fn server(section: &Section<'_>) -> Server {
    let (body_limit, bodies_limit) = body_limits(section, process_limits::memory());
    let server = Server {
        listen: section.get("listen"),
        workers: section.given("workers"),
        body_limit,
        bodies_limit,
        header_limit: section.get("header_limit"),
        connections_max: section.given("connections_max"),
        header_timeout: section.get("header_timeout"),
        body_timeout: section.get("body_timeout"),
        write_timeout: section.get("write_timeout"),
        grace: section.get("grace"),
        cors_origins: section.given("cors_origins").unwrap_or_default(),
        headroom_headers: section.get("headroom_headers"),
        orca: section.get("orca"),
        tls: tls(&section.section("tls")),
    };
    if server.bodies_limit / 2 < server.body_limit {
        let what = "is less than twice server.body_limit: give it room for two bodies";
        section.refuse("bodies_limit", what);
    }
    server
}

/// The limits of one body and of all together. While bodies arrive, the process takes three times
/// as much memory as they have, so without a limit of the operator they get a sixth of `memory`.
fn body_limits(section: &Section<'_>, memory: Option<u64>) -> (usize, usize) {
    let part = |share| {
        memory.and_then(|memory| usize::try_from(memory / share).ok()).unwrap_or(usize::MAX)
    };
    let body: usize = section.get("body_limit");
    let given: Option<usize> = section.given("bodies_limit");
    if given.is_some_and(|bodies| bodies > part(3)) {
        let what = "is more than a third of the memory that the process may use: it may be killed \
                    while large bodies arrive";
        section.notice("bodies_limit", what);
    }
    let found = given.unwrap_or_else(|| BODIES_MAX.min(part(6)));
    match (given, section.has("body_limit")) {
        (_, false) => (body.min(found / 2), found),
        (None, true) => (body, found.max(body.saturating_mul(2))),
        (Some(_), true) => (body, found),
    }
}

fn tls(section: &Section<'_>) -> Option<ServerTls> {
    let mut certificates = Vec::new();
    match (section.path("cert_file"), section.path("key_file")) {
        (Some(certificate), Some(key)) => certificates.push((certificate, key)),
        (Some(_), None) => section.refuse("key_file", "is missing: a certificate needs its key"),
        (None, Some(_)) => section.refuse("cert_file", "is missing: a key needs its certificate"),
        (None, None) => {}
    }
    let pair = |entry: Section<'_>| Some((entry.path("cert_file")?, entry.path("key_file")?));
    certificates.extend(section.sections("certificates").into_iter().filter_map(pair));
    let client_ca_file = section.path("client_ca_file");
    if certificates.is_empty() {
        if client_ca_file.is_some() {
            let what = "has no effect without TLS: set cert_file and key_file";
            section.refuse("client_ca_file", what);
        }
        return None;
    }
    Some(ServerTls {
        certificates,
        client_ca_file,
        client_certificates: section.get("client_certificates"),
        handshake_timeout: section.get("handshake_timeout"),
        handshakes_max: section.get("handshakes_max"),
    })
}

pub(in crate::config) fn epp(section: &Section<'_>) -> Epp {
    let epp = Epp {
        listen: section.get("listen"),
        health_listen: section.get("health_listen"),
        metrics_listen: section.get("metrics_listen"),
        fallbacks: section.get("fallbacks"),
        drain: section.get("drain"),
        conformance: section.get("conformance"),
        llm_d_metrics: section.get("llm_d_metrics"),
        tls: section.get("tls"),
        cert_path: section.path("cert_path"),
    };
    if epp.tls == EppTls::Off && epp.cert_path.is_some() {
        section.notice("cert_path", "has no effect: epp.tls is off");
    }
    refuse_shared_addresses(section, [epp.listen, epp.health_listen, epp.metrics_listen]);
    epp
}

fn refuse_shared_addresses(section: &Section<'_>, addresses: [SocketAddr; 3]) {
    let taken = |at: usize| addresses[..at].iter().any(|earlier| overlap(*earlier, addresses[at]));
    for (at, key) in [(1, "health_listen"), (2, "metrics_listen")] {
        if taken(at) {
            section.refuse(key, format!("is {}, where it listens already", addresses[at]));
        }
    }
}

/// `server` has the address of the API, and its certificates.
pub(super) fn admin(section: &Section<'_>, server: &Server) -> Admin {
    let api = server.listen;
    let listen = section.given("listen");
    if let Some(listen) = listen.filter(|listen| overlap(*listen, api)) {
        let what = "which server.listen has: leave it out to have the status pages there";
        section.refuse("listen", format!("is {listen}, {what}"));
    }
    let tls = section.given("tls");
    if tls == Some(true) && server.tls.is_none() {
        section.refuse("tls", "is true, but [server.tls] has no certificate");
    }
    let named = |key: &str| certificate_names(section, key, server);
    Admin {
        read_certificates: named("read_certificates"),
        change_certificates: named("change_certificates"),
        listen,
        ready_fails_when_saturated: section.get("ready_fails_when_saturated"),
        tls: tls.unwrap_or(server.tls.is_some()),
        kubernetes_tokens: section.get("kubernetes_tokens"),
        without_key: section.given("without_key"),
    }
}

/// Without an API server nobody can say what a token may do.
pub(super) fn refuse_tokens_without_cluster(root: &Section<'_>, config: &Config) {
    if config.admin.kubernetes_tokens && config.fleet.kubernetes.is_none() {
        let what = "is true, and [discovery.kubernetes] names no API server that knows the tokens";
        root.section("admin").refuse("kubernetes_tokens", what);
    }
}

/// The certificates that an operator names. Without an issuer no client can have one.
fn certificate_names(section: &Section<'_>, key: &str, server: &Server) -> Vec<String> {
    let has_issuers = server.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
    if section.has(key) && !has_issuers {
        section.refuse(key, "needs client_ca_file in [server.tls]");
    }
    section.given(key).unwrap_or_default()
}

/// Whether no two sockets can listen on both. Port 0 is a free port.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let ips = (one.ip().to_canonical(), other.ip().to_canonical());
    let same = ips.0 == ips.1 || includes(ips.0, ips.1) || includes(ips.1, ips.0);
    same && one.port() == other.port() && one.port() != 0
}

/// Whether a socket on the first address takes connections to the second. One on `[::]` takes those
/// over IPv4, too.
fn includes(wide: IpAddr, narrow: IpAddr) -> bool {
    wide.is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
}

pub(in crate::config) fn log(section: &Section<'_>) -> Log {
    Log {
        access: section.get("access"),
        decisions: section.get("decisions"),
        format: section.get("format"),
    }
}

pub(super) fn traces(section: &Section<'_>) -> Option<Traces> {
    Some(Traces {
        endpoint: section.given("endpoint")?,
        protocol: section.get("protocol"),
        sample_ratio: section.get("sample_ratio"),
        follow_parent: section.get("follow_parent"),
        service_name: section.get("service_name"),
        queue_max: section.get("queue_max"),
    })
}

pub(super) fn dbus(section: &Section<'_>) -> Option<Bus> {
    let enabled: bool = section.get("enabled");
    if enabled && !cfg!(feature = "dbus") {
        section.notice("enabled", "has no effect: this program was built without D-Bus");
    }
    enabled.then(|| section.get("bus"))
}
