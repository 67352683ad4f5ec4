//! The sections about backends: `discovery`, `health`, `metrics`, `upstream`, `retry`.

use flow::Bounds;

use super::backends;
use crate::config::settings::{FleetSettings, Kubernetes, KubernetesTarget};
use crate::schema::Section;

pub(in crate::config) fn fleet(root: &Section<'_>, bounds: Bounds) -> FleetSettings {
    let [health, upstream, retry] = ["health", "upstream", "retry"].map(|key| root.section(key));
    let mut fleet = FleetSettings {
        backends: backends::backends(root.sections("backends"), bounds),
        configured_models: Vec::new(),
        hold_ttl: root.section("queue").get("hold_ttl"),
        endpoints_file: root.section("discovery").path("endpoints_file"),
        kubernetes: kubernetes(&root.section("discovery").section("kubernetes")),
        addressed: false,
        discover: false,
        health_interval: health.get("interval"),
        health_timeout: health.get("timeout"),
        scrape_interval: root.section("metrics").get("interval"),
        eject_after: health.get("eject_after"),
        eject_for: health.get("eject_for"),
        silence_limit: health.get("silence_limit"),
        slow_start: health.get("slow_start"),
        connect_timeout: upstream.get("connect_timeout"),
        answer_timeout: upstream.get("answer_timeout"),
        stall_timeout: upstream.get("stall_timeout"),
        attempts_max: retry.get("attempts"),
        retry_share: retry.get("share"),
    };
    discovery(&root.section("discovery"), &mut fleet);
    fleet
}

/// Without a backend there is nothing to serve, so that Tidegate looks for one.
fn discovery(section: &Section<'_>, fleet: &mut FleetSettings) {
    let followed = fleet.endpoints_file.is_some() || fleet.kubernetes.is_some();
    let named = !fleet.backends.is_empty() || followed;
    let enabled = section.given("enabled");
    fleet.discover = enabled.unwrap_or(!named);
    let unknown = section.report().has_problems_in(&["backends", "discovery"]);
    if enabled == Some(false) && !named && !unknown {
        let what = "is false and there are no backends: name one in [[backends]] or by --backend";
        section.refuse("enabled", what);
    }
}

/// What is followed in Kubernetes; `None` if nothing is.
fn kubernetes(section: &Section<'_>) -> Option<Kubernetes> {
    let port = section.given::<u64>("port").and_then(|port| port.try_into().ok());
    let pool = section.given("pool");
    let pool = pool.map(|name| KubernetesTarget::Pool { name, group: section.get("pool_group") });
    let service = section.given("service");
    let service = service.map(|name| KubernetesTarget::Service { name, port });
    let selector = section.given("selector");
    if selector.is_some() && port.is_none() && !section.has("port") {
        let what = "needs `port` as well: it says nothing about the port of its pods";
        section.refuse("selector", what);
    }
    let pods = selector.zip(port).map(|(selector, port)| KubernetesTarget::Pods { selector, port });
    let targets: Vec<KubernetesTarget> = pool.into_iter().chain(service).chain(pods).collect();
    let others = ["url", "token_file", "ca_file", "namespace", "port", "pool_group"];
    let first = others.into_iter().find(|key| section.has(key));
    if let Some(key) = first.filter(|_| targets.is_empty() && !section.has("selector")) {
        section.refuse(key, "has no effect without `pool`, `service` or `selector`");
    }
    (!targets.is_empty()).then(|| Kubernetes {
        url: section.given("url"),
        token_file: section.path("token_file"),
        ca_file: section.path("ca_file"),
        namespace: section.given("namespace"),
        targets,
    })
}
