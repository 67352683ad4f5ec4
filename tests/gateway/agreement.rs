//! M01: pages, response headers, access log, metrics and the clients themselves give the same
//! numbers under load.
//!
//! Three tenants in three bands wait for two full backends, which refuse some requests with 503
//! after a while. Clients and backends measure with one clock, the test's own. Sums are compared,
//! so that one late thread does not matter. The measures of the test include its own scheduling
//! and the network, for which each request has an allowance.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::backend::Seen;
use crate::support::call::Head;
use crate::support::gateway::{TWO, config};
use crate::support::{
    Backend, Call, Gateway, HttpRequest, Metrics, ScriptedResponse, Stopwatch, chat, eventually,
};

const NAMES: [&str; 2] = ["a", "b"];
const BANDS: [&str; 3] = ["best_effort", "normal", "critical"];
const TENANTS: [&str; 3] = ["red", "green", "blue"];
/// The requests at the backends from the start, and those that wait for them.
const RUNNING: usize = 4;
const WAITING: usize = 20;
/// Each backend refuses these of its requests, after this long.
const REFUSED: [usize; 2] = [2, 5];
const REFUSAL_MS: u64 = 1200;
const FIRST_TOKEN_MS: u64 = 300;
const TOKEN_MS: u64 = 60;
const TOKENS: usize = 6;
/// The part by which numbers may differ, and what the test's own measure of a request may add.
const SHARE: f64 = 0.05;
const ALLOWANCE_MS: f64 = 25.0;
/// The weight of the newest value in the means of `/backends`.
const FIRST_BYTE_WEIGHT: f64 = 1.0 / 8.0;
const LATENCY_WEIGHT: f64 = 1.0 / 16.0;

/// A request as its client saw it. Times are those of the test's clock, in milliseconds.
#[derive(Clone, Debug)]
struct Experience {
    id: String,
    band: &'static str,
    sent: f64,
    first_byte: f64,
    ended: f64,
    head: Head,
    tokens: usize,
    bytes: usize,
}

/// The time of a request at the backend that served it, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Service {
    waited: f64,
    first_byte: f64,
    total: f64,
}

