//! Gates that read a real Prometheus and a real gateway.

use super::fixture::{self, Dispatcher, QUICK, await_results, count, submit, unix};
use crate::support::gateway::config;
use crate::support::{Backend, Engine, Gateway, Metrics, Prometheus, Redis, chat, eventually};

/// A gateway and an engine behind it, both read by Prometheus.
struct World {
    prometheus: Prometheus,
    _gateway: Gateway,
    _engine: Engine,
}

// === impl World ===

impl World {
    fn start() -> Self {
        let engine = Engine::start(&["--model", "m"]);
        let sections = "[epp]\nllm_d_metrics = true\n[controller]\nwatermark_per_backend = 10\n";
        let gateway = Gateway::start(&config(sections, &[("one", engine.address())]));
        let pool = [("inference_pool", "tidegate")];
        let targets = [(gateway.address(), &[][..]), (engine.address(), &pool[..])];
        let prometheus = Prometheus::scraping(&targets);
        Self { prometheus, _gateway: gateway, _engine: engine }
    }

    /// The value of an expression, once it has one.
    fn number(&self, expression: &str) -> f64 {
        eventually(expression, || match self.prometheus.query(expression)[..] {
            [number] => Ok(number),
            ref others => Err(format!("{} samples", others.len())),
        })
    }
}

/// A gateway and its engines export the metrics that `prometheus-saturation` and
/// `prometheus-budget` query.
#[test]
fn d02_a_running_gateway_has_the_metrics_that_gates_query() {
    let world = World::start();
    for prefix in ["llm_d_epp_", "inference_extension_"] {
        let of = |rest: &str| format!("sum({prefix}{rest}{{inference_pool=\"tidegate\"}})");
        assert_eq!(world.number(&of("flow_control_pool_saturation")), 0.0);
        assert_eq!(world.number(&of("flow_control_queue_size")), 0.0);
    }
    for name in ["llm_d_epp_ready_endpoints", "inference_pool_ready_pods"] {
        assert_eq!(world.number(&format!("{name}{{name=\"tidegate\"}}")), 1.0);
    }
    let running = "sum(vllm:num_requests_running{inference_pool=\"tidegate\"})";
    assert_eq!(world.number(running), 0.0);
    let age = "time() - timestamp(llm_d_epp_ready_endpoints{name=\"tidegate\"})";
    assert!(world.number(age) < 60.0);
}

/// A dispatcher that sends to the gateway through this gate.
fn dispatcher(world: &World, redis: &Redis, gate: &str) -> Dispatcher {
    let url = format!("url = \"{}\"\n", world.prometheus.url());
    let gate = format!(
        "[[dispatch.gates]]\nname = \"seen\"\n{gate}pool = \"tidegate\"\n{url}\
         stale_after = \"3s\"\n"
    );
    let sections = format!("{QUICK}{gate}");
    Dispatcher::start(&fixture::config(&sections, "\"seen\"", redis, world._gateway.address()))
}

#[test]
fn d02_a_gate_follows_prometheus_and_closes_without_it() {
    let mut world = World::start();
    let gates = [
        "kind = \"prometheus-saturation\"\ncapacity = 10\n",
        "kind = \"prometheus-budget\"\nmax_concurrency = 10\n",
    ];
    for (at, gate) in gates.into_iter().enumerate() {
        let redis = Redis::start();
        let dispatcher = dispatcher(&world, &redis, gate);
        submit(&redis, "seen", unix() + 600);
        let results = await_results(&redis, 1);
        assert_eq!(results[0]["status_code"], 200, "{gate}");
        let page = dispatcher.page("/dispatch").json();
        let told = page["gates"].as_array().unwrap().clone();
        let told = told.iter().find(|gate| gate["name"] == "seen").unwrap().clone();
        assert_eq!(told["system"], 10.0, "{told}");
        // Several metrics may count, so that only the reading names one: the one that left least.
        let [source, by] = ["source", "by"].map(|key| told[key].as_str().unwrap_or_default());
        let metric = by.split('{').next().unwrap_or_default();
        assert!(!metric.is_empty() && !source.contains(metric), "{told}");
        if at + 1 == gates.len() {
            world.prometheus.stop();
            eventually("shut", || {
                let metrics = Metrics::read(&dispatcher.page("/metrics").text());
                match metrics.sum_where("tidegate_dispatch_gate_readable", "seen") {
                    0.0 => Ok(()),
                    _ => Err("readable".into()),
                }
            });
            submit(&redis, "unseen", unix() + 600);
            let text = dispatcher.page("/dispatch.txt").text();
            assert!(text.contains("unreadable"), "{text}");
            assert_eq!(count(&redis), 1, "it is unknown whether there is room");
            let log = dispatcher.process.await_log("the gate cannot be read", 1);
            let line = log.lines().find(|line| line.contains("the gate cannot be read")).unwrap();
            assert!(line.contains("nothing is sent: cannot connect to"), "it says why: {line}");
        }
    }
}

/// Four models at one full backend do not make the pool look three quarters empty.
#[test]
fn d02_the_saturation_of_a_pool_is_how_full_its_backends_are() {
    let backend = Backend::held();
    let sections = "[epp]\nllm_d_metrics = true\n[controller]\nlower_bound_per_backend = 4\n\
                    watermark_per_backend = 4\nupper_bound_per_backend = 4\n";
    let models = ["a", "b", "c", "d"];
    let gateway = Gateway::start(&format!(
        "{sections}[[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = {models:?}\n",
        backend.address()
    ));
    let saturation = || {
        let metrics = gateway.metrics();
        ["llm_d_epp", "inference_extension"]
            .map(|prefix| metrics.sum(&format!("{prefix}_flow_control_pool_saturation")))
    };
    assert_eq!(saturation(), [0.0; 2]);
    let calls: Vec<_> = models.iter().map(|model| gateway.send(&chat(model))).collect();
    backend.await_running(4);
    assert_eq!(saturation(), [1.0; 2]);
    backend.release(1);
    backend.await_running(3);
    eventually("a free place", || match saturation() {
        [0.75, 0.75] => Ok(()),
        other => Err(format!("{other:?}")),
    });
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}
