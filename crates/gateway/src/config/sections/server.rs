//! The sections `server`, `admin`, `epp`, `log` and `dbus`.

use super::forms::ORIGIN;
use super::{GIB, HOUR, KIB, MIB, TIB, UP_TO_A_DAY, count, duration, size};
use crate::config::settings::{Bus, ClientCertificates, EppTls, LogFormat, OpenPages};
use crate::schema::ValueType::{Address, Bool, Keyword, Path, Table, Tables, Texts};
use crate::schema::{NOT_EMPTY, SectionSchema, key, words};
use std::time::Duration;

pub(in crate::config) const SERVER: SectionSchema = SectionSchema::new(
    "server",
    &[
        key("listen", Address, "The address on which clients connect. Port 0 takes a free port.")
            .default("127.0.0.1:8430")
            .restart(),
        key("workers", count(1, 1024), "Threads that serve requests.")
            .unset("the number of cores")
            .restart(),
        key(
            "body_limit",
            size(KIB, GIB),
            "The largest request body. Without a value it is at most half of `bodies_limit`.",
        )
        .default("32MiB"),
        key(
            "bodies_limit",
            size(KIB, TIB),
            "The most memory for all request bodies together, including those of waiting \
             requests; at least twice `body_limit`. A request whose body does not fit is refused \
             as `overloaded`. One tenant, or one address without tenants, may use three quarters. \
             An eighth is reserved for bodies up to 64 KiB. Of both sums each band leaves a \
             sixteenth to every band above it. The process may take about three times as much \
             while bodies arrive.",
        )
        .unset("1GiB, or a sixth of the memory that the process may use if that is less"),
        // Below 8 KiB the HTTP/1 reader has no room for a head at all.
        key("header_limit", size(8 * KIB, MIB), "The largest request head.").default("64KiB"),
        key(
            "connections_max",
            count(1, 1_000_000),
            "Client connections at once. If the process may not open enough files for them and for \
             those to backends, it takes fewer, and says so at the start and in `/status`.",
        )
        .unset("32768, or fewer if the process may open only few files"),
        key("header_timeout", UP_TO_A_DAY, "How long a client may take to send a request head.")
            .default("10s"),
        key("body_timeout", UP_TO_A_DAY, "How long a client may take to send a request body.")
            .default("60s"),
        key(
            "write_timeout",
            UP_TO_A_DAY,
            "How long a client may accept no byte of a response. Over HTTP/2 the time begins when \
             256 KiB of a stream are unread, or its backend has ended; the client then has to read \
             half of that in this time. It has one second if 16 MiB of all its streams are unread.",
        )
        .default("20s"),
        key("grace", UP_TO_A_DAY, "How long streams may continue after a shutdown begins.")
            .default("30s")
            .aliases(&["grace_seconds"]),
        key(
            "cors_origins",
            Texts(&ORIGIN),
            "The origins of websites that may use the API from a browser (CORS), or `*` for all. \
             Requests of other websites without a key get 403. The status pages are for no other \
             origin. List the gateway's own, such as `http://gateway.example:8430`, if browsers \
             reach it under a domain name, without TLS and without keys.",
        )
        .unset("none"),
        key("headroom_headers", Bool, "Whether responses state the headroom of their band.")
            .default("false"),
        key("orca", Bool, "Whether responses carry an ORCA load report.").default("false"),
        key("tls", Table(&SERVER_TLS), "TLS for clients."),
    ],
);

const SERVER_TLS: SectionSchema = SectionSchema::new(
    "server.tls",
    &[
        key(
            "cert_file",
            Path,
            "A PEM file with the certificate of this server and those of its issuers. It switches \
             TLS on.",
        )
        .unset("no TLS")
        .restart(),
        key("key_file", Path, "A PEM file with the key of the certificate, without a password.")
            .restart(),
        key(
            "certificates",
            Tables(&SERVER_CERTIFICATES),
            "Further certificates. A client gets the one for the name that it asks for (SNI), or \
             else the first.",
        )
        .restart(),
        key(
            "client_ca_file",
            Path,
            "A PEM file with the issuers of client certificates. It switches client certificates \
             on.",
        )
        .unset("clients need no certificate")
        .restart(),
        key(
            "client_certificates",
            Keyword(words::<ClientCertificates>),
            "Whether every client needs a certificate. A certificate that a client has must be \
             good in any case.",
        )
        .default("required")
        .restart(),
        key("handshake_timeout", UP_TO_A_DAY, "How long a client may take for the TLS handshake.")
            .default("10s")
            .restart(),
        key(
            "handshakes_max",
            count(1, 1_000_000),
            "TLS handshakes at once. A further one takes the place of the oldest.",
        )
        .default("1024")
        .restart(),
    ],
)
.doc(
    "The files are read again when they change and on SIGHUP; open connections stay. Files that \
     cannot be used are reported in the log, and the old certificates stay in force. Clients may \
     speak HTTP/1.1 or HTTP/2 (ALPN), with TLS 1.2 or 1.3.",
);

