//! Discovery in Kubernetes: a gateway that follows an API server.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::api_server::{ApiServer, pod, pool};
use crate::support::cluster::{await_state, chat_or_stream, servers, under_load};
use crate::support::gateway::{ONE, TWO, fresh_file};
use crate::support::keys::Keys;
use crate::support::tls::{Authority, FrontEnd, TlsFront};
use crate::support::{Backend, Gateway, HttpRequest, chat, eventually};

/// An API server with a pool of these servers, named `pod-0` and so on.
fn cluster(servers: &[Backend]) -> ApiServer {
    let api = ApiServer::start();
    for (at, server) in servers.iter().enumerate() {
        api.put("pods", pod(&format!("pod-{at}"), server.address()));
    }
    api.put("inferencepools", pool("llama", &[servers[0].address().port()]));
    api
}

/// Waits until a finding of the status says this, and returns the output of `tidegate status`.
fn told(gateway: &Gateway, text: &str) -> String {
    eventually(text, || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(["status", "--url", &gateway.url()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if said.contains(text) { Ok(said) } else { Err(said) }
    })
}

/// Waits until the status says nothing about discovery.
fn told_nothing(gateway: &Gateway) {
    eventually("without a finding", || {
        let page = gateway.get("/status").json();
        let findings = page["findings"].as_array().cloned().unwrap_or_default();
        match findings.iter().find(|finding| finding["id"] == "discovery_failing") {
            Some(finding) => Err(finding.to_string()),
            None => Ok(()),
        }
    });
}

#[test]
fn x02_pods_come_and_go_under_load_without_a_lost_request() {
    let servers = servers(4);
    let api = cluster(&servers[..2]);
    let gateway = Gateway::launch(&format!("{TWO}{}", api.section("pool = \"llama\"")));
    gateway.await_ready(2);
    under_load(&gateway, |more| {
        for next in 2..4 {
            let (old, new) = (format!("pod-{}", next - 2), format!("pod-{next}"));
            api.put("pods", pod(&new, servers[next].address()));
            await_state(&gateway, &new, Some("ready"));
            more();
            // Kubernetes says that a pod will end before it ends it.
            api.change("pods", &old, |pod| {
                pod["metadata"]["deletionTimestamp"] = "2026-11-18T00:00:00Z".into();
            });
            await_state(&gateway, &old, Some("draining"));
            eventually("idle", || match gateway.backend(&old)["queue_depth"].as_u64() {
                Some(0) => Ok(()),
                count => Err(format!("{count:?}")),
            });
            let seen = servers[next - 2].seen().len();
            servers[next - 2].stop();
            more();
            assert_eq!(servers[next - 2].seen().len(), seen, "a pod that ends gets nothing new");
            api.delete("pods", &old);
            await_state(&gateway, &old, None);
            more();
        }
    });
    assert!(!servers[3].seen().is_empty());
    gateway.await_idle();
}

#[test]
fn x02_a_watch_survives_pages_compactions_cuts_and_slow_lines() {
    let servers = servers(3);
    let api = cluster(&servers[..2]);
    api.set_page(1);
    api.slow_down();
    let gateway = Gateway::launch(&format!("{TWO}{}", api.section("pool = \"llama\"")));
    gateway.await_ready(2);
    assert!(!api.seen("pods?continue=").is_empty(), "the list came in pages");
    api.await_watches(4);
    // Nothing that happens while no watch is open is missed.
    api.cut();
    api.put("pods", pod("pod-2", servers[2].address()));
    gateway.await_ready(3);
    api.await_watches(4);
    let lists = api.seen("list /api/v1").len();
    api.delete("pods", "pod-2");
    api.compact();
    gateway.await_ready(2);
    eventually("listed again", || match api.seen("list /api/v1").len() {
        count if count > lists => Ok(()),
        count => Err(count.to_string()),
    });
    api.change("pods", "pod-1", |pod| pod["status"]["conditions"][0]["status"] = "False".into());
    await_state(&gateway, "pod-1", Some("draining"));
    assert_eq!(gateway.backend("pod-1")["reason"], "Kubernetes does not report it as ready");
    // The measurements of a pod that is not ready for a while are kept: it is the same backend.
    api.change("pods", "pod-1", |pod| pod["status"]["conditions"][0]["status"] = "True".into());
    gateway.await_ready(2);
    // The pool selects other pods.
    api.change("inferencepools", "llama", |pool| {
        pool["spec"]["selector"]["matchLabels"]["tier"] = "gold".into();
    });
    await_state(&gateway, "pod-0", None);
    api.change("pods", "pod-0", |pod| pod["metadata"]["labels"]["tier"] = "gold".into());
    gateway.await_ready(1);
}

#[test]
fn x02_p02_objectives_and_rewrites_of_the_cluster_apply() {
    let servers = servers(1);
    let api = cluster(&servers);
    let of_pool = json!({"name": "llama", "group": "inference.networking.k8s.io"});
    let objective = |name: &str, priority: i64| {
        let spec = json!({"priority": priority, "poolRef": of_pool});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    api.put("inferenceobjectives", objective("gold", 10));
    api.put("inferenceobjectives", objective("own", 10));
    // Pools of both groups may have the same name.
    let of_other = json!({"name": "llama", "group": "inference.networking.x-k8s.io"});
    let spec = json!({"priority": 10, "poolRef": of_other});
    api.put("inferenceobjectives", json!({"metadata": {"name": "other"}, "spec": spec}));
    let matches = json!([{"model": {"type": "Exact", "value": "food-review"}}]);
    let rules = json!([{"matches": matches, "targets": [{"modelRewrite": "m"}]}]);
    api.put(
        "inferencemodelrewrites",
        json!({"metadata": {"name": "r"}, "spec": {"poolRef": of_pool, "rules": rules}}),
    );
    let own = "[log]\nformat = \"json\"\n[[objectives]]\nname = \"own\"\nband = \"low\"\n";
    let gateway = Gateway::launch(&format!("{TWO}{own}{}", api.section("pool = \"llama\"")));
    gateway.await_ready(1);
    let mut number = 0;
    let mut band = |objective: &str| {
        number += 1;
        let id = format!("r{number}");
        let ask = chat("m").header("x-gateway-inference-objective", objective);
        assert_eq!(gateway.ask(&ask.header("x-request-id", &id)).status, 200);
        gateway.access_of(&id)["priority"].as_str().unwrap_or_default().to_owned()
    };
    eventually("critical", || match band("gold") {
        band if band == "critical" => Ok(()),
        band => Err(band),
    });
    assert_eq!(band("own"), "best_effort", "the configuration goes before the cluster");
    assert_eq!(band("other"), "normal", "it is of a pool of another group");
    api.put("inferenceobjectives", objective("gold", -1));
    eventually("best effort", || match band("gold") {
        band if band == "best_effort" => Ok(()),
        band => Err(band),
    });
    eventually("rewritten", || match gateway.ask(&chat("food-review")).status {
        200 => Ok(()),
        status => Err(status.to_string()),
    });
    assert_eq!(servers[0].seen().last().unwrap().json()["model"], "m");
}

#[test]
fn x02_a_missing_role_is_told_and_the_last_list_is_kept() {
    let servers = servers(2);
    let api = cluster(&servers[..1]);
    let gateway = Gateway::launch(&format!("{TWO}{}", api.section("pool = \"llama\"")));
    gateway.await_ready(1);
    api.forbid("list", "pods");
    api.compact();
    api.put("pods", pod("pod-1", servers[1].address()));
    let said = told(&gateway, "may not list pods in the namespace models");
    assert!(said.contains("tidegate explain discovery_failing"), "{said}");
    gateway.process.await_log("its role lacks the verb list for pods", 1);
    assert_eq!(gateway.ask(&chat("m")).status, 200, "the last known pod is served");
    api.allow_all();
    gateway.await_ready(2);
    told_nothing(&gateway);
    // Objectives are optional, but a right that lacks is told.
    api.forbid("watch", "inferenceobjectives");
    api.cut();
    told(&gateway, "may not watch inferenceobjectives of llm-d.ai in the namespace models");
    // A pool that does not exist has no backends.
    api.delete("inferencepools", "llama");
    told(&gateway, "there is no InferencePool llama in the namespace models");
    await_state(&gateway, "pod-0", None);
    assert_eq!(gateway.get("/ready").status, 503, "no pod will come");
    gateway.ask(&chat("m")).refused(503, "no_backend");
}

#[test]
fn x02_m03_a_missing_pool_of_the_older_group_is_told_with_its_group() {
    let api = ApiServer::start();
    api.put("inferencepools", pool("llama", &[8000]));
    let gateway = Gateway::launch(&api.section("pool = \"llama\"\npool_group = \"alpha\""));
    let group = "inference.networking.x-k8s.io";
    told(&gateway, &format!("there is no InferencePool llama of {group} in the namespace models"));
}

#[test]
fn x02_m03_an_empty_pool_and_a_wrong_rewrite_are_told_by_name() {
    let servers = servers(1);
    let api = cluster(&servers);
    let rules = json!([{"matches": [{"model": {"value": "food"}}], "targets": []}]);
    let spec = json!({"poolRef": {"name": "llama"}, "rules": rules});
    api.put("inferencemodelrewrites", json!({"metadata": {"name": "reviews"}, "spec": spec}));
    let gateway = Gateway::launch(&format!("{TWO}{}", api.section("pool = \"llama\"")));
    let said = told(&gateway, "the InferenceModelRewrite reviews, rule 1 (for \"food\")");
    assert!(said.contains("warning: discovery in Kubernetes"), "{said}");
    assert!(said.contains("tidegate explain discovery_incomplete"), "{said}");
    gateway.await_ready(1);
    let drained = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = "False".into();
    api.change("pods", "pod-0", drained);
    await_state(&gateway, "pod-0", Some("draining"));
    gateway.process.await_log("the backend gets no new requests backend=pod-0", 1);
    api.delete("pods", "pod-0");
    told(
        &gateway,
        "there is no backend: the InferencePool llama with the selector app=vllm finds no \
         endpoint in the namespace models",
    );
}

#[test]
fn x02_m03_pods_that_refuse_their_model_lists_are_told_by_name() {
    let servers = servers(3);
    servers[1..].iter().for_each(|server| server.set_forbidding(true));
    let api = cluster(&servers);
    let gateway = Gateway::launch(&format!("{TWO}{}", api.section("pool = \"llama\"")));
    gateway.await_ready(1);
    let why = "gets no requests: its model list is unknown: /v1/models answered 403 Forbidden";
    told(&gateway, &format!("pod-1 {why}"));
    let said = told(&gateway, &format!("pod-2 {why}"));
    assert!(said.contains("tidegate explain model_list_unknown"), "{said}");
    assert!(!said.contains("All is well"), "{said}");
}

/// Two servers of one pool, the second of which lists another model.
fn two_models() -> [Backend; 2] {
    let [first, second] = <[Backend; 2]>::try_from(servers(2)).unwrap();
    [first.lists(&["m"]), second.lists(&["n"])]
}

/// A gateway whose pool had two servers and has none. The configuration names no model.
fn emptied(api: &ApiServer, sections: &str) -> Gateway {
    let gateway = Gateway::launch(&format!("{sections}{}", api.section("pool = \"llama\"")));
    gateway.await_ready(2);
    for name in ["pod-0", "pod-1"] {
        api.delete("pods", name);
        await_state(&gateway, name, None);
    }
    gateway
}

#[test]
fn x02_o06_a_model_that_returns_after_another_keeps_its_requests() {
    let servers = two_models();
    let api = cluster(&servers);
    let gateway = emptied(&api, TWO);
    api.put("pods", pod("pod-0", servers[0].address()));
    gateway.await_ready(1);
    let later = gateway.enqueue(&chat("n"), 0);
    assert_eq!(gateway.ask(&chat("other")).code(), "model_not_found", "the pool never had it");
    api.put("pods", pod("pod-1", servers[1].address()));
    let response = later.finish();
    assert_eq!((response.status, response.header("x-backend-used")), (200, Some("pod-1")));
    gateway.await_idle();
}

#[test]
fn x02_o06_a_request_for_a_model_that_does_not_return_is_told_so() {
    let servers = two_models();
    let api = cluster(&servers);
    let queue = "[queue]\nqueue_ttl = \"1h\"\nhold_ttl = \"5s\"\n";
    let gateway = emptied(&api, &format!("{TWO}{queue}"));
    // The client would wait for an hour.
    let held = gateway.enqueue(&chat("n").header("x-llm-d-inference-ttl", "3600"), 0);
    api.put("pods", pod("pod-0", servers[0].address()));
    let refused = held.finish();
    assert_eq!((refused.status, refused.code().as_str()), (404, "model_not_found"));
    gateway.await_idle();
}

#[test]
fn x02_x04_tokens_rotate_and_the_certificate_is_checked() {
    let servers = servers(1);
    let api = cluster(&servers);
    let (authority, folder) = (Authority::new("cluster"), fresh_file());
    let (roots, token) = (folder.with_file_name("ca.crt"), folder.with_file_name("token"));
    fs::write(&roots, authority.pem()).unwrap();
    fs::write(&token, "first\n").unwrap();
    api.set_token("first");
    let keyed = authority.issue(&["localhost"]);
    let front = TlsFront::before(api.address(), &keyed, FrontEnd::Said);
    let section = |host: &str| {
        format!(
            "{TWO}[discovery.kubernetes]\nurl = \"https://{host}:{}\"\npool = \"llama\"\n\
             namespace = \"models\"\nca_file = {roots:?}\ntoken_file = {token:?}\n",
            front.port()
        )
    };
    let gateway = Gateway::launch(&section("localhost"));
    gateway.await_ready(1);
    api.set_token("token-two");
    api.cut();
    told(&gateway, "does not accept the token in");
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    fs::write(&token, "token-two\n").unwrap();
    told_nothing(&gateway);
    assert!(!gateway.process.log().contains("token-two"), "no token is logged");
    // The certificate is for another name.
    let stranger = Gateway::launch(&section("127.0.0.1"));
    told(&stranger, "cannot connect to 127.0.0.1");
    assert!(stranger.backends().is_empty());
}

#[test]
fn x02_a_service_and_a_selector_are_followed_without_a_pool() {
    let (one, two) = (Backend::quick(), Backend::quick());
    let api = ApiServer::start();
    let slice = |name: &str, server: &Backend, conditions: Value| {
        let SocketAddr::V4(address) = server.address() else { panic!() };
        json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "llama"}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": address.port()}],
            "endpoints": [{"addresses": [address.ip().to_string()], "conditions": conditions,
                           "targetRef": {"kind": "Pod", "name": format!("of-{name}")}}],
        })
    };
    api.put("endpointslices", slice("a", &one, json!({"ready": true})));
    api.put("endpointslices", slice("b", &two, json!({"ready": true})));
    let gateway = Gateway::launch(&format!("{ONE}{}", api.section("service = \"llama\"")));
    gateway.await_ready(2);
    let ending = json!({"ready": false, "serving": true, "terminating": true});
    api.put("endpointslices", slice("a", &one, ending));
    await_state(&gateway, "of-a", Some("draining"));
    assert_eq!(gateway.ask(&chat("m")).header("x-backend-used"), Some("of-b"));
    api.delete("endpointslices", "a");
    await_state(&gateway, "of-a", None);
    assert!(api.seen("inferenceobjectives").is_empty(), "a service needs no other right");
    // The configuration is changed to the pods of a selector.
    api.put("pods", pod("alone", two.address()));
    let keys = format!("selector = \"app=vllm\"\nport = {}", two.address().port());
    gateway.rewrite(&format!("{ONE}{}", api.section(&keys)));
    await_state(&gateway, "alone", Some("ready"));
    await_state(&gateway, "of-b", None);
}