/// Everything that was measured.
struct Run {
    gateway: Gateway,
    metrics: Metrics,
    clients: Vec<Experience>,
    log: BTreeMap<String, Value>,
    /// The requests of each backend, with the time of the test's clock at which it started.
    backends: [(f64, Vec<Seen>); 2],
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Asserts that these numbers differ by a twentieth at most, and by the allowances of `requests`.
fn agree(what: &str, numbers: &[(&str, f64)], requests: usize) {
    let values = || numbers.iter().map(|(_, number)| *number);
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
    let within = most * SHARE + requests as f64 * ALLOWANCE_MS;
    assert!(most > 0.0 && most - least <= within, "{what}: {numbers:?}");
}

fn equal<T: PartialEq + Debug>(what: &str, numbers: &[(&str, T)]) {
    assert!(numbers.iter().all(|(_, number)| *number == numbers[0].1), "{what}: {numbers:?}");
}

/// A mean in which the newest value has this weight.
fn smoothed(values: impl Iterator<Item = f64>, weight: f64) -> f64 {
    values.reduce(|mean, value| mean + (value - mean) * weight).unwrap()
}

fn backend() -> Backend {
    Backend::start(|seen| match seen.number {
        number if REFUSED.contains(&number) => {
            ScriptedResponse::json(503, "{}").after_ms(REFUSAL_MS)
        }
        number => {
            let response = ScriptedResponse::stream_paced(TOKENS, TOKEN_MS, number % 2 == 0);
            let response = response.after_ms(FIRST_TOKEN_MS);
            if number < RUNNING / NAMES.len() { response.held() } else { response }
        }
    })
}

fn ask(number: usize) -> (&'static str, HttpRequest) {
    let band = BANDS[number % BANDS.len()];
    let id = format!("client-{number}");
    let ask = chat("m").streamed().tag(&id).header("X-Request-ID", &id);
    let tenant = TENANTS[number / BANDS.len() % TENANTS.len()];
    (band, ask.priority(&band.replace('_', "-")).header("x-team", tenant))
}

/// Sends a request in a thread of its own, which reads its response.
fn client(number: usize, gateway: &Gateway, clock: Stopwatch) -> JoinHandle<Experience> {
    let (address, (band, ask)) = (gateway.address(), ask(number));
    thread::spawn(move || {
        let sent = millis(clock.elapsed());
        let mut call = Call::open(address, &ask.bytes());
        let head = call.head();
        let first_byte = millis(clock.elapsed());
        assert_eq!(head.status, 200, "{head:?}");
        let response = call.finish();
        let ended = millis(clock.elapsed());
        let (id, tokens) = (format!("client-{number}"), response.text().matches("content").count());
        Experience { id, band, sent, first_byte, ended, head, tokens, bytes: response.body.len() }
    })
}

/// The line of each request in the access log, by its id.
fn log(gateway: &Gateway) -> BTreeMap<String, Value> {
    eventually("logged", || {
        let text = gateway.process.access();
        let lines = text.lines().map(serde_json::from_str::<Value>);
        let lines = lines.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let id = |line: &Value| line["request_id"].as_str().unwrap_or_default().to_owned();
        let log: BTreeMap<_, _> = lines.into_iter().map(|line| (id(&line), line)).collect();
        if log.len() == RUNNING + WAITING { Ok(log) } else { Err(text) }
    })
}

fn run() -> Run {
    let clock = Stopwatch::start();
    let backends = [(); 2].map(|()| (millis(clock.elapsed()), backend()));
    let sections = "[server]\nheadroom_headers = true\n[log]\nformat = \"json\"\n\
        [queue]\nflow_by = [\"header:x-team\"]\n";
    let addresses = [(NAMES[0], backends[0].1.address()), (NAMES[1], backends[1].1.address())];
    let gateway = Gateway::start(&config(&format!("{sections}{TWO}"), &addresses));
    let mut clients = Vec::new();
    for number in 0..RUNNING {
        clients.push(client(number, &gateway, clock));
    }
    backends.iter().for_each(|(_, backend)| backend.await_held(RUNNING / NAMES.len()));
    for waiting in 0..WAITING {
        clients.push(client(RUNNING + waiting, &gateway, clock));
        gateway.await_depth(waiting + 1);
    }
    check_gauges(&gateway);
    backends.iter().for_each(|(_, backend)| backend.open());
    let clients = clients.into_iter().map(|client| client.join().unwrap()).collect();
    gateway.await_idle();
    let log = log(&gateway);
    let backends = backends.map(|(began, backend)| (began, backend.seen()));
    Run { metrics: gateway.metrics(), gateway, clients, log, backends }
}

/// Four requests are at two full backends, and twenty wait.
fn check_gauges(gateway: &Gateway) {
    let metrics = gateway.metrics();
    let health = gateway.get("/health").json()["queue"].clone();
    let (flows, backends) = (gateway.get("/flows").json(), gateway.backends());
    let of_flows = |field: &str| -> u64 {
        let flows = flows["flows"].as_array().unwrap().iter();
        flows.map(|flow| flow[field].as_u64().unwrap()).sum()
    };
    let of_backends = |field: &str| -> u64 {
        backends.iter().map(|backend| backend[field].as_u64().unwrap()).sum()
    };
    let number = |name: &str| metrics.sum(name) as u64;
    equal(
        "waiting",
        &[
            ("clients", WAITING as u64),
            ("/health", health["depth"].as_u64().unwrap()),
            ("/flows", of_flows("queue_depth")),
            ("nexus_queue_depth", number("nexus_queue_depth")),
            ("queue_length", number("tidegate_queue_length")),
        ],
    );
    equal(
        "in flight",
        &[
            ("clients", RUNNING as u64),
            ("/health", health["in_flight"].as_u64().unwrap()),
            ("/flows", of_flows("in_flight")),
            ("/backends", of_backends("queue_depth")),
            ("stock of /backends", of_backends("stock")),
            ("requests_in_flight", number("tidegate_requests_in_flight")),
            ("backend_in_flight", number("tidegate_backend_in_flight")),
            ("stock_level", number("tidegate_stock_level")),
            ("backend_stock", number("tidegate_backend_stock")),
            // They are full, and not beyond.
            ("watermark", number("tidegate_watermark")),
        ],
    );
    assert_eq!(metrics.sum("tidegate_saturation"), 1.0);
    for backend in &backends {
        let id = backend["id"].as_str().unwrap();
        for band in BANDS {
            let labels = format!("backend=\"{id}\",band=\"{band}\"");
            let counted = metrics.sum_where("tidegate_backend_in_flight", &labels);
            assert_eq!(backend["priority_counts"][band].as_f64(), Some(counted), "{backend}");
        }
        assert_eq!(backend["limits"]["watermark"], 2.0, "{backend}");
    }
}

// === impl Experience ===

impl Experience {
    fn header(&self, name: &str) -> &str {
        let found = self.head.headers.iter().find(|(key, _)| key == name);
        found.map_or_else(|| panic!("no {name}: {self:?}"), |(_, value)| value)
    }