const SERVER_CERTIFICATES: SectionSchema = SectionSchema::new(
    "server.tls.certificates",
    &[
        key("cert_file", Path, "A PEM file with a certificate and those of its issuers.")
            .required(),
        key("key_file", Path, "A PEM file with its key.").required(),
    ],
);

pub(in crate::config) const ADMIN: SectionSchema = SectionSchema::new(
    "admin",
    &[
        key("listen", Address, "A separate address for the status pages and metrics.")
            .unset("the address of the API")
            .restart(),
        key(
            "without_key",
            Keyword(words::<OpenPages>),
            "The pages that need no admin key: all that only read, or `/metrics` and the probes, \
             or only the probes `/health`, `/ready` and `/version`. With tenants or admin keys, a \
             change such as `/dispatch/dead/purge` always needs a key with the right `change`.",
        )
        .unset("all while there are neither tenants nor admin keys, else the probes"),
        key(
            "kubernetes_tokens",
            Bool,
            "Whether bearer tokens of Kubernetes open the pages. The API server says whose a token \
             is (TokenReview), and whether its account may `get` the path of a page, such as \
             `/metrics`, or `post` to that of a change (SubjectAccessReview). The pages then need \
             a token or a key. It needs `[discovery.kubernetes]`.",
        )
        .default("false"),
        key(
            "read_certificates",
            Texts(&NOT_EMPTY),
            "The names of client certificates that read the pages without an admin key.",
        )
        .unset("none"),
        key(
            "change_certificates",
            Texts(&NOT_EMPTY),
            "The same for certificates that also have the right `change`.",
        )
        .unset("none"),
        key(
            "tls",
            Bool,
            "Whether this address needs TLS, with the certificates of `[server.tls]`.",
        )
        .unset("true with `[server.tls]`")
        .restart(),
        key(
            "ready_fails_when_saturated",
            Bool,
            "Whether `/ready` fails while a new request of the normal band would be refused.",
        )
        .default("false"),
    ],
);

pub(in crate::config) const EPP: SectionSchema = SectionSchema::new(
    "epp",
    &[
        key("listen", Address, "The address on which Envoy connects (gRPC: ext_proc and health).")
            .default("127.0.0.1:9002")
            .restart(),
        key(
            "health_listen",
            Address,
            "A second address for the same services, so that health checks do not share \
             connections with Envoy.",
        )
        .default("127.0.0.1:9003")
        .restart(),
        key("metrics_listen", Address, "The address of the metrics and the status pages (HTTP).")
            .default("127.0.0.1:9004")
            .restart(),
        key(
            "fallbacks",
            count(0, 16),
            "How many further endpoints the picker names after the chosen one, for load \
             balancers that take a list.",
        )
        .default("0"),
        key(
            "drain",
            duration(Duration::ZERO, HOUR),
            "How long the picker takes requests after SIGTERM, while its health check already \
             fails.",
        )
        .default("3s"),
        key(
            "conformance",
            Bool,
            "Whether the conformance suite of the Gateway API may choose endpoints by a header. \
             Every client could then do so.",
        )
        .default("false"),
        key(
            "tls",
            Keyword(words::<EppTls>),
            "Whether callers speak TLS: each as it likes (`auto`), all but health checks \
             (`required`), or none (`off`).",
        )
        .default("auto")
        .restart(),
        key(
            "cert_path",
            Path,
            "A folder with the certificate `tls.crt` and its key `tls.key`, which are read again \
             when they change.",
        )
        .unset("a self-signed certificate, made at the start")
        .restart(),
        key("llm_d_metrics", Bool, "Whether metrics also have the names of llm-d's dashboards.")
            .default("false")
            .restart(),
    ],
)
.doc(
    "Only `tidegate epp` reads this section. It listens here instead of at `server.listen`. Envoy \
     connects to the backends, retries and writes to the clients, so `upstream.connect_timeout`, \
     `[retry]`, `server.write_timeout`, `server.cors_origins` and the header `X-Queue-Status` have \
     no effect there. Backends must have IP addresses, and only the address of their URLs counts.",
);

pub(in crate::config) const LOG: SectionSchema = SectionSchema::new(
    "log",
    &[
        key("access", Bool, "Whether each request gets a line in the access log.").default("true"),
        key(
            "decisions",
            Bool,
            "Whether each choice of a backend gets the lines `[Priority]`, `[Queue]` and \
             `[Routing]`.",
        )
        .default("false")
        .restart(),
        key("format", Keyword(words::<LogFormat>), "The format of log lines.")
            .default("text")
            .restart(),
    ],
);

pub(in crate::config) const DBUS: SectionSchema = SectionSchema::new(
    "dbus",
    &[
        key("enabled", Bool, "Whether the queue and the backends are shown on D-Bus.")
            .default("false")
            .aliases(&["efficiency.dbus_enabled"])
            .restart(),
        key("bus", Keyword(words::<Bus>), "The bus on which they are shown.")
            .default("session")
            .restart(),
    ],
);
