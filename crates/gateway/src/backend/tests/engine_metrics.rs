//! Tests with the metrics of real engines.

use flow::EngineReading;
use proptest::prelude::*;

use super::super::engine_metrics::{EngineMetrics, read};

const VLLM: &str = r#"# HELP vllm:num_requests_running Number of requests in the batch.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B"} 7.0
vllm:num_requests_running{engine="1",model_name="meta-llama/Llama-3.1-8B"} 5.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B"} 2.0
vllm:num_requests_waiting{engine="1",model_name="meta-llama/Llama-3.1-8B"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 99.0
vllm:max_num_seqs{engine="0"} 256.0
vllm:max_num_seqs{engine="1"} 256.0
vllm:kv_cache_usage_perc{engine="0",model_name="a}\"{b"} 2.5e-01
vllm:kv_cache_usage_perc{engine="1",model_name="meta-llama/Llama-3.1-8B"} 0.75
vllm:num_preemptions_total{engine="0"} 3.0
vllm:num_preemptions_total{engine="1"} 1.0
vllm:num_preemptions_created{engine="0"} 1.7e+09
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="1000"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="1000"} 1.0
vllm:lora_requests_info{max_lora="4",running_lora_adapters="old",waiting_lora_adapters=""} 1.7e+09
vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql, chat"} 1.8e+09
vllm:e2e_request_latency_seconds_bucket{le="+Inf"} NaN
"#;

const SGLANG: &str = r#"# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 12.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 3.0
sglang:token_usage{model_name="m"} 0.28
sglang:num_retracted_reqs{model_name="m"} 2.0
sglang:max_total_num_tokens{model_name="m"} 471258.0
"#;

/// As llama.cpp's server of 2026 writes it, without the use of its KV cache.
const LLAMACPP: &str = "# HELP llamacpp:requests_processing Number of requests processing
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 4
# HELP llamacpp:requests_deferred Number of requests deferred
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 9
# TYPE llamacpp:n_busy_slots_per_decode gauge
llamacpp:n_busy_slots_per_decode 0
";

fn reading(text: &str) -> Option<EngineReading> {
    read(text.as_bytes()).map(|metrics| metrics.reading)
}

#[test]
fn c10_vllm_is_read_over_all_its_engines() {
    let EngineMetrics { reading, kv_reported, adapters } = read(VLLM.as_bytes()).unwrap();
    assert!(kv_reported);
    let without = read(b"llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n").unwrap();
    assert!(!without.kv_reported, "newer versions of llama.cpp do not report it");
    let expected = EngineReading {
        running: 12,
        waiting: 2,
        kv_used: 0.5,
        preemptions: 4,
        kv_tokens: Some(32_000),
        running_max: Some(512),
        ranks: 2,
    };
    assert_eq!(reading, expected);
    assert_eq!(adapters, ["sql", "chat"]);
}

#[test]
fn c10_sglang_is_read() {
    let expected = EngineReading {
        running: 12,
        waiting: 3,
        kv_used: 0.28,
        preemptions: 2,
        kv_tokens: Some(471_258),
        running_max: None,
        ranks: 1,
    };
    assert_eq!(reading(SGLANG), Some(expected));
    let counted = format!("{SGLANG}sglang:num_retracted_requests_total{{}} 40\n");
    assert_eq!(reading(&counted), Some(EngineReading { preemptions: 40, ..expected }));
    let paged = SGLANG.replace(
        "sglang:max_total_num_tokens{model_name=\"m\"} 471258.0",
        "sglang:cache_config_info{num_pages=\"100\",page_size=\"64\"} 1",
    );
    assert_eq!(reading(&paged), Some(EngineReading { kv_tokens: Some(6400), ..expected }));
}

#[test]
fn c10_llamacpp_is_read() {
    let expected = EngineReading { running: 4, waiting: 9, ranks: 1, ..EngineReading::default() };
    assert_eq!(reading(LLAMACPP), Some(expected));
    let older = format!("{LLAMACPP}llamacpp:kv_cache_usage_ratio 0.63");
    assert_eq!(reading(&older), Some(EngineReading { kv_used: 0.63, ..expected }));
}

#[test]
fn c10_a_value_that_is_not_a_number_invalidates_the_reading() {
    for bad in ["NaN", "+Inf", "-Inf", "-1", "seven", "0x7"] {
        for name in ["running", "waiting"] {
            let line = format!("vllm:num_requests_{name} ");
            let text = format!("vllm:num_requests_running 1\n{line}{bad}\n");
            assert_eq!(reading(&text), None, "{text}");
        }
        assert_eq!(reading(&format!("{VLLM}vllm:kv_cache_usage_perc {bad}")), None);
    }
    let young = VLLM.replace("num_gpu_blocks=\"1000\"", "num_gpu_blocks=\"None\"");
    assert_eq!(reading(&young).unwrap().kv_tokens, None, "it does not know yet");
}

#[test]
fn c10_other_texts_give_no_reading() {
    for text in ["", "\n\n", "<html></html>", "process_cpu_seconds_total 3\n", "vllm:", "vllm:x 1"]
    {
        assert_eq!(reading(text), None, "{text}");
    }
    assert_eq!(reading("vllm:num_requests_running{a=\"b 3"), None, "labels without an end");
    let spaced = "vllm:num_requests_running {a=\"b\"} 3 1700000000\r\n";
    assert_eq!(reading(&spaced.replace(" {", "{")).unwrap().running, 3);
    let huge = reading("vllm:num_requests_running 1e300\nvllm:kv_cache_usage_perc 7").unwrap();
    assert_eq!((huge.running, huge.kv_used), (u32::MAX, 1.0));
}

fn any_line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("vllm:num_requests_running"),
        Just("vllm:cache_config_info"),
        Just("vllm:lora_requests_info"),
        Just("sglang:token_usage"),
    ];
    (name, "[{}\",=\\\\a-z0-9 _.é-]{0,60}").prop_map(|(name, rest)| format!("{name}{rest}\n"))
}

proptest! {
    #[test]
    fn c10_no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        _ = read(&bytes);
    }

    #[test]
    fn c10_no_lines_break_the_reader(lines in proptest::collection::vec(any_line(), 0..20)) {
        let text: String = lines.concat();
        if let Some(metrics) = read(text.as_bytes()) {
            prop_assert!((0.0..=1.0).contains(&metrics.reading.kv_used));
        }
    }
}