    fn number(&self, name: &str) -> f64 {
        self.header(name).parse().unwrap()
    }
}

// === impl Run ===

impl Run {
    /// The time that a request had at its backend, by the clocks of client and backend alone.
    fn service(&self, client: &Experience) -> Service {
        let at = NAMES.iter().position(|name| *name == client.header("x-backend-used")).unwrap();
        let attempts = |(began, seen): &(f64, Vec<Seen>)| -> Vec<f64> {
            let own = seen.iter().filter(|seen| seen.tag() == client.id);
            own.map(|seen| began + millis(seen.at)).collect()
        };
        let served = *attempts(&self.backends[at]).last().unwrap();
        let refused =
            self.backends.iter().map(|backend| attempts(backend).len()).sum::<usize>() - 1;
        Service {
            waited: served - client.sent - (refused as u64 * REFUSAL_MS) as f64,
            first_byte: client.first_byte - served,
            total: client.ended - served,
        }
    }

    /// A sum over the clients of a band.
    fn sum(&self, band: &str, of: impl Fn(&Experience) -> f64) -> f64 {
        self.clients.iter().filter(|client| client.band == band).map(of).sum()
    }

    fn logged(&self, client: &Experience, field: &str) -> f64 {
        let line = &self.log[&client.id];
        line[field].as_f64().unwrap_or_else(|| panic!("no {field}: {line}"))
    }

    /// The sum of a histogram over the series of a band, in milliseconds.
    fn measured(&self, name: &str, band: &str) -> f64 {
        let labels = format!("band=\"{band}\"");
        self.metrics.sum_where(&format!("tidegate_{name}_seconds_sum"), &labels) * 1e3
    }

    fn count(&self, name: &str, labels: &str) -> usize {
        self.metrics.sum_where(&format!("tidegate_{name}"), labels) as usize
    }

    fn check_counts(&self) {
        let waits = self.count("queue_latency_seconds_count", "success=\"true\"");
        equal(
            "requests",
            &[
                ("clients", self.clients.len()),
                ("log", self.log.values().filter(|line| line["outcome"] == "ok").count()),
                ("requests_total", self.count("requests_total", "outcome=\"ok\"")),
                ("attempts", self.count("backend_attempts_total", "answered")),
                ("durations", self.count("request_duration_seconds_count", "")),
                ("first bytes", self.count("time_to_first_byte_seconds_count", "")),
                ("waits and bypasses", waits + self.count("bypass_total", "")),
                ("offers", self.count("offers_total", "")),
            ],
        );
        let attempts = |line: &Value| line["attempts"].as_u64().unwrap() as usize;
        equal(
            "refusals",
            &[
                ("backends", NAMES.len() * REFUSED.len()),
                ("log", self.log.values().map(|line| attempts(line) - 1).sum()),
                ("retries_total", self.count("retries_total", "")),
                ("requeues_total", self.count("requeues_total", "")),
                ("attempts", self.count("backend_attempts_total", "full")),
            ],
        );
        for (name, (_, seen)) in NAMES.iter().zip(&self.backends) {
            let used = |client: &&Experience| client.header("x-backend-used") == *name;
            let labels = format!("backend=\"{name}\",result=\"answered\"");
            equal(
                "served by a backend",
                &[
                    ("backend", seen.len() - REFUSED.len()),
                    ("clients", self.clients.iter().filter(used).count()),
                    ("log", self.log.values().filter(|line| line["backend"] == *name).count()),
                    ("attempts", self.count("backend_attempts_total", &labels)),
                ],
            );
        }
        equal(
            "tokens",
            &[
                ("backends", self.clients.len() * TOKENS),
                ("clients", self.clients.iter().map(|client| client.tokens).sum()),
                (
                    "log",
                    self.log
                        .values()
                        .map(|line| line["output_tokens"].as_u64().unwrap())
                        .sum::<u64>() as usize,
                ),
                ("tokens_total", self.count("tokens_total", "output")),
            ],
        );
        equal(
            "bytes",
            &[
                ("clients", self.clients.iter().map(|client| client.bytes).sum()),
                (
                    "log",
                    self.log.values().map(|line| line["bytes_out"].as_u64().unwrap()).sum::<u64>()
                        as usize,
                ),
                ("body_bytes_total", self.count("body_bytes_total", "output")),
            ],
        );
    }

