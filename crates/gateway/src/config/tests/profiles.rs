//! Profiles: which file implies which, and what they set.

use flow::{Admission, Bounds, Hysteresis, Order, Span};

use super::{Config, bad, good, toml, yaml};
use crate::config::settings::{Conventions, Profile};
use crate::config::{Flag, Source, resolve};

/// The profile in force and its cause.
fn profile(config: &Config) -> Option<String> {
    config.values.profile()
}

/// The beginning of a profile's description.
#[track_caller]
fn implies(config: &Config, begin: Option<&str>) {
    let found = profile(config);
    let is_meant = match (&found, begin) {
        (Some(found), Some(begin)) => found.starts_with(begin),
        (found, begin) => found.is_none() && begin.is_none(),
    };
    assert!(is_meant, "{found:?}, not {begin:?}");
}

/// The proposal's table of parameters, with the example of each row.
const PROPOSAL: [&str; 8] = [
    "fair_request_queue: { total_capacity: 2000 }",
    "fair_request_queue: { flow_capacity: 200 }",
    "fair_request_queue: { queue_ttl: \"90s\" }",
    "request_queue_controller: { watermark_per_backend: 3 }",
    "request_queue_controller: { percentage_deviation_for_bounds: 0.15 }",
    "request_queue_controller: { lower_bound_per_backend: 1 }",
    "request_queue_controller: { upper_bound_per_backend: 4 }",
    "request_queue_controller: { expiry_cleanup_interval: \"5s\" }",
];

#[test]
fn g01_each_example_of_the_proposal_implies_its_rules() {
    for text in PROPOSAL {
        let config = yaml(text).unwrap();
        let section = text.split(':').next().unwrap();
        let cause = format!("inference-gateway, implied by {section} at t.yaml:1");
        assert_eq!(profile(&config).as_deref(), Some(cause.as_str()), "{text}");
        let flow = &config.flow;
        assert_eq!(flow.admission, Admission::CriticalOnly);
        assert!(flow.existing_flows_may_exceed_total && flow.reserve.is_off());
        assert_eq!(flow.objectives, [Span::FOREVER; 4]);
        assert_eq!((flow.cache_reorder, flow.cache_slack, flow.model_stay), (0, 0, Span::ZERO));
        assert_eq!(flow.cache_delay, Span::ZERO);
        assert!(config.conventions.proposal_metrics);
    }
    let bounds = |text| yaml(text).unwrap().flow.bounds;
    assert_eq!(bounds(PROPOSAL[0]), Hysteresis::around(2.0, 0.1).unwrap().into());
    assert_eq!(bounds(PROPOSAL[3]), Hysteresis::around(3.0, 0.1).unwrap().into());
    assert_eq!(bounds(PROPOSAL[4]), Hysteresis::around(2.0, 0.15).unwrap().into());
    assert_eq!(bounds(PROPOSAL[5]), Hysteresis::between(1.0, 2.0, 2.2).unwrap().into());
    assert_eq!(bounds(PROPOSAL[6]), Hysteresis::between(1.8, 2.0, 4.0).unwrap().into());
    implies(&good("[fairRequestQueue]\ntotalCapacity = 3"), Some("inference-gateway"));
}

#[test]
fn g01_a_queue_with_the_keys_of_nexus_alone_implies_its_rules() {
    let text = "[queue]\nenabled = true\nmax_size = 100\nmax_wait_seconds = 30";
    let config = good(text);
    implies(&config, Some("nexus, implied by queue at t.toml:1"));
    assert_eq!(config.flow.admission, Admission::UntilFull);
    assert_eq!((config.flow.total_capacity, config.flow.default_class.capacity), (100, 100));
    assert_eq!(config.flow.bounds, Bounds::Auto);
    assert_eq!((config.fleet.attempts_max, config.fleet.retry_share), (100_000, 1e5));
    assert_eq!(config.identity.parts, [flow::identity::Attribute::Tenant]);
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    for text in ["[queue]\nmax_size = 1", "[queue]\nmax_wait_seconds = 1"] {
        implies(&good(text), Some("nexus"));
    }
    for own in [
        "[queue]\nenabled = true",
        "[queue]\ntotal_capacity = 5",
        "[queue]\nmax_size = 5\nflow_by = ['header:x-team']",
        "[queue]\nmax_size = 5\norder = 'deadline'",
    ] {
        implies(&good(own), None);
    }
}

/// The snippets of the proxy's document.
const PROXY: [&str; 4] = [
    "router:\n  priority_scoring:\n    critical_boost: 500.0\n    high_boost: 200.0\n    \
     normal_boost: 0.0\n    best_effort_penalty: -100.0",
    "router:\n  queue_depth_penalty_per_request: 50.0",
    "router:\n  priority_scoring:\n    critical_boost: 1000.0",
    "router:\n  priority_scoring:\n    best_effort_penalty: -50.0",
];

