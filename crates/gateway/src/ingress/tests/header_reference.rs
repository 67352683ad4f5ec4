//! `docs/HEADERS.md`: every header that the gateway reads or writes. The names are those in the
//! source, and whether a request header reaches a backend is asked of the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::headers::{self, ends_here};

/// Set, the test writes the document instead of comparing it.
const UPDATE: &str = "UPDATE_DOCUMENTS";

const HEAD: &str = "# Headers

Every header that the gateway reads or writes. [GATEWAY.md](GATEWAY.md#request-headers) has the \
rules behind them. This
page is generated from the code: `UPDATE_DOCUMENTS=1 cargo test --workspace --lib -- \
header_reference` brings it up to date.
";

const REQUESTS: &str = "
## Request headers

*Forwarded* says whether the header reaches the backend as the client sent it. Headers that are \
not listed are forwarded,
with the exceptions in [GATEWAY.md](GATEWAY.md#request-headers).

| header | forwarded | meaning |
|---|---|---|
";

const RESPONSES: &str = "
## Response headers

They replace headers of the same names that a backend sends.

| header | meaning |
|---|---|
";

const BACKENDS: &str = "
## Headers that only the gateway's own parts exchange

| header | meaning |
|---|---|
";

/// Names and meanings, in the order of the document.
type Rows = &'static [(&'static str, &'static str)];

const READ: Rows = &[
    ("authorization", "the API key, after `Bearer`; with tenants it is removed"),
    ("x-api-key", "the same without a word before it"),
    ("api-key", "the same"),
    ("x-priority", "the band: `critical`, `high`, `normal` or `best-effort`"),
    ("x-nexus-priority", "the band: `high` or `normal`"),
    ("x-gateway-inference-objective", "the name of an objective, or a number, which give a band"),
    ("x-llm-d-inference-objective", "the same under its other name, which goes first"),
    ("x-media-type", "`realtime` is critical, `audio` is high"),
    ("x-gateway-inference-fairness-id", "the flow, if `queue.flow_by` has `fairness_id`"),
    ("x-llm-d-inference-fairness-id", "the same under its other name, which goes first"),
    ("x-gateway-model-name-rewrite", "the model that serves instead of the one in the body"),
    ("x-llm-d-model-name-rewrite", "the same under its other name, which goes first"),
    ("x-workload-context", "the workload, as JSON"),
    ("x-session-id", "the session: one backend is preferred for all its requests"),
    ("x-max-latency-ms", "the longest latency that the backend should have"),
    ("x-latency-critical", "`true`: backends are scored as for a critical request"),
    ("x-slo-ttft-ms", "the objective for the time to the first token"),
    ("x-llm-d-slo-ttft-ms", "the same under its other name, which goes first"),
    ("x-max-power-watts", "the most power that the backend should draw"),
    ("x-power-efficient", "`true`: power is weighed as for a best-effort request"),
    ("x-target-backend", "the id of the backend that serves the request"),
    ("x-request-timeout-ms", "how long the client waits for a response"),
    ("x-deadline-ms", "the same as a point in time, in milliseconds since 1970"),
    ("grpc-timeout", "the same, as gRPC writes it: `500m` is half a second, `2S` two seconds"),
    ("x-stainless-read-timeout", "the same in seconds, of OpenAI's library for Python"),
    ("x-stainless-timeout", "the same in whole seconds, rounded down, of the one for JavaScript"),
    ("x-envoy-upstream-rq-timeout-ms", "the same, from a client of Envoy; 0 is no limit"),
    ("x-envoy-expected-rq-timeout-ms", "the same, from an Envoy in front of `serve`"),
    ("x-llm-d-inference-ttl", "the longest wait in the queue; it can only shorten the time"),
    ("x-queue-status", "`sse`: the stream tells the place in the queue"),
    ("x-request-id", "the id of the request; one that is absent or no short text is made anew"),
    ("traceparent", "the trace of W3C to which the request belongs; with traces a child of it"),
    ("tracestate", "goes with `traceparent`"),
    ("content-type", "tells JSON from a form"),
    ("content-encoding", "`gzip` and `deflate` are decoded, so that the body can be read"),
    ("test-epp-endpoint-selection", "`epp` only: the endpoint that a conformance test selects"),
    ("sec-fetch-site", "`same-origin` of a browser: a page of the gateway itself asks"),
    ("sec-fetch-mode", "tells Node.js from a browser without TLS"),
    (
        "accept-language",
        "a browser may have sent the request; see [SECURITY.md](SECURITY.md#websites)",
    ),
    ("referer", "the same"),
    ("origin", "the website that sent the request, by the browser; see `server.cors_origins`"),
    ("host", "whether the page is the gateway's own, and whether a stranger may own the name"),
    ("access-control-request-method", "a preflight of a browser, which the gateway answers"),
    ("access-control-request-headers", "what the page wants to send"),
    ("accept", "`/metrics`: OpenMetrics or the text of Prometheus, by `q`"),
    ("accept-encoding", "it is removed, because the gateway reads the response"),
    ("x-forwarded-for", "`epp` without tenants: whose share of `bodies_limit` the body takes"),
    (
        "forwarded",
        "a proxy sent it, so without a key it changes nothing; see \
         [SECURITY.md](SECURITY.md#status-pages)",
    ),
    ("via", "the same"),
    ("x-real-ip", "the same, as `x-forwarded-for` shows it"),
    ("expect", "`100-continue`: the body is read after it was asked for"),
];

const WRITTEN: Rows = &[
    ("x-backend-used", "the backend"),
    ("x-routing-reason", "why the router chose it"),
    ("x-queue-depth", "the requests at that backend when the request was sent"),
    ("x-queue-wait-ms", "how long the request waited in the queue"),
    ("x-priority-boost", "what the band adds to the score of a backend"),
    ("x-estimated-power-w", "the power of the backend, if it is configured"),
    ("x-estimated-power-watts", "the same under its longer name"),
    (
        "x-estimated-latency-ms",
        "the backend's time to the first token, or of a response in one piece",
    ),
    ("x-request-id", "the id of the request in the logs, for `tidegate explain`"),
    ("x-llm-d-flow-band-headroom-requests", "the places of the band that are left"),
    ("x-llm-d-flow-queue-duration-ms", "with `server.headroom_headers`, as the one above"),
    ("x-llm-d-request-dropped-reason", "`epp` only: why a request was refused"),
    (
        "x-failed-attempts",
        "with `queue_timeout`: how often backends failed the request before its time was over",
    ),
    ("x-conformance-test-served-endpoint", "`epp` only: where a request was served"),
    ("endpoint-load-metrics", "with `server.orca`: how full the queue is, in the format of ORCA"),
    ("retry-after", "when a refused request should be sent again, in seconds"),
    ("www-authenticate", "with 401: `Bearer`"),
    ("allow", "with 405: the methods of the path"),
    ("vary", "`Origin`, with `server.cors_origins`"),
    ("access-control-allow-origin", "with `server.cors_origins`; those of backends are removed"),
    ("access-control-allow-methods", "to a preflight"),
    ("access-control-allow-headers", "to a preflight: what it asked for"),
    ("access-control-expose-headers", "`*`: a named website may read all headers"),
    ("access-control-max-age", "how long a browser remembers a preflight"),
    ("cache-control", "`no-store`: status pages and streams of the gateway itself"),
    ("content-security-policy", "the live page"),
    ("referrer-policy", "the live page"),
    ("x-content-type-options", "`nosniff`, in each response that the gateway writes itself"),
    ("x-next-after", "`/usage` as CSV: the value of `after` for the next page"),
    ("x-accel-buffering", "`/status/stream`: `no`, so that nginx passes each event on"),
];

const OWN: Rows = &[
    ("x-gateway-dispatch-key", "the key of the own dispatcher, made at each start"),
    ("grpc-status", "`epp`: the status of a call of gRPC"),
    ("grpc-message", "`epp`: why a call of gRPC failed"),
];

fn names(rows: Rows) -> impl Iterator<Item = String> {
    rows.iter().map(|(name, _)| (*name).to_owned())
}

/// The text between a start and the next quotation mark, at each place where the start stands.
fn quoted<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Headers that every message of HTTP has, or that only the connection of one hop has.
const PLUMBING: [&str; 7] =
    ["connection", "content-length", "te", "transfer-encoding", "upgrade", "user-agent", "trailer"];

/// The standard headers that a source names, as in `header::{ACCEPT, HOST}`.
fn standard(code: &str) -> impl Iterator<Item = String> {
    let lists = code.split("header::").skip(1).flat_map(|rest| {
        let end = if rest.starts_with('{') { '}' } else { ';' };
        rest.split(end).next().unwrap_or_default().trim_start_matches('{').split([',', ' ', '\n'])
    });
    let is_name = |word: &&str| {
        let is_letter = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        word.len() > 1 && word.chars().all(is_letter)
    };
    let names = lists.map(str::trim).filter(is_name);
    let names = names.map(|name| name.to_ascii_lowercase().replace('_', "-"));
    names.filter(|name| !PLUMBING.contains(&name.as_str()))
}

/// The names of headers in the source of a folder, tests left out.
fn in_source(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            in_source(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
            // A long constant stands on a line of its own.
            let code = code.replace("from_static(\n", "from_static(").replace("(        ", "(");
            let constants = quoted(&code, "HeaderName::from_static(\"");
            found.extend(constants.map(str::to_owned));
            found.extend(standard(&code));
        }
    }
}

/// The names that the gateway looks for in the head of a request.
fn control_headers() -> BTreeSet<String> {
    let source = include_str!("../headers.rs");
    let (_, places) = source.split_once("fn place(").unwrap();
    let (places, _) = places.split_once("_ => return None").unwrap();
    let (plain, prefixed) = places.split_once("Some(match rest {").unwrap();
    let arms = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains("=>") && line.contains("&mut"));
        lines.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
    };
    let prefixed = arms(prefixed).into_iter().map(|name| format!("x-{name}"));
    arms(plain).into_iter().chain(prefixed).collect()
}

