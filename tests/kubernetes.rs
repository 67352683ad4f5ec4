//! The picker of an InferencePool behind the real Envoy, with the rights of the chart's role.
//!
//! `make test` runs these tests with the API server of this process, `make cluster` with a real
//! one.

use serde_json::json;

use crate::support::cluster::{await_state, servers, under_load};
use crate::support::gateway::{ONE, TWO};
use crate::support::{
    Backend, Call, Cluster, Gateway, Picker, Recipe, ScriptedResponse, chat, eventually,
};

fn picker(cluster: &Cluster, sections: &str) -> Picker {
    Picker::launch(Recipe::original_dst(), &format!("{sections}{}", cluster.section()))
}

/// A cluster whose pool has these servers as pods, named `pod-0` and so on.
fn cluster(servers: &[Backend]) -> Cluster {
    let cluster = Cluster::start(servers[0].address().port());
    for (at, server) in servers.iter().enumerate() {
        cluster.add_pod(&format!("pod-{at}"), server.address());
    }
    cluster
}

/// Waits until the status page says this.
fn told(gateway: &Gateway, text: &str) {
    eventually(text, || match gateway.get("/status").text() {
        page if page.contains(text) => Ok(()),
        page => Err(page),
    });
}

/// Waits until load balancers may send requests.
fn await_ready_page(gateway: &Gateway) {
    eventually("ready", || match gateway.get("/ready") {
        page if page.status == 200 => Ok(()),
        page => Err(page.text()),
    });
}

fn await_idle_backend(gateway: &Gateway, id: &str) {
    eventually("idle", || match gateway.backend(id)["queue_depth"].as_u64() {
        Some(0) => Ok(()),
        count => Err(format!("{count:?}")),
    });
}

#[test]
fn x02_pods_of_a_pool_come_and_go_behind_envoy_without_a_lost_request() {
    let servers = servers(4);
    let cluster = cluster(&servers[..2]);
    let picker = picker(&cluster, TWO);
    picker.await_ready(2);
    under_load(&picker, |more| {
        for next in 2..4 {
            let (old, new) = (format!("pod-{}", next - 2), format!("pod-{next}"));
            cluster.add_pod(&new, servers[next].address());
            await_state(&picker, &new, Some("ready"));
            more();
            cluster.begin_end_of_pod(&old);
            await_state(&picker, &old, Some("draining"));
            await_idle_backend(&picker, &old);
            let seen = servers[next - 2].seen().len();
            servers[next - 2].stop();
            more();
            assert_eq!(servers[next - 2].seen().len(), seen, "a pod that ends gets nothing new");
            cluster.remove_pod(&old);
            await_state(&picker, &old, None);
            more();
        }
        // A pod that is not ready for a while.
        cluster.set_ready("pod-2", false);
        await_state(&picker, "pod-2", Some("draining"));
        more();
        cluster.set_ready("pod-2", true);
        await_state(&picker, "pod-2", Some("ready"));
        more();
    });
    assert!(servers.iter().all(|server| !server.seen().is_empty()));
    picker.await_idle();
}

/// It answers fastest, so it would get most of the requests.
#[test]
fn x02_a_pod_that_answers_403_to_everything_gets_no_request() {
    let mut servers = servers(2);
    let address = servers[1].address();
    servers[1].stop();
    servers[1] = Backend::start_at(address, |_| ScriptedResponse::json(403, "{}"));
    servers[1].set_forbidding(true);
    let cluster = cluster(&servers);
    let picker = picker(&cluster, &format!("{TWO}[health]\ninterval = \"100ms\"\n"));
    picker.await_ready(1);
    let refuses = "its model list is unknown: /v1/models answered 403 Forbidden";
    told(&picker, refuses);
    under_load(&picker, |more| more());
    assert_eq!(
        (servers[1].seen().len(), picker.backend("pod-1")["reason"].as_str()),
        (0, Some(refuses))
    );
    // It is used once it lists its models.
    servers[1].stop();
    servers[1] = Backend::start_at(address, |_| ScriptedResponse::ok());
    await_state(&picker, "pod-1", Some("ready"));
}

#[test]
fn x02_an_api_server_that_restarts_costs_no_request_and_no_change() {
    let servers = servers(2);
    let cluster = cluster(&servers[..1]);
    let picker = picker(&cluster, TWO);
    picker.await_ready(1);
    under_load(&picker, |more| {
        cluster.restart();
        more();
        cluster.add_pod("pod-1", servers[1].address());
        await_state(&picker, "pod-1", Some("ready"));
        more();
        await_state(&picker, "pod-0", Some("ready"));
    });
    picker.await_idle();
}