#[test]
fn g01_the_router_of_the_proxy_implies_its_rules_and_our_own_does_not() {
    for text in PROXY {
        let config = yaml(text).unwrap();
        implies(&config, Some("ollama-proxy, implied by router at t.yaml:1"));
        assert!(config.log.decisions && config.dbus.is_some());
        assert_eq!((config.flow.admission, config.flow.cache_tokens), (Admission::UntilFull, 0));
        let proxy =
            Conventions { waiting_is_pending: true, flat_depth: true, ..Conventions::default() };
        assert_eq!(config.conventions, proxy);
    }
    let scoring = "router: { priority_scoring: { critical_boost: 500 } }";
    for own in [
        format!("{scoring}\nqueue: {{ queue_ttl: 5 }}"),
        format!("{scoring}\nserver: {{ grace: 5 }}"),
        "router: { priority_scoring: { critical_boost: 500 }, kv_penalty: 3 }".into(),
        "router: { kv_penalty: 3 }".into(),
    ] {
        implies(&yaml(&own).unwrap(), None);
    }
    implies(&good("[router.priority_scoring]\ncritical_boost = 500"), None);
    implies(&good("[workload]\nwindow = 60"), None);
    implies(&good("[queue]\norder = 'workload'"), None);
}

#[test]
fn g01_a_profile_has_a_name_and_every_key_wins_over_it() {
    for (word, expected) in [
        ("inference-gateway", Profile::InferenceGateway),
        ("Nexus", Profile::Nexus),
        ("ollama_proxy", Profile::OllamaProxy),
        ("workload-aware", Profile::WorkloadAware),
    ] {
        let config = good(&format!("profile = '{word}'"));
        assert_eq!(config.conventions, expected.conventions());
        implies(&config, Some(&word.to_lowercase().replace('_', "-")));
        let flags = vec![Flag::Set(format!("profile={word}"))];
        let by_flag = resolve(&Source { flags, ..Source::default() }, "").unwrap();
        assert_eq!(by_flag, config, "{word}");
        let own = good(&format!("profile = '{word}'\n[queue]\nslo_ttft = 3\nadmission = 'all'"));
        assert_eq!(
            (own.flow.objectives[1], own.flow.admission),
            (Span::from_secs(3), Admission::All)
        );
    }
    let flow = good("profile = 'workload-aware'").flow;
    assert_eq!((flow.order, flow.default_class.ttl), (Order::Workload, Span::from_secs(120)));
    let off = good("profile = 'none'\n[queue]\nmax_size = 7");
    implies(&off, None);
    assert_eq!((off.flow.total_capacity, off.flow.admission), (7, Admission::All));
    let named = good("profile = 'nexus'\n[queue]\ntotal_capacity = 7");
    assert_eq!(named.flow.default_class.capacity, 7, "a flow may fill the queue");
    let wrong = bad("profile = 'nexsus'");
    assert!(wrong[0].contains("did you mean \"nexus\"?"), "{wrong:?}");
    assert!(bad("profile = 3")[0].contains("profile is 3"));
}

/// No design lets a request wait longer where its model has no backend.
#[test]
fn g01_q08_the_time_to_live_holds_without_a_backend_too() {
    for (text, secs) in [
        ("[queue]\nmax_wait_seconds = 7", 7),
        ("[queue]\nmax_size = 7", 30),
        ("[fair_request_queue]\nqueue_ttl = '90s'", 90),
        ("profile = 'inference-gateway'", 30),
        ("profile = 'ollama-proxy'", 600),
        ("profile = 'nexus'\n[queue]\nhold_ttl = 40", 40),
        ("", 300),
    ] {
        let config = good(text);
        assert_eq!(config.hold.ttl, Span::from_secs(secs), "{text}");
        assert_eq!(config.fleet.hold_ttl.as_secs(), secs, "{text}");
    }
    assert_eq!(bad("[queue]\nmax_wait_seconds = 'soon'").len(), 1, "a mistake is told once");
}

/// N07: a profile that promises 503 within a second lets no picker drain.
#[test]
fn g01_n07_the_picker_does_not_drain_under_nexus() {
    let drain = |text: &str| good(text).epp.drain.as_secs();
    assert_eq!([drain("profile = 'nexus'"), drain("profile = 'inference-gateway'")], [0, 3]);
    assert_eq!(drain("profile = 'nexus'\n[epp]\ndrain = '2s'"), 2);
}

/// What a profile sets is told like every other value, one a line.
#[test]
fn g01_check_tells_what_a_profile_sets_and_who_implied_it() {
    let config = toml("[queue]\nmax_size = 9").unwrap();
    let shown = crate::config::Summary(&config).to_string();
    assert!(shown.starts_with("profile   nexus, implied by queue at t.toml:1\n"), "{shown}");
    assert!(shown.contains("errors of requests have no `param`"), "{shown}");
    let settings = config.values.settings();
    let origin = |key: &str| {
        let setting = settings.iter().find(|setting| setting.key == key).unwrap();
        (setting.value.clone(), setting.origin.clone())
    };
    assert_eq!(origin("queue.slo_ttft"), ("\"0s\"".into(), "profile nexus".into()));
    assert_eq!(origin("queue.total_capacity"), ("9".into(), "t.toml:2".into()));
    assert_eq!(origin("profile").1, "implied by queue at t.toml:1");
    assert!(!crate::config::Summary(&good("")).to_string().contains("profile"));
}

/// Q05: without an objective a flow is served in the order of arrival, whatever is cached.
#[test]
fn q05_without_an_objective_caches_change_no_order() {
    let reorder = |text: &str| good(text).flow.cache_reorder;
    assert_eq!(reorder(""), 256);
    assert_eq!(reorder("[queue]\nslo_ttft = '0s'"), 0);
    assert_eq!(reorder("[queue]\nslo_ttft = '0s'\ncache_reorder = 7"), 7);
    assert_eq!(reorder("[queue]\nslo_ttft = 0\nslo_ttft_by_band = { high = '1s' }"), 256);
}
