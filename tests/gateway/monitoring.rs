//! M03: the metrics by which operators watch backends, and the files in `deploy/` that use them:
//! the dashboard of Grafana and the rules of Prometheus.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::tenant_rights::upload;
use crate::support::gateway::{CONFIGURED, ONE, config};
use crate::support::keys::Keys;
use crate::support::tools::{run, tool};
use crate::support::{Backend, Call, Engine, Gateway, HttpRequest, Prometheus, chat, eventually};

fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file)
}

/// A gateway with everything that has metrics: an engine with metrics of its own, a tenant, a
/// batch behind a closed gate, the names of llm-d, and requests of the tenant that run and wait.
struct LoadedGateway {
    gateway: Gateway,
    engine: Engine,
    _calls: Vec<Call>,
}

// === impl LoadedGateway ===

impl LoadedGateway {
    /// The first request has this many tokens, and `waiting` others with 20 each wait behind it.
    fn start(tokens: u32, waiting: usize) -> Self {
        let keys = Keys::new();
        let key = keys.tenant("lab", "laptop");
        let engine = Engine::start(&["--model", "m", "--inter-token-latency", "10ms"]);
        let sections = format!(
            "[epp]\nllm_d_metrics = true\n[traces]\nendpoint = \"http://127.0.0.1:1\"\n\
             {}[admin]\nwithout_key = \"all\"\n\
             [[tenants]]\nname = \"lab\"\n\
             [batch]\nfolder = \"batch\"\n[[dispatch.queues]]\nname = \"batch\"\n\
             gates = [\"shut\"]\n[[dispatch.gates]]\nname = \"shut\"\nkind = \"constant\"\n\
             value = 0.0\ncapacity = 1000\n{ONE}",
            keys.section()
        );
        let gateway = Gateway::start(&config(&sections, &[("one", engine.address())]));
        submit_batch(&gateway, &key);
        let ask = |tokens: u32| chat("m").with("max_tokens", tokens).key(&key).streamed();
        assert_eq!(gateway.ask(&ask(2)).status, 200);
        // Its response says how much of the prompt was cached.
        let body = r#"{"model":"m","input":"hello","max_output_tokens":2}"#;
        assert_eq!(gateway.ask(&HttpRequest::post("/v1/responses", body).key(&key)).status, 200);
        let mut calls = vec![gateway.send(&ask(tokens))];
        gateway.await_metrics("running", |metrics| {
            let running = metrics.sum("tidegate_requests_in_flight");
            if running == 1.0 { Ok(()) } else { Err(format!("{running} run")) }
        });
        calls.extend((0..waiting).map(|_| gateway.send(&ask(20))));
        gateway.await_metrics("waiting", |metrics| {
            let depth = metrics.sum("nexus_queue_depth");
            if depth > 0.0 { Ok(()) } else { Err("none waits".into()) }
        });
        // It is late, or its flow is full.
        let refused = chat("m").key(&key).header("x-request-timeout-ms", "1");
        assert!(gateway.ask(&refused).status >= 500);
        Self { gateway, engine, _calls: calls }
    }
}

/// Creates a batch of one request.
fn submit_batch(gateway: &Gateway, key: &str) {
    let file = gateway.ask(&upload(key, 1)).json();
    let batch = json!({"input_file_id": file["id"], "endpoint": "/v1/chat/completions",
        "completion_window": "24h"});
    let made = gateway.ask(&HttpRequest::post("/v1/batches", batch.to_string()).key(key));
    assert_eq!(made.status, 200, "{}", made.text());
}

#[test]
fn m03_slow_and_full_engines_can_be_seen_in_the_metrics() {
    // The first runs for the time of the test.
    let loaded = LoadedGateway::start(2000, 1);
    let gateway = &loaded.gateway;
    gateway.await_metrics("read", |metrics| {
        let running = metrics.sum_where("tidegate_backend_engine_running", "backend=\"one\"");
        let kv_used = metrics.sum("tidegate_backend_kv_used_ratio");
        let seen = running == 1.0 && kv_used > 0.0 && kv_used <= 1.0;
        if seen { Ok(()) } else { Err(format!("{running} run, {kv_used} used")) }
    });
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tidegate_backend_engine_waiting"), 0.0);
    let first_bytes = "tidegate_backend_time_to_first_byte_seconds";
    assert_eq!(metrics.sum(&format!("{first_bytes}_count")), 2.0, "two requests have ended");
    let seconds = metrics.sum(&format!("{first_bytes}_sum"));
    assert!((0.2..10.0).contains(&seconds), "the engine takes 150 ms for a prompt: {seconds}");
    let oldest = |band: &str| metrics.sum_where("tidegate_queue_oldest_seconds", band);
    assert!(oldest("normal") > 0.0 && oldest("high") == 0.0 && oldest("critical") == 0.0);
}

