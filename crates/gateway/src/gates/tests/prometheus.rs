//! The kinds that read Prometheus: a scripted server, and the real one of Debian.

use super::fake::{Fake, Process, Reply, free_port, page};
use flow::Time;

use super::*;
use crate::gates::kinds::Source;
use crate::gates::prometheus::promql::{PromMetric, Sample};
use crate::gates::prometheus::{PromQuery, Prometheus};

fn saturation(url: String, capacity: Capacity) -> GateSettings {
    gate("g", GateKind::PrometheusSaturation(SaturationGate { url, pool: "p".into() }), capacity)
}

fn budget(url: String) -> GateSettings {
    let settings = BudgetGate { url, pool: "p".into(), max_concurrency: 10.0 };
    let kind = GateKind::PrometheusBudget(settings);
    gate("g", kind, Capacity::FromSource)
}

fn query(url: String, query: &str) -> GateSettings {
    gate(
        "g",
        GateKind::PrometheusQuery(QueryGate { url, query: query.into() }),
        Capacity::Fixed(100.0),
    )
}

/// A response with one saturation of this age.
fn says(value: &str, age: f64) -> Reply {
    sample(value, 1_700_000_000.5 - age, age)
}

/// A response with one saturation that was taken at this time and is as old as this.
fn sample(value: &str, taken: f64, age: f64) -> Reply {
    let asked = taken + age;
    page(
        200,
        &format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[
            {{"metric":{{"tidegate":"value 1"}},"value":[{asked},"{value}"]}},
            {{"metric":{{"tidegate":"time 1"}},"value":[{asked},"{taken}"]}}]}}}}"#
        ),
    )
}

#[tokio::test]
async fn d02_d06_a_saturation_is_as_old_as_its_sample() {
    let fake = Fake::start(vec![says("0.5", 3.0)]).await;
    let gates = gates(&[saturation(fake.url(), Capacity::Fixed(100.0))]);
    let _polling = polled(&gates);
    let found = until(&gates, "read", |gate| gate.open).await;
    assert_eq!((found.left, found.saturation), (30, Some(0.5)));
    let by = "inference_extension_flow_control_pool_saturation{inference_pool=\"p\"}";
    assert_eq!(found.by.as_deref(), Some(by), "the metric that has a sample");
    // The source does not name another metric than the reading.
    assert!(found.source.starts_with("the saturation of \"p\" by Prometheus at "), "{found:?}");
    let received = fake.received.lock().unwrap()[0].clone();
    assert!(
        received.starts_with("GET /api/v1/query?query=label_replace%28max%28llm_d_epp_"),
        "{received}"
    );
    // Prometheus keeps the last sample of a lost target for minutes.
    fake.set(says("0.1", 40.0));
    let old = format!("unreadable: the last sample of {by} is 40.0 s old");
    until(&gates, "stale", |gate| gate.state == old).await;
    fake.set(says("NaN", 1.0));
    until(&gates, "senseless", |gate| gate.state.ends_with("is NaN")).await;
}

#[tokio::test]
async fn d06_the_time_of_a_sample_follows_from_its_age() {
    let settings = saturation("http://127.0.0.1:1".into(), Capacity::Fixed(100.0));
    let query = PromQuery::Metrics { measures: vec![PromMetric::saturations("p")], each: None };
    let context = GateContext { local: None, clock: Clock::start(), client: Arc::default() };
    let at = ("http://127.0.0.1:1", Some("p"));
    let mut prometheus = Prometheus::new(at, query, &settings, &context).unwrap();
    let [began, came] = [60_000, 60_010].map(Time::from_millis);
    let mut moment =
        |age, taken| prometheus.taken_at(Sample { value: 0.5, age, taken }, began, came);
    let lag = Span::from_millis(60);
    assert_eq!(moment(3.0, 1000.0), (Time::from_millis(57_060), lag), "the scrape took a while");
    assert_eq!(moment(3.5, 1000.0).0, Time::from_millis(57_060), "the same sample");
    assert_eq!(moment(0.02, 1003.0).0, came, "not in the future");
    assert_eq!(moment(1e9, 1.0).0, Time::from_millis(50), "long before the clock began");
}

/// A Prometheus that scrapes every 15 s, as most do: no sample is stale before it has missed three
/// scrapes.
#[tokio::test]
async fn d06_a_sample_is_stale_when_a_few_scrapes_were_missed() {
    let began = 1_700_000_000.5;
    let fake = Fake::start(vec![sample("0.5", began, 14.0)]).await;
    let learning =
        GateSettings { stale_after: None, ..saturation(fake.url(), Capacity::Fixed(100.0)) };
    let strict = GateSettings {
        name: "strict".into(),
        stale_after: Some(Duration::from_secs(10)),
        ..learning.clone()
    };
    let gates = gates(&[learning, strict]);
    let _polling = polled(&gates);
    let strictly = |open: bool| gates.status()[1].open == open && gates.status()[1].left != 30;
    let found = until(&gates, "read", |gate| gate.open && strictly(false)).await;
    assert_eq!(found.left, 30);
    // What counts as old before the interval is known is what Prometheus itself forgets.
    for (taken, age, open) in [
        (began, 299.0, true),
        (began + 15.0, 0.2, true),
        (began + 30.0, 14.8, true),
        (began + 45.0, 14.8, true),
        (began + 45.0, 44.0, true),
        (began + 45.0, 46.0, false),
        (began + 105.0, 44.0, true),
    ] {
        fake.set(sample("0.25", taken, age));
        let reads = fake.received.lock().unwrap().len();
        until(&gates, "read again", |gate| {
            // The second reading after the change shows it, whichever was in flight.
            fake.received.lock().unwrap().len() >= reads + 4 && gate.open == open
        })
        .await;
    }
}

