//! Objects of a cluster as backends.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::api_server::ApiServer;
use super::super::endpoints::{ENDPOINTS_MAX, leave_out_unusable, of_pods, of_slices};
use super::super::objects::{InferencePool, Pod};
use super::objects;
use crate::config::settings::{
    BackendKind, BackendSpec, DrainCause, Kubernetes, KubernetesTarget, PoolGroup,
};

fn pod(name: &str, address: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "models", "labels": {"app": "vllm"}},
        "spec": {"containers": [{"name": "vllm"}]},
        "status": {
            "phase": "Running",
            "podIP": address,
            "conditions": [{"type": "Initialized", "status": "True"},
                           {"type": "Ready", "status": "True"}],
        },
    })
}

fn shown(specs: &[BackendSpec]) -> Vec<String> {
    let line = |spec: &BackendSpec| match spec.drain {
        Some(drain) => format!("{} {} {drain:?}", spec.id, spec.url),
        None => format!("{} {}", spec.id, spec.url),
    };
    specs.iter().map(line).collect()
}

#[test]
fn x02_ready_pods_of_a_pool_are_backends() {
    let (mut waits, mut ends, mut done) =
        (pod("b", "10.0.0.2"), pod("c", "fd00::3"), pod("d", "1"));
    waits["status"]["conditions"][1]["status"] = "False".into();
    ends["metadata"]["deletionTimestamp"] = "2026-11-18T00:00:00Z".into();
    done["status"]["phase"] = "Succeeded".into();
    let mut sglang = pod("e", "10.0.0.5");
    sglang["metadata"]["labels"]["llm-d.ai/engine-type"] = "sglang".into();
    let all = [pod("a", "10.0.0.1"), waits, ends, done, sglang, pod("f", "")];
    let specs = of_pods(&objects(all), &[8000], false);
    let expected = [
        "a http://10.0.0.1:8000",
        "b http://10.0.0.2:8000 NotReady",
        "c http://[fd00::3]:8000 Terminating",
        "e http://10.0.0.5:8000",
    ];
    assert_eq!(shown(&specs), expected);
    let kinds: Vec<BackendKind> = specs.iter().map(|spec| spec.kind).collect();
    assert_eq!((kinds[0], kinds[3]), (BackendKind::Auto, BackendKind::Sglang));
}

#[test]
fn x02_ports_and_addresses_that_no_server_has_are_left_out() {
    let pool = |ports: Value| -> Vec<u16> {
        let pool: InferencePool =
            serde_json::from_value(json!({"spec": {"targetPorts": ports}})).unwrap();
        pool.spec.ports()
    };
    let numbers = [0, 70_000, -1, i64::MAX, 65_535].map(|number| json!({"number": number}));
    assert_eq!(pool(json!(numbers)), [65_535]);
    assert!(pool(json!([{}])).is_empty());
    let hosts = ["evil.example", "10.0.0.1/x", "[::1]", "fe80::1%eth0", " ", "::ffff:10.0.0.1"];
    let pods = hosts.iter().enumerate().map(|(at, host)| pod(&format!("p{at}"), host));
    let specs = of_pods(&objects(pods), &[8000], false);
    assert_eq!(shown(&specs), ["p5 http://[::ffff:10.0.0.1]:8000"]);
    let endpoint = json!({"addresses": ["evil.example"]});
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4",
                       "ports": [{"port": 70_000}, {"port": 80}], "endpoints": [endpoint]});
    let mut good = slice.clone();
    good["metadata"]["name"] = "t".into();
    good["endpoints"][0]["addresses"] = json!(["10.0.0.9"]);
    let specs = of_slices(&objects([slice, good]), None);
    assert_eq!(shown(&specs), ["10.0.0.9:80 http://10.0.0.9:80"]);
}

/// An address may pass to another pod while the old one still ends.
#[test]
fn x02_pods_with_one_address_are_backends_of_their_own() {
    let mut old = pod("old", "10.0.0.1");
    old["metadata"]["deletionTimestamp"] = "2026-11-18T00:00:00Z".into();
    let specs = of_pods(&objects([old, pod("new", "10.0.0.1")]), &[8000], false);
    let expected = ["new http://10.0.0.1:8000", "old http://10.0.0.1:8000 Terminating"];
    assert_eq!(shown(&specs), expected);
}

#[test]
fn x02_each_rank_of_a_data_parallel_pod_is_a_backend() {
    let mut some = pod("b", "10.0.0.2");
    some["metadata"]["annotations"] = json!({"llm-d.ai/active-ports": "8001, 9000,x"});
    let mut older = pod("c", "10.0.0.3");
    older["metadata"]["annotations"] = json!({"inference.networking.k8s.io/active-ports": "8000"});
    let specs = of_pods(&objects([pod("a", "10.0.0.1"), some, older]), &[8000, 8001], true);
    let expected = [
        "a-rank-0 http://10.0.0.1:8000",
        "a-rank-1 http://10.0.0.1:8001",
        "b-rank-1 http://10.0.0.2:8001",
        "c-rank-0 http://10.0.0.3:8000",
    ];
    assert_eq!(shown(&specs), expected);
    assert!(specs.iter().all(|spec| spec.http2));
}

#[test]
fn x02_ids_of_pods_obey_the_rule_of_the_configuration() {
    let (long, space) = ("x".repeat(257), "<img src=x>");
    let all =
        [pod("a", "10.0.0.1"), pod(&long, "10.0.0.2"), pod(space, "10.0.0.3"), pod("", "10.0.0.4")];
    let mut specs = of_pods(&objects(all), &[8000], false);
    assert_eq!(leave_out_unusable(&mut specs), 3);
    assert_eq!(shown(&specs), ["a http://10.0.0.1:8000"]);
    assert_eq!(leave_out_unusable(&mut specs), 0);
}