#[test]
fn m03_the_state_of_a_backend_is_a_series_that_goes_with_the_backend() {
    let (stays, leaves) = (Backend::quick(), Backend::quick());
    let gateway = Gateway::launch(CONFIGURED);
    gateway.list(&[&stays, &leaves]);
    gateway.await_ready(2);
    let named = |backend: &Backend| format!("backend=\"e{}\"", backend.address().port());
    let series = |backend: &Backend, name: &str| gateway.metrics().has_where(name, &named(backend));
    for _ in 0..8 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
    }
    let counters =
        ["tidegate_backend_attempts_total", "tidegate_backend_time_to_first_byte_seconds_count"];
    for name in counters.into_iter().chain(["tidegate_backend_state"]) {
        assert!(series(&stays, name) && series(&leaves, name), "{name}");
    }
    leaves.set_healthy(false);
    let state = |backend: &Backend, state: &str| {
        let labels = format!("{},state=\"{state}\"", named(backend));
        gateway.metrics().sum_where("tidegate_backend_state", &labels)
    };
    eventually("unready", || {
        let found = [state(&leaves, "ready"), state(&leaves, "unready"), state(&stays, "ready")];
        if found == [0.0, 1.0, 1.0] { Ok(()) } else { Err(format!("{found:?}")) }
    });
    gateway.list(&[&stays]);
    eventually("gone", || {
        if series(&leaves, "tidegate_backend_state") { Err("still there".into()) } else { Ok(()) }
    });
    assert!(series(&stays, "tidegate_backend_state"));
}

/// An expression of the dashboard as Grafana sends it.
fn filled_in(expression: &str) -> String {
    expression.replace("$__rate_interval", "30s").replace("$job", ".*").replace("$instance", ".*")
}

/// Every expression of the dashboard, with the title of its panel.
fn dashboard() -> Vec<(String, String)> {
    let text = fs::read_to_string(deployed("grafana/tidegate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut expressions = Vec::new();
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = filled_in(target["expr"].as_str().unwrap());
            expressions.push((panel["title"].to_string(), expression));
        }
    }
    assert!(expressions.len() > 30, "{}", expressions.len());
    expressions
}

/// The metrics of the gateway that an expression names.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = expression.split(|c| !letter(c));
    words.filter(|word| word.starts_with("tidegate_")).map(str::to_owned).collect()
}

/// The metrics that the dashboard of the inference extension 1.5 asks for, with the labels by which
/// it sums them up. It shows rates of counters, quantiles of histograms and gauges as they are.
const PICKER_DASHBOARD: [(&str, &[&str]); 18] = [
    ("inference_pool_average_kv_cache_utilization", &["name"]),
    ("inference_pool_average_queue_size", &["name"]),
    ("inference_pool_per_pod_queue_size", &["name", "model_server_pod"]),
    ("inference_pool_ready_pods", &["name"]),
    ("inference_objective_request_duration_seconds_bucket", &["le"]),
    ("inference_objective_request_total", &["model_name", "target_model_name"]),
    ("inference_objective_request_error_total", &["error_code", "model_name", "target_model_name"]),
    ("inference_objective_request_sizes_bucket", &["le"]),
    ("inference_objective_response_sizes_bucket", &["le"]),
    ("inference_objective_input_tokens_bucket", &["le"]),
    ("inference_objective_output_tokens_bucket", &["le"]),
    ("inference_objective_running_requests", &["model_name"]),
    ("inference_extension_flow_control_pool_saturation", &["inference_pool"]),
    ("inference_extension_flow_control_queue_size", &["priority", "fairness_id"]),
    ("inference_extension_flow_control_queue_bytes", &["priority", "fairness_id"]),
    (
        "inference_extension_flow_control_request_queue_duration_seconds_count",
        &["priority", "fairness_id", "outcome"],
    ),
    (
        "inference_extension_flow_control_request_queue_duration_seconds_bucket",
        &["priority", "fairness_id", "le"],
    ),
    (
        "inference_extension_flow_control_request_enqueue_duration_seconds_count",
        &["priority", "fairness_id"],
    ),
];

#[test]
fn x02_m01_the_dashboard_of_the_inference_extension_finds_its_metrics() {
    let loaded = LoadedGateway::start(2, 100);
    let prometheus = Prometheus::scraping(&[(loaded.gateway.address(), &[])]);
    for (metric, labels) in PICKER_DASHBOARD {
        let wanted: Vec<String> = labels.iter().map(|label| format!("{label}!=\"\"")).collect();
        let series = format!("{metric}{{{}}}", wanted.join(","));
        let sums = format!("sum by({})", labels.join(","));
        let query = match metric.ends_with("_bucket") {
            true => format!("histogram_quantile(0.9, {sums} (rate({series}[1m])))"),
            false if metric.ends_with("_total") || metric.ends_with("_count") => {
                format!("{sums} (rate({series}[1m]))")
            }
            false => format!("{sums} ({series})"),
        };
        eventually(&query, || match prometheus.query(&query).is_empty() {
            true => Err("no series".into()),
            false => Ok(()),
        });
    }
    let waiting = "sum(inference_extension_flow_control_queue_bytes)";
    eventually("bytes of the bodies that wait", || match prometheus.query(waiting)[0] > 0.0 {
        true => Ok(()),
        false => Err(waiting.into()),
    });
}

