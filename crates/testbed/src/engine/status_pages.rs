//! What an engine tells of itself: health, models, and metrics by vLLM's names.

use std::fmt::Write as _;

use http::{Method, Request, Response};
use serde_json::{Value, json};

use super::api::Api;
use super::body::Body;
use super::handler::{Server, document, typed};

/// Answers a request that is not for work.
pub(super) fn respond<B>(server: &Server, request: &Request<B>) -> Response<Body> {
    let path = request.uri().path();
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let known = is_known(path) || Api::of(path).is_some();
        return if known { wrong(405, "method not allowed") } else { missing(path) };
    }
    match path {
        "/" | "/health" | "/ready" => typed("text/plain", Body::whole("")),
        "/v1/models" => document(200, &models(server)),
        "/api/tags" => document(200, &tags(server)),
        "/api/version" => document(200, &json!({"version": env!("CARGO_PKG_VERSION")})),
        "/metrics" => typed("text/plain; version=0.0.4", Body::whole(metrics(server))),
        _ if Api::of(path).is_some() => wrong(405, "method not allowed"),
        _ => missing(path),
    }
}

fn is_known(path: &str) -> bool {
    ["/", "/health", "/ready", "/v1/models", "/api/tags", "/api/version", "/metrics"]
        .contains(&path)
}

fn missing(path: &str) -> Response<Body> {
    let path: String = path.chars().take(100).collect();
    wrong(404, &format!("nothing is at {path}"))
}

fn wrong(status: u16, text: &str) -> Response<Body> {
    document(status, &Api::Chat.error(status, text))
}

fn models(server: &Server) -> Value {
    let model = |name: &String| {
        json!({
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "tidegate",
            "max_model_len": server.control.machine.rules().max_len,
        })
    };
    let models: Vec<Value> = server.settings.models.iter().map(model).collect();
    json!({"object": "list", "data": models})
}

fn tags(server: &Server) -> Value {
    let model = |name: &String| {
        json!({
            "name": name,
            "model": name,
            "modified_at": "2026-01-01T00:00:00Z",
            "size": 0,
            "digest": "",
            "details": {"format": "stand-in", "family": "stand-in"},
        })
    };
    let models: Vec<Value> = server.settings.models.iter().map(model).collect();
    json!({"models": models})
}

fn metrics(server: &Server) -> String {
    let seen = server.control.counters();
    let kv_used = server.control.machine.state().reading.kv_used;
    let model = server.settings.models.first().map(String::as_str).unwrap_or_default();
    let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = format!("{{engine=\"0\",model_name=\"{model}\"}}");
    let gauges = [
        ("vllm:num_requests_running", "sequences in the batch", f64::from(seen.running)),
        ("vllm:num_requests_waiting", "sequences in line", f64::from(seen.waiting)),
        ("vllm:kv_cache_usage_perc", "share of the KV cache in use, from 0 to 1", kv_used),
    ];
    let counters = [
        ("vllm:num_preemptions_total", "sequences thrown back", seen.preemptions as f64),
        ("vllm:request_success_total", "requests answered in full", seen.completed as f64),
        ("tidegate_engine_energy_joules_total", "energy drawn while at work", seen.energy_joules),
    ];
    let gauges = gauges.iter().map(|metric| ("gauge", metric));
    let counters = counters.iter().map(|metric| ("counter", metric));
    let mut page = String::new();
    for (kind, (name, help, value)) in gauges.chain(counters) {
        // Writing to a string cannot fail.
        let _ =
            writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}");
    }
    if let Some((size, blocks)) = server.control.machine.rules().cache {
        let name = "vllm:cache_config_info";
        let labels = format!("{{block_size=\"{size}\",engine=\"0\",num_gpu_blocks=\"{blocks}\"}}");
        let _ = writeln!(page, "# HELP {name} the KV cache\n# TYPE {name} gauge\n{name}{labels} 1");
    }
    page
}
