//! X02: the metric names of llm-d's dashboards, and requests for a subset.

use flow::{
    Ask, BackendId, BackendSupply, Band, Controller, Hysteresis, ModelId, Settings, Span, Time,
};

use super::{named, parsed, refused, served, sum};
use crate::observe::{MetricsFormat, Observer, ProcessStatus, Record, RequestCounters};

/// One backend with room for two requests, and three requests of one model, one of them for a
/// subset.
fn busy() -> Controller {
    let bounds = Hysteresis::limit(2.0).unwrap().into();
    let mut core = Controller::new(Settings { bounds, ..Settings::default() });
    let backends = [BackendSupply::new(BackendId(0), vec![ModelId(0), ModelId(9)])];
    core.supply(&backends, Time::ZERO);
    let flow = core.flow("team-a", 0);
    for (model, band) in [(0, Band::Normal), (0, Band::High), (9, Band::High)] {
        core.offer(Ask { band, tokens: 30, ..Ask::new(flow, ModelId(model)) }, Time::ZERO);
    }
    core
}

fn text(pool: Option<&str>) -> String {
    let mut named = named(&["gpu"], &["llama"]);
    named.subsets.insert(ModelId(9), ModelId(0));
    let pool = pool.map(str::to_owned);
    let observer = Observer { pool, ..Observer::default() };
    observer.known(["llama"]);
    let ended = |record: &Record| observer.ended(record, &RequestCounters::default());
    ended(&served("llama", "llama"));
    let waited = Some(Span::from_millis(30));
    ended(&Record { bypassed: false, waited, ..served("llama", "llama") });
    ended(&refused("llama", "queue_full", 503));
    // It did not use the queue, so flow control does not count it.
    ended(&Record { band: None, ..served("", "") });
    ended(&Record { band: Some(Band::Critical), ..refused("llama", "queue_timeout", 503) });
    let snapshot = observer.snapshot(&mut busy(), Time::ZERO, &named);
    observer.metrics(&snapshot, &named, &ProcessStatus::default(), MetricsFormat::default())
}

#[test]
fn x02_other_pickers_dashboards_find_their_names_where_they_are_wanted() {
    let samples = parsed(&text(Some("llama-pool")));
    let sum = |name: &str, words: &[&str]| sum(&samples, name, words);
    for prefix in ["llm_d_epp_flow_control_", "inference_extension_flow_control_"] {
        let name = |rest: &str| format!("{prefix}{rest}");
        let waiting = name("queue_size");
        assert_eq!(sum(&waiting, &["model_name=\"llama\"", "priority=\"1\""]), 1.0);
        assert_eq!(sum(&waiting, &[]), 1.0);
        assert_eq!(sum(&name("pool_saturation"), &["stage=\"effective\""]), 1.0);
        let ended = name("requests_total");
        assert_eq!(sum(&ended, &["outcome=\"Dispatched\"", "priority=\"0\""]), 2.0);
        assert_eq!(sum(&ended, &["outcome=\"RejectedCapacity\""]), 1.0);
        assert_eq!(sum(&ended, &["outcome=\"EvictedTTL\"", "priority=\"10\""]), 1.0);
        let waited = name("request_queue_duration_seconds_count");
        assert_eq!(sum(&waited, &["outcome=\"Dispatched\""]), 1.0);
    }
    let objective = |name: &str, words: &[&str]| sum(&format!("inference_objective_{name}"), words);
    assert_eq!(objective("request_total", &["priority=\"0\""]), 3.0);
    assert_eq!(objective("request_error_total", &["error_code=\"queue_full\""]), 1.0);
    assert_eq!(objective("request_error_total", &[]), 2.0);
    // 900 ms for 300 tokens, and 750 ms for the 299 after the first.
    for name in ["normalized_time_per_output_token_seconds", "request_tpot_seconds"] {
        assert_eq!(objective(&format!("{name}_bucket"), &["le=\"0.0025\""]), 0.0, "{name}");
        assert_eq!(objective(&format!("{name}_bucket"), &["le=\"0.005\""]), 2.0, "{name}");
    }
    // The refused ones of the fixture have tokens too.
    for (name, bound, below) in [("input_tokens", 16, 8), ("output_tokens", 512, 256)] {
        let bucket = |bound| objective(&format!("{name}_bucket"), &[&format!("le=\"{bound}.0\"")]);
        assert_eq!((bucket(bound), bucket(below)), (4.0, 0.0), "{name}");
    }
    let running = "llm_d_epp_request_running";
    assert_eq!(sum(running, &["model_name=\"llama\"", "priority=\"0\""]), 1.0);
    assert_eq!(sum(running, &[]), 2.0, "each backend has room for two");
    let tokens = "llm_d_epp_inflight_tokens";
    assert_eq!(sum(tokens, &["endpoint_name=\"gpu\"", "priority=\"1\""]), 30.0);
    assert_eq!(sum(tokens, &[]), 60.0);
    for name in ["llm_d_epp_ready_endpoints", "inference_pool_ready_pods"] {
        assert_eq!(sum(name, &["name=\"llama-pool\""]), 1.0);
    }
    for name in ["llm_d_epp_", "inference_pool_", "inference_objective_"] {
        assert!(!text(None).contains(name), "{name}");
    }
}

#[test]
fn x02_a_request_for_a_subset_counts_under_its_models_name() {
    let samples = parsed(&text(None));
    assert_eq!(sum(&samples, "tidegate_queue_length", &["target_model=\"llama\""]), 1.0);
    assert_eq!(sum(&samples, "tidegate_queue_length", &["target_model=\"other\""]), 0.0);
}