#[test]
fn m03_every_query_of_the_dashboard_and_the_rules_finds_series() {
    let loaded = LoadedGateway::start(2, 100);
    let targets = [(loaded.gateway.address(), &[][..]), (loaded.engine.address(), &[][..])];
    let prometheus = Prometheus::scraping_with(&targets, &deployed("prometheus/rules.yml"));
    let found = |expression: &str| {
        eventually(expression, || {
            if prometheus.query(expression).is_empty() { Err("no series".into()) } else { Ok(()) }
        });
    };
    for (_, expression) in dashboard() {
        found(&expression);
    }
    let rules = prometheus.rules();
    assert!(rules.len() > 10, "{}", rules.len());
    for rule in &rules {
        let query = rule["query"].as_str().unwrap();
        metrics_in(query).iter().for_each(|metric| found(metric));
    }
    eventually("evaluated", || {
        let rules = prometheus.rules();
        let bad = rules.iter().find(|rule| rule["health"] != "ok");
        bad.map_or(Ok(()), |rule| Err(rule.to_string()))
    });
}

#[test]
fn m03_the_alerts_fire_when_they_should_and_name_a_heading_of_the_runbook() {
    run(tool("promtool").args(["test", "rules"]).arg(deployed("prometheus/rules_test.yml")));
    let rules = fs::read_to_string(deployed("prometheus/rules.yml")).unwrap();
    let cases = fs::read_to_string(deployed("prometheus/rules_test.yml")).unwrap();
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    for alert in &alerts {
        assert!(cases.contains(&format!("alertname: {alert}\n")), "{alert} has no case");
    }
    let pages: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("runbook: ")).collect();
    assert_eq!(pages.len(), alerts.len());
    for page in pages {
        let (file, heading) = page.split_once('#').unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{page}: {error}"));
        let headings = text.lines().filter(|line| line.starts_with('#'));
        let mut headings = headings.map(|line| line.trim_start_matches(['#', ' ', '`']));
        assert!(headings.any(|text| text.trim_end_matches('`') == heading), "{page}");
    }
}

const METRICS_HEAD: &str = "# Metrics

All metrics of `tidegate serve`, `epp` and `dispatch`, as `GET /metrics` explains them. This page is
generated from a running gateway: `UPDATE_DOCUMENTS=1 cargo test --test main m03_the_reference`
brings it up to date. [GATEWAY.md](GATEWAY.md#metrics) explains the labels and has queries. The
metrics of tenants, of batch work (`tidegate_dispatch_*`) and of traces exist only if the
configuration has these parts. `llm_d_epp_*`, `inference_extension_*` and `inference_pool_*` are the
names of llm-d's picker ([EPP.md](EPP.md#metrics)); they exist only with `epp.llm_d_metrics`.

| metric | type | labels | meaning |
|---|---|---|---|
";

/// The reference of all families of a text; an error names a family without a sample, whose labels
/// are unknown.
fn reference(text: &str) -> Result<String, String> {
    let mut document = String::from(METRICS_HEAD);
    for line in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = line.split_once(' ').unwrap();
        let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")));
        let labels_of = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let rest = rest.strip_prefix("_count").unwrap_or(rest);
            let fields = rest.strip_prefix('{').or(rest.strip_prefix(' '))?;
            let (before_values, _) = fields.rsplit_once("=\"").unwrap_or_default();
            let names = before_values.split("=\"").filter_map(|part| part.rsplit(',').next());
            Some(names.filter(|name| !name.is_empty()).map(|name| format!("`{name}`")).collect())
        };
        let labels: Option<Vec<String>> = text.lines().find_map(labels_of);
        let labels = labels.ok_or_else(|| format!("{name} has no sample"))?.join(", ");
        document += &format!("| `{name}` | {} | {labels} | {help} |\n", kind.unwrap());
    }
    Ok(document)
}

#[test]
fn m03_the_reference_of_metrics_is_what_a_gateway_writes() {
    let loaded = LoadedGateway::start(2, 100);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/METRICS.md");
    let written = eventually("samples", || reference(&loaded.gateway.get("/metrics").text()));
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        fs::write(&path, &written).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let missing: Vec<&str> =
        written.lines().filter(|line| !committed.lines().any(|other| other == *line)).collect();
    assert!(committed == written, "docs/METRICS.md differs: {missing:#?}");
}