#[test]
fn x02_no_more_endpoints_are_made_than_are_used() {
    let ports: Vec<u16> = (1..=u16::MAX).collect();
    let specs = of_pods(&objects([pod("a", "10.0.0.1"), pod("b", "10.0.0.2")]), &ports, false);
    // One more says that there are too many.
    assert_eq!(specs.len(), ENDPOINTS_MAX + 1);
}

#[test]
fn x02_only_the_labels_and_annotations_that_are_read_are_kept() {
    let mut one = pod("a", "10.0.0.1");
    one["metadata"]["labels"]["llm-d.ai/engine-type"] = "sglang".into();
    one["metadata"]["annotations"] = json!({"note": "x".repeat(1000),
        "llm-d.ai/active-ports": "8000"});
    let pods = objects::<Pod>([one]);
    let kept = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(kept(&pods["a"].metadata.labels.0), ["llm-d.ai/engine-type"]);
    assert_eq!(kept(&pods["a"].metadata.annotations.0), ["llm-d.ai/active-ports"]);
}

#[test]
fn x02_both_groups_of_a_pool_say_the_same() {
    let pool = |spec: Value| -> InferencePool {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    };
    let stable = pool(json!({
        "selector": {"matchLabels": {"app": "vllm", "tier": "gold"}},
        "targetPorts": [{"number": 8000}, {"number": 8001}],
        "endpointPickerRef": {"name": "epp", "port": {"number": 9002}},
    }));
    assert_eq!(stable.spec.selector.text().unwrap(), "app=vllm,tier=gold");
    assert_eq!(stable.spec.ports(), [8000, 8001]);
    let alpha = pool(json!({
        "selector": {"app": "vllm", "tier": "gold"},
        "targetPortNumber": 8000,
        "extensionRef": {"name": "epp"},
    }));
    assert_eq!(alpha.spec.selector.text().unwrap(), "app=vllm,tier=gold");
    assert_eq!(alpha.spec.ports(), [8000]);
    for empty in [json!({}), json!({"selector": {"matchLabels": {}}}), json!({"selector": {}})] {
        assert_eq!(pool(empty).spec.selector.text(), None);
    }
}

#[test]
fn x02_the_endpoints_of_a_service_are_backends() {
    let slice = |name: &str, family: &str, port: Value, endpoints: Value| {
        json!({"metadata": {"name": name}, "addressType": family,
               "ports": [{"name": "http", "port": port}], "endpoints": endpoints})
    };
    let endpoint = |address: &str, conditions: Value| {
        json!({"addresses": [address], "conditions": conditions,
               "targetRef": {"kind": "Pod", "name": format!("pod-{address}")}})
    };
    let v4 = json!([
        endpoint("10.0.0.1", json!({"ready": true})),
        endpoint("10.0.0.2", json!({"ready": false, "serving": true, "terminating": true})),
        endpoint("10.0.0.3", json!({"ready": false})),
        // An unknown state counts as ready.
        endpoint("10.0.0.4", json!({})),
        {"addresses": ["10.0.0.5"], "conditions": {"ready": true}},
    ]);
    let v6 = json!([{"addresses": ["fd00::1"], "targetRef": {"name": "pod-10.0.0.1"}}]);
    let slices = objects([
        slice("v6", "IPv6", json!(8000), v6),
        slice("v4", "IPv4", json!(8000), v4),
        slice("names", "FQDN", json!(8000), json!([{"addresses": ["a.example"]}])),
        json!({"metadata": {"name": "empty"}, "addressType": "IPv4", "endpoints": null,
               "ports": null}),
    ]);
    let expected = [
        "10.0.0.5:8000 http://10.0.0.5:8000",
        "pod-10.0.0.1 http://10.0.0.1:8000",
        "pod-10.0.0.2 http://10.0.0.2:8000 Terminating",
        "pod-10.0.0.3 http://10.0.0.3:8000 NotReady",
        "pod-10.0.0.4 http://10.0.0.4:8000",
    ];
    assert_eq!(shown(&of_slices(&slices, None)), expected);
    assert!(of_slices(&slices, Some(9000)).iter().all(|spec| spec.url.ends_with(":9000")));
    assert_eq!(DrainCause::Terminating.to_string(), "Kubernetes is about to end it");
}

#[test]
fn x02_the_api_server_is_that_of_the_pod_or_of_the_configuration() {
    let targets = vec![KubernetesTarget::Pool { name: "p".into(), group: PoolGroup::Stable }];
    let nothing = Kubernetes {
        url: None,
        token_file: None,
        ca_file: None,
        namespace: Some("n".into()),
        targets,
    };
    let error = ApiServer::with(&nothing, |_| None).unwrap_err().to_string();
    assert!(error.contains("set discovery.kubernetes.url"), "{error}");
    let pod = |name: &str| match name {
        "KUBERNETES_SERVICE_HOST" => Some("fd00::1".to_owned()),
        "KUBERNETES_SERVICE_PORT" => Some("6443".to_owned()),
        _ => None,
    };
    let server = ApiServer::with(&nothing, pod).unwrap();
    let account = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    assert_eq!(server.token_file.as_deref(), Some(account.as_ref()));
    assert_eq!(server.origin(), "https://[fd00::1]:6443");
    let url = Some("http://127.0.0.1:8001".into());
    let proxied = Kubernetes { url, namespace: None, ..nothing };
    let server = ApiServer::with(&proxied, pod).unwrap();
    assert_eq!((server.token_file.as_ref(), server.namespace.as_str()), (None, "default"));
}