    fn check_times(&self, band: &str) {
        let requests = self.clients.iter().filter(|client| client.band == band).count();
        let log = |field: &'static str| self.sum(band, |client| self.logged(client, field));
        agree(
            "wait",
            &[
                ("clients", self.sum(band, |client| self.service(client).waited)),
                ("header", self.sum(band, |client| client.number("x-queue-wait-ms"))),
                (
                    "second header",
                    self.sum(band, |client| client.number("x-llm-d-flow-queue-duration-ms")),
                ),
                ("log", log("wait_ms")),
                ("metrics", self.measured("queue_latency", band)),
            ],
            requests,
        );
        agree(
            "first byte",
            &[
                ("clients", self.sum(band, |client| client.first_byte - client.sent)),
                ("log", log("first_byte_ms")),
                ("metrics", self.measured("time_to_first_byte", band)),
            ],
            requests,
        );
        agree(
            "duration",
            &[
                ("clients", self.sum(band, |client| client.ended - client.sent)),
                ("log", log("total_ms")),
                ("metrics", self.measured("request_duration", band)),
            ],
            requests,
        );
    }

    /// The recent means of a backend, which are smoothed in the order of the responses.
    fn check_means(&self, backend: &str) {
        let used = |client: &&Experience| client.header("x-backend-used") == backend;
        let mut clients: Vec<_> = self.clients.iter().filter(used).collect();
        clients.sort_by(|a, b| a.first_byte.total_cmp(&b.first_byte));
        let first_bytes = clients.iter().map(|client| self.service(client).first_byte);
        let first_byte = smoothed(first_bytes, FIRST_BYTE_WEIGHT);
        clients.sort_by(|a, b| a.ended.total_cmp(&b.ended));
        let totals = clients.iter().map(|client| self.service(client).total);
        let total = smoothed(totals, LATENCY_WEIGHT);
        let page = self.gateway.backend(backend);
        let shown = |field: &str| ("/backends", page[field].as_f64().unwrap());
        agree("first byte of a backend", &[("clients", first_byte), shown("first_byte_ms")], 1);
        agree("duration at a backend", &[("clients", total), shown("avg_latency_ms")], 1);
    }

    fn check_decision(&self, client: &Experience) {
        let line = &self.log[&client.id];
        let told =
            ["x-backend-used", "x-routing-reason", "x-request-id"].map(|name| client.header(name));
        let logged = ["backend", "reason", "request_id"].map(|name| line[name].as_str().unwrap());
        assert_eq!(told, logged, "{line}");
        assert_eq!(client.number("x-priority-boost"), self.logged(client, "boost"), "{line}");
        assert!(client.number("x-queue-depth") < 2.0, "{client:?}");
        assert_eq!((&line["status"], &line["priority"]), (&json!(200), &json!(client.band)));
    }
}

/// The time at a backend that refused the request is no wait in the queue.
#[test]
fn m01_the_wait_of_a_request_that_expires_is_its_time_in_the_queue() {
    let refusal = || ScriptedResponse::with_headers(503, &["retry-after: 30"], "{}");
    let backend = Backend::start(move |_| refusal().after_ms(REFUSAL_MS));
    let sections = format!("[log]\nformat = \"json\"\n[queue]\nqueue_ttl = \"3s\"\n{TWO}");
    let gateway = Gateway::before(&sections, &backend);
    gateway.ask(&chat("m")).refused(503, "queue_timeout");
    let line: Value = eventually("logged", || {
        serde_json::from_str(&gateway.process.access()).map_err(|error| error.to_string())
    });
    let [waited, total] = ["wait_ms", "total_ms"].map(|field| line[field].as_f64().unwrap());
    assert!(waited > 0.0 && waited + REFUSAL_MS as f64 <= total, "{line}");
    let measured = gateway.metrics().sum("tidegate_queue_latency_seconds_sum") * 1e3;
    assert!((measured - waited).abs() < 1.0, "{measured} {line}");
}

#[test]
fn m01_all_numbers_of_a_request_agree_under_load() {
    let run = run();
    run.check_counts();
    BANDS.iter().for_each(|band| run.check_times(band));
    NAMES.iter().for_each(|backend| run.check_means(backend));
    run.clients.iter().for_each(|client| run.check_decision(client));
}