/// The same sample, read again a little later, allows no further request.
#[tokio::test]
async fn d03_a_repeated_sample_is_the_same_reading() {
    let fake = Fake::start(vec![says("0.5", 0.25)]).await;
    let gates = gates(&[saturation(fake.url(), Capacity::Fixed(100.0))]);
    let Source::Polled(source) = &gates.sources[0] else { panic!("it is polled") };
    let first = source.lock().await.read().await.unwrap();
    let again = source.lock().await.read().await.unwrap();
    assert_eq!(first.at, again.at);
    fake.set(says("0.5", 0.125));
    let newer = source.lock().await.read().await.unwrap();
    assert!(newer.at > first.at);
}

#[tokio::test]
async fn d06_a_refusal_of_prometheus_is_reported_with_its_text() {
    let refusal = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
    let fake = Fake::start(vec![page(400, refusal)]).await;
    let gates = gates(&[query(fake.url(), "1 +")]);
    let _polling = polled(&gates);
    let found = until(&gates, "refused", |gate| gate.state.contains("parse error")).await;
    assert!(found.state.starts_with("unreadable: it answered 400"), "{}", found.state);
    let empty = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    fake.set(page(200, empty));
    until(&gates, "empty", |gate| gate.state.ends_with("the expression gives no sample")).await;
}

/// Debian's Prometheus, which scrapes a page of the test ten times a second.
struct Real {
    url: String,
    page: Fake,
    folder: std::path::PathBuf,
    _process: Process,
}