#[test]
fn x02_p02_objectives_of_the_cluster_order_requests_behind_envoy() {
    let held = Backend::held();
    let cluster = Cluster::start(held.address().port());
    for (name, priority) in [("gold", 10), ("bulk", -1)] {
        let spec = json!({"priority": priority, "poolRef": {"name": "llama"}});
        cluster.create("inferenceobjectives", json!({"metadata": {"name": name}, "spec": spec}));
    }
    cluster.add_pod("pod-0", held.address());
    let picker = picker(&cluster, &format!("{ONE}[log]\nformat = \"json\"\n"));
    picker.await_ready(1);
    let ask = |objective: &str, id: &str| {
        chat("m").header("x-gateway-inference-objective", objective).header("x-request-id", id)
    };
    let first = picker.send(&chat("m"));
    held.await_running(1);
    let waiting: Vec<Call> = ["bulk", "none", "gold"]
        .into_iter()
        .enumerate()
        .map(|(others, name)| picker.enqueue(&ask(name, name), others))
        .collect();
    held.open();
    assert!(waiting.into_iter().chain([first]).all(|call| call.finish().status == 200));
    let bands = ["gold", "none", "bulk"].map(|id| picker.access_of(id)["priority"].clone());
    assert_eq!(bands, ["critical", "normal", "best_effort"]);
    let order: Vec<String> = held.seen()[1..]
        .iter()
        .map(|seen| seen.header("x-request-id").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(order, ["gold", "none", "bulk"]);
}

#[test]
fn x02_o06_a_pool_without_pods_holds_requests_until_one_comes() {
    let (hook, servers) = (Backend::quick(), servers(1));
    let cluster = Cluster::start(servers[0].address().port());
    let wake = format!("[scaler]\nwake_url = \"http://{}/wake\"\n", hook.address());
    let sections = format!("{wake}wake_again = \"1h\"\n[[models]]\nname = \"m\"\n{TWO}");
    let picker = picker(&cluster, &sections);
    let calls: Vec<Call> = (0..20).map(|_| picker.send(&chat("m"))).collect();
    picker.await_depth(20);
    hook.await_seen(1);
    cluster.add_pod("pod-0", servers[0].address());
    for call in calls {
        let response = call.finish();
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(hook.seen().len(), 1, "one call wakes the pool");
    picker.await_idle();
}

/// The configuration names no model, as that of the existing picker.
#[test]
fn x02_o06_a_pool_at_zero_holds_requests_for_any_model() {
    let (hook, servers) = (Backend::quick(), servers(1));
    let cluster = Cluster::start(servers[0].address().port());
    let wake = format!("[scaler]\nwake_url = \"http://{}/wake\"\n", hook.address());
    let picker = picker(&cluster, &format!("{wake}wake_again = \"1h\"\n{TWO}"));
    await_ready_page(&picker);
    let other = picker.enqueue(&chat("other"), 0);
    for woken in ["*", "m"] {
        let calls: Vec<Call> = (0..20).map(|_| picker.send(&chat("m"))).collect();
        picker.await_depth(if woken == "*" { 21 } else { 20 });
        hook.await_seen(if woken == "*" { 1 } else { 2 });
        assert_eq!(hook.seen().last().unwrap().json()["models"][0]["model"], woken);
        assert_eq!(picker.get("/ready").status, 200, "Envoy sends requests here");
        cluster.add_pod("pod-0", servers[0].address());
        for call in calls {
            let response = call.finish();
            assert_eq!(response.status, 200, "{}", response.text());
        }
        cluster.remove_pod("pod-0");
        await_state(&picker, "pod-0", None);
    }
    let unknown = other.finish();
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "model_not_found"));
    assert_eq!(hook.seen().len(), 2, "one call wakes the pool each time");
    assert_eq!(picker.get("/ready").status, 200, "else no request would start a pod");
    picker.await_idle();
}

#[test]
fn x02_an_account_without_the_charts_role_is_told_what_it_lacks() {
    let servers = servers(1);
    let cluster = cluster(&servers);
    let stranger = cluster.account("stranger", false);
    let config = format!("{TWO}{}", cluster.section_with(&stranger));
    let picker = Picker::launch(Recipe::original_dst(), &config);
    told(&picker, "the service account may not list inferencepools of inference.networking.k8s.io");
    told(&picker, "its role lacks the verb list for inferencepools");
    assert!(picker.backends().is_empty());
    // The token of an account that has the role is read without a restart.
    let allowed = cluster.account("tidegate", true);
    std::fs::rename(allowed, stranger).unwrap();
    picker.await_ready(1);
    assert_eq!(picker.ask(&chat("m")).status, 200);
    eventually("without a finding", || match &picker.get("/status").json()["findings"] {
        found if found.as_array().is_some_and(Vec::is_empty) => Ok(()),
        found => Err(found.to_string()),
    });
}