#[test]
fn o05_a_drained_backend_finishes_its_streams_and_gets_nothing_new() {
    let (one, two) = (Backend::held(), Backend::quick());
    let backends = [("one", one.address()), ("two", two.address())];
    let gateway = Gateway::start(&crate::support::gateway::config(TWO, &backends));
    // The other backend is drained first, so that the request goes to this one.
    let post = |path: &str| gateway.ask(&HttpRequest::post(path, ""));
    assert_eq!(post("/backends/two/drain").json()["state"], "draining");
    let running = gateway.send(&chat("m"));
    one.await_running(1);
    assert_eq!(post("/backends/two/undrain").json()["state"], "ready");
    let drained = post("/backends/one/drain").json();
    assert_eq!((&drained["state"], &drained["in_flight"]), (&json!("draining"), &json!(1)));
    for _ in 0..5 {
        assert_eq!(gateway.ask(&chat("m")).header("x-backend-used"), Some("two"));
    }
    assert_eq!(post("/backends/three/drain").code(), "backend_not_found");
    assert_eq!(gateway.get("/backends/one/drain").status, 405);
    told(&gateway, "one gets no new requests: an operator drains it");
    let state = "tidegate_backend_state{backend=\"one\",state=\"draining\"} 1";
    assert!(gateway.get("/metrics").text().contains(state), "{}", gateway.get("/metrics").text());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let command = command.args(["drain", "one", "--wait", "--url", &gateway.url()]);
    let waiting = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    one.open();
    assert_eq!(running.finish().status, 200);
    let output = waiting.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.ends_with("one is drained: it has no request\n"));
    gateway.process.await_log("drained: the backend has no request any more", 1);
}

