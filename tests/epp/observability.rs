//! The picker as operators and Kubernetes see it: health, reflection, metrics.

use serde_json::{Value, json};

use crate::support::api_server::{ApiServer, pod, pool};
use crate::support::envoy::FREE;
use crate::support::gateway::{ONE, TWO, config};
use crate::support::tools::{run, tool};
use crate::support::{Backend, ExtProcStream, Gateway, Picker, Recipe, chat, eventually};

const SERVICE: &str = "envoy.service.ext_proc.v3.ExternalProcessor";

fn health(talk: &mut ExtProcStream, service: &str) -> String {
    talk.say(&json!({ "health": service }));
    talk.next()["health"].as_str().unwrap().to_owned()
}

#[test]
fn x02_health_is_served_on_both_ports() {
    let backend = Backend::quick();
    let picker = Gateway::picker(&config(TWO, &[("one", backend.address())]), FREE);
    picker.await_ready(1);
    let ports = [picker.process.addresses()[0], picker.process.addresses()[1]];
    for port in ports {
        let mut talk = ExtProcStream::with(port);
        for service in ["", "liveness", "readiness", SERVICE, "inference-extension"] {
            assert_eq!(health(&mut talk, service), "SERVING", "{service:?} on {port}");
        }
    }
}

#[test]
fn x02_a_picker_without_servers_lives_but_is_not_ready() {
    let config = "[discovery]\nendpoints_file = \"none.yaml\"\n";
    let picker = Gateway::picker(config, FREE);
    let mut talk = ExtProcStream::with(picker.process.addresses()[1]);
    assert_eq!(health(&mut talk, "liveness"), "SERVING");
    assert_eq!(health(&mut talk, "readiness"), "NOT_SERVING");
}

#[test]
fn x02_reflection_lists_the_services() {
    let backend = Backend::quick();
    let picker = Gateway::picker(&config(TWO, &[("one", backend.address())]), FREE);
    let mut talk = ExtProcStream::with(picker.process.address());
    talk.say(&json!({"services": true}));
    let services = talk.next()["services"].clone();
    let services: Vec<&str> =
        services.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for name in [SERVICE, "grpc.health.v1.Health"] {
        assert!(services.contains(&name), "{services:?}");
    }
}

#[test]
fn x02_m01_promtool_accepts_the_metrics_under_both_names() {
    let backend = Backend::held();
    let sections = format!("[epp]\nllm_d_metrics = true\n{ONE}");
    let (picker, running) = Picker::occupied(&sections, &backend, &chat("m"));
    let waiting = picker.enqueue(&chat("m").priority("high"), 0);
    let metrics = picker.metrics();
    assert_eq!(metrics.sum("llm_d_epp_flow_control_queue_size"), 1.0);
    assert_eq!(metrics.sum("nexus_queue_depth"), 1.0);
    assert_eq!(metrics.sum("llm_d_epp_flow_control_pool_saturation"), 1.0);
    // The two by which autoscalers count what is at the backends.
    let normal = "priority=\"0\"";
    assert_eq!(metrics.sum_where("llm_d_epp_request_running", normal), 1.0);
    assert_eq!(metrics.sum("llm_d_epp_request_running"), 1.0);
    let tokens = metrics.sum_where("llm_d_epp_inflight_tokens", "endpoint_name=\"one\"");
    assert!(tokens > 1.0 && tokens == metrics.sum("llm_d_epp_inflight_tokens"), "{tokens}");
    backend.open();
    assert!([running, waiting].into_iter().all(|call| call.finish().status == 200));
    picker.await_idle();
    let metrics = picker.metrics();
    assert_eq!(metrics.sum("llm_d_epp_flow_control_requests_total"), 2.0);
    // The first one did not wait.
    assert_eq!(metrics.sum("llm_d_epp_flow_control_request_queue_duration_seconds_count"), 1.0);
    tool("promtool");
    let pages = picker.process.addresses()[2];
    let pipe = format!("curl -sS http://{pages}/metrics | promtool check metrics 2>&1 || true");
    let said = run(tool("sh").args(["-c", &pipe]));
    // It takes the d of llm_d for days. That name is not ours to change.
    let days = "metric names should not contain abbreviated units";
    let said: Vec<&str> = said.lines().filter(|line| !line.ends_with(days)).collect();
    assert_eq!(said, [""; 0]);
}

#[test]
fn x02_the_endpoints_file_is_followed() {
    let (one, two) = (Backend::quick(), Backend::quick());
    let picker = Picker::launch(
        Recipe::original_dst(),
        &format!("[discovery]\nendpoints_file = \"endpoints.yaml\"\n{TWO}"),
    );
    let file = picker.folder().join("endpoints.yaml");
    let write = |backend: &Backend, name: &str| {
        let port = backend.address().port();
        let entry = format!("- name: {name}\n  address: 127.0.0.1\n  port: \"{port}\"\n");
        let next = file.with_extension("next");
        std::fs::write(&next, format!("endpoints:\n{entry}")).unwrap();
        std::fs::rename(next, &file).unwrap();
    };
    for (backend, name) in [(&one, "pod-one"), (&two, "pod-two")] {
        write(backend, name);
        eventually("used", || {
            let answer = picker.ask(&chat("m"));
            match answer.header("x-backend-used") {
                Some(used) if used.contains(name) => Ok(()),
                _ => Err(answer.text()),
            }
        });
    }
    let pages: Vec<Value> = picker.backends();
    assert_eq!(pages.len(), 1, "{pages:?}");
    picker.await_idle();
}

#[test]
fn x02_the_pods_of_a_pool_are_picked() {
    let (one, api) = (Backend::quick(), ApiServer::start());
    let port = one.address().port();
    api.put("inferencepools", pool("llama", &[port, 1]));
    let mut ranks = pod("pod-one", one.address());
    ranks["metadata"]["annotations"] = json!({"llm-d.ai/active-ports": port.to_string()});
    api.put("pods", ranks);
    let picker = Gateway::picker(&format!("{TWO}{}", api.section("pool = \"llama\"")), FREE);
    picker.await_ready(1);
    let mut talk = ExtProcStream::with(picker.process.address());
    let stream = talk.request(&chat("m"), 1000);
    assert_eq!(talk.choice(stream).servers(), [one.address().to_string()]);
    assert_eq!(picker.backends()[0]["id"], "pod-one-rank-0");
    talk.cancel(stream);
    // Without a pod there is no server.
    api.delete("pods", "pod-one");
    eventually("gone", || match picker.backends().len() {
        0 => Ok(()),
        count => Err(count.to_string()),
    });
    picker.await_idle();
}