impl Real {
    async fn start(name: &str) -> Self {
        let target = Fake::start(vec![page(200, "")]).await;
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let settings = format!(
            "global:\n  scrape_interval: 100ms\n  scrape_timeout: 100ms\nscrape_configs:\n\
             - job_name: t\n  static_configs:\n  - targets: ['127.0.0.1:{}']\n",
            target.port
        );
        std::fs::write(folder.join("prometheus.yml"), settings).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let arguments = [
            format!("--config.file={}", path("prometheus.yml")),
            format!("--storage.tsdb.path={}", path("data")),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let process = Process::start("prometheus", &arguments);
        Self { url: format!("http://127.0.0.1:{port}"), page: target, folder, _process: process }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// All names of the metrics, one after the other.
#[tokio::test]
async fn d02_a_real_prometheus_is_read_under_all_names() {
    let real = Real::start("names").await;
    let per_server = Capacity::PerServer { each: 50.0, ready: None };
    let gates = gates(&[saturation(real.url.clone(), per_server)]);
    let _polling = polled(&gates);
    for (full, ready) in [
        ("llm_d_epp_flow_control_pool_saturation", "llm_d_epp_ready_endpoints"),
        ("inference_extension_flow_control_pool_saturation", "inference_pool_ready_pods"),
    ] {
        let lines = format!(
            "{full}{{inference_pool=\"p\",stage=\"prefill\"}} 0.1\n\
             {full}{{inference_pool=\"p\",stage=\"decode\"}} 0.25\n\
             {full}{{inference_pool=\"other\"}} 0.9\n{ready}{{name=\"p\"}} 2\n"
        );
        real.page.set(page(200, &lines));
        let by = format!("{full}{{inference_pool=\"p\"}}");
        let found = until(&gates, &by, |gate| gate.open && gate.by.as_ref() == Some(&by)).await;
        assert_eq!((found.saturation, found.system), (Some(0.25), Some(100.0)), "{found:?}");
        assert_eq!(found.n, Some(55), "{found:?}");
    }
}

#[tokio::test]
async fn d02_a_real_prometheus_is_read_at_every_step_of_the_cascade() {
    let real = Real::start("cascade").await;
    let gates = gates(&[budget(real.url.clone())]);
    let _polling = polled(&gates);
    let ready =
        ["llm_d_epp_ready_endpoints{name=\"p\"} 4\n", "inference_pool_ready_pods{name=\"p\"} 4\n"];
    let steps = [
        ("llm_d_epp_flow_control_queue_size", "inference_pool", [20.0, 20.0], 0.0),
        ("inference_extension_flow_control_queue_size", "inference_pool", [8.0, 8.0], 0.6),
        ("llm_d_epp_per_endpoint_queue_size", "name", [3.0, 1.0], 0.8),
        ("inference_pool_per_pod_queue_size", "name", [4.0, 2.0], 0.7),
        ("vllm:num_requests_running", "inference_pool", [10.0, 10.0], 0.5),
        ("llm_d_epp_average_running_requests", "name", [6.0, 4.0], 0.5),
        ("inference_pool_average_kv_cache_utilization", "name", [0.6, 0.2], 0.6),
        ("llm_d_epp_flow_control_pool_saturation", "inference_pool", [0.3, 0.2], 0.7),
    ];
    for (at, (name, label, [one, two], free)) in steps.into_iter().enumerate() {
        // Two lines each, as for two bands or two servers.
        let lines = format!(
            "{name}{{{label}=\"p\",x=\"1\"}} {one}\n{name}{{{label}=\"p\",x=\"2\"}} {two}\n{}",
            ready[at % 2]
        );
        real.page.set(page(200, &lines));
        let by = format!("{name}{{{label}=\"p\"}}");
        let found =
            until(&gates, &by, |gate| gate.value.is_some() && gate.by.as_ref() == Some(&by));
        let found = found.await;
        assert!((found.value.unwrap() - free).abs() < 1e-9, "{found:?}");
        assert_eq!(found.system, Some(40.0));
    }
    real.page.set(page(200, "llm_d_epp_flow_control_queue_size{inference_pool=\"p\"} 0\n"));
    let why = "unreadable: no sample of any of llm_d_epp_flow_control_queue_size";
    until(&gates, "without servers", |gate| gate.state.starts_with(why)).await;
}

/// The queue of a picker is empty until its pool is full. So the fullest measure counts.
#[tokio::test]
async fn d02_a_budget_is_the_least_of_all_that_is_known() {
    let real = Real::start("least").await;
    let gates = gates(&[budget(real.url.clone())]);
    let _polling = polled(&gates);
    let load = |running: f64, cache: f64, saturation: f64| {
        page(
            200,
            &format!(
                "llm_d_epp_ready_endpoints{{name=\"p\"}} 4\n\
                 llm_d_epp_flow_control_queue_size{{inference_pool=\"p\"}} 0\n\
                 llm_d_epp_per_endpoint_queue_size{{name=\"p\"}} 0\n\
                 vllm:num_requests_running{{inference_pool=\"p\"}} {running}\n\
                 vllm:kv_cache_usage_perc{{inference_pool=\"p\"}} {cache}\n\
                 llm_d_epp_flow_control_pool_saturation{{inference_pool=\"p\"}} {saturation}\n"
            ),
        )
    };
    for (running, cache, saturation, full, by) in [
        (40.0, 0.5, 0.25, 1.0, "vllm:num_requests_running"),
        (10.0, 0.5, 0.25, 0.5, "vllm:kv_cache_usage_perc"),
        (10.0, 0.5, 0.75, 0.75, "llm_d_epp_flow_control_pool_saturation"),
    ] {
        real.page.set(load(running, cache, saturation));
        let found = until(&gates, by, |gate| {
            gate.saturation == Some(full) && gate.by.as_ref().is_some_and(|it| it.starts_with(by))
        });
        let found = found.await;
        assert_eq!((found.open, found.system), (full < 0.8, Some(40.0)), "{found:?}");
    }
}

#[tokio::test]
async fn d06_a_target_that_is_down_is_noticed_with_the_next_scrape() {
    let mut real = Real::start("down").await;
    real.page.set(page(200, "llm_d_epp_flow_control_pool_saturation{inference_pool=\"p\"} 0.5\n"));
    let gates = gates(&[saturation(real.url.clone(), Capacity::Fixed(100.0))]);
    let _polling = polled(&gates);
    let found = until(&gates, "read", |gate| gate.open).await;
    assert_eq!(found.left, 30);
    assert!(found.age_seconds.unwrap() < 30.0);
    real.page.stop().await;
    until(&gates, "down", |gate| gate.state.starts_with("unreadable: no sample")).await;
}

#[tokio::test]
async fn d02_any_expression_can_be_the_free_share() {
    let real = Real::start("query").await;
    real.page.set(page(200, "busy{server=\"a\"} 0.25\nbusy{server=\"b\"} 0.5\nready 3\nbad NaN\n"));
    let each = Capacity::PerServer { each: 10.0, ready: Some("ready".into()) };
    let every = GateSettings { capacity: each, ..query(real.url.clone(), "1 - busy") };
    let gates = gates(&[
        every,
        GateSettings { name: "scalar".into(), ..query(real.url.clone(), "1 - 0.5") },
        GateSettings { name: "bad".into(), ..query(real.url.clone(), "bad or busy") },
    ]);
    let _polling = polled(&gates);
    let found = until(&gates, "read", |gate| gate.open).await;
    assert_eq!((found.value, found.system, found.n), (Some(0.5), Some(30.0), Some(9)), "{found:?}");
    until(&gates, "all read", |_| {
        let others = &gates.status()[1..];
        others[0].value == Some(0.5) && others[1].state == "unreadable: the expression is NaN"
    })
    .await;
}