#[test]
fn o05_x05_draining_needs_the_right_to_change() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let reader = keys.make(&["--admin", "read", "--name", "reader"]);
    let operator = keys.make(&["--admin", "change", "--name", "operator"]);
    let tenant = keys.tenant("alpha", "a");
    let sections = format!("{TWO}[[tenants]]\nname = \"alpha\"\n{}", keys.section());
    let gateway =
        Gateway::launch(&crate::support::gateway::config(&sections, &[("one", backend.address())]));
    let drain = HttpRequest::post("/backends/one/drain", "");
    let status = |ask: HttpRequest| gateway.ask(&ask).status;
    assert_eq!(status(drain.clone()), 401);
    assert_eq!(status(drain.clone().key(&tenant)), 403);
    assert_eq!(status(drain.clone().key(&reader)), 403);
    // A website in the browser of an operator has no key.
    assert_eq!(status(drain.clone().header("origin", "https://evil.example")), 403);
    assert_eq!(status(drain.key(&operator)), 200);
}

#[test]
fn o05_a_rolling_restart_of_all_backends_loses_no_request() {
    let mut servers = servers(3);
    let backends: Vec<(&str, SocketAddr)> =
        ["a", "b", "c"].into_iter().zip(servers.iter().map(Backend::address)).collect();
    let health = "[health]\ninterval = \"100ms\"\n";
    let config = crate::support::gateway::config(&format!("{TWO}{health}"), &backends);
    let gateway = Gateway::start(&config);
    under_load(&gateway, |more| {
        for (at, (id, address)) in backends.iter().enumerate() {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
            let command = command.args(["drain", id, "--wait", "--url", &gateway.url()]);
            assert!(command.output().unwrap().status.success());
            let seen = servers[at].seen().len();
            servers[at].stop();
            more();
            assert_eq!(servers[at].seen().len(), seen);
            servers[at] = Backend::start_at(*address, chat_or_stream);
            gateway.ask(&HttpRequest::post(&format!("/backends/{id}/undrain"), ""));
            await_state(&gateway, id, Some("ready"));
            more();
            eventually("used again", || match servers[at].seen().len() {
                0 => Err("unused".to_owned()),
                _ => Ok(()),
            });
        }
    });
    gateway.await_idle();
}
