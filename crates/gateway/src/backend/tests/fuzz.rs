//! Mutated lists of models, metrics pages of engines and endpoints files.

use std::path::Path;

use super::super::{endpoints_file, engine_metrics, model_list};
use crate::fuzz::fuzz;

const LISTS: [&[u8]; 3] = [
    br#"{"object":"list","data":[{"id":"llama","object":"model","max_model_len":8192},
        {"id":"lora-a","parent":"llama","root":"/x"}]}"#,
    br#"{"models":[{"name":"llama3:latest","model":"llama3:latest","size":1,"details":{}}]}"#,
    br#"{"data":[{"id":"a"},{"id":7},null]}"#,
];

#[test]
fn x03_fuzz_model_lists() {
    fuzz("model-lists", &LISTS, &[b"\"id\":", b"\"data\":[", b"\"models\":["], |input, _| {
        let count = |list: Option<Vec<_>>| list.map_or(-1, |list| list.len().min(5) as i32);
        let openai = count(model_list::openai_list(input));
        format!("{openai} {}", count(model_list::ollama_list(input)))
    });
}

const PAGE: &[u8] = b"# HELP vllm:num_requests_running Requests.\n\
    # TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 3.0\n\
    vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 1.0 1700000000000\n\
    vllm:kv_cache_usage_perc{model_name=\"a\\\"b\"} 0.25\n\
    vllm:lora_requests_info{running_lora_adapters=\"a,b\",max_lora=\"4\"} 1.7e9\n\
    vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"4096\"} 1\n";

#[test]
fn x03_fuzz_metrics_of_engines() {
    let words: [&[u8]; 6] = [b"NaN", b"+Inf", b"{", b"\"} ", b"vllm:", b"e308"];
    fuzz("engine-metrics", &[PAGE], &words, |input, _| {
        let Some(read) = engine_metrics::read(input) else { return "unread".to_owned() };
        // The share steers admission.
        let reading = read.reading;
        assert!((0.0..=1.0).contains(&reading.kv_used), "{reading:?}");
        let adapters = read.adapters.len().min(4);
        format!("{} {} {adapters}", reading.running.min(9), reading.waiting.min(9))
    });
}

const FILE: &[u8] = b"endpoints:\n  - { name: a, address: 10.0.0.1, port: \"8000\" }\n\
    - name: b\n    address: host.example\n    port: 8001\n    labels: { x: y }\n";

#[test]
fn x03_fuzz_endpoints_files() {
    fuzz("endpoints-files", &[FILE], &[b"- ", b"&a", b"*a", b"port: "], |input, _| {
        let text = String::from_utf8_lossy(input);
        match endpoints_file::parse(Path::new("e.yaml"), &text) {
            Ok(endpoints) => endpoints.len().min(4).to_string(),
            Err(error) => error.to_string(),
        }
    });
}