fn reference() -> String {
    let forwarded = |name: &str| match name {
        _ if ends_here(name) => "no",
        "authorization" | "x-api-key" | "api-key" => "without tenants",
        "x-request-id" | "traceparent" | "content-encoding" | "content-type" => {
            "may be written anew"
        }
        _ => "yes",
    };
    let read =
        READ.iter().map(|(name, what)| format!("| `{name}` | {} | {what} |\n", forwarded(name)));
    let plain = |rows: Rows| -> String {
        rows.iter().map(|(name, what)| format!("| `{name}` | {what} |\n")).collect()
    };
    let read: String = read.collect();
    format!("{HEAD}{REQUESTS}{read}{RESPONSES}{}{BACKENDS}{}", plain(WRITTEN), plain(OWN))
}

#[test]
fn c09_the_reference_of_headers_is_generated_from_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut source = control_headers();
    assert!(source.contains("x-queue-status") && source.contains("content-type"), "{source:?}");
    in_source(&root.join("src"), &mut source);
    source.insert(headers::WORKLOAD.to_owned());
    source.insert("authorization".to_owned());
    let listed: BTreeSet<String> = names(READ).chain(names(WRITTEN)).chain(names(OWN)).collect();
    assert_eq!(listed, source, "the tables and the code have the same headers");
    let (path, written) = (root.join("../../docs/HEADERS.md"), reference());
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &written).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == written, "docs/HEADERS.md differs: set {UPDATE}=1 to bring it up to date");
}
