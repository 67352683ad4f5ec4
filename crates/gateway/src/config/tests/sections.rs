//! What each key means.

use std::time::Duration;

use flow::identity::{Attribute, ClassRule};
use flow::{
    Admission, BackendTraits, Band, Bounds, Cascade, FlowClass, Hysteresis, Order, RouteTerms,
    RouteWeights, Span, StockUnit, UrgencyWeights, Weight, WorkloadLimits,
};

use super::{bad, good, yaml};
use crate::config::Summary;
use crate::config::settings::{BackendKind, Bus, Config, Cost, LogFormat};

fn bounds(text: &str) -> Bounds {
    good(&format!("[controller]\n{text}")).flow.bounds
}

fn fixed(lower: f64, watermark: f64, upper: f64) -> Bounds {
    Hysteresis::between(lower, watermark, upper).unwrap().into()
}

#[test]
fn an_empty_file_gives_the_defaults_and_discovery() {
    let mut config = good("");
    assert!(config.fleet.discover, "nothing is named");
    config.fleet.discover = false;
    assert_eq!(config, Config::default());
    assert_eq!(yaml("").unwrap(), good(""));
    assert_eq!(yaml("queue:\ncontroller:\n").unwrap(), good(""), "empty sections of YAML");
}

#[test]
fn the_servers_keys_reach_the_server() {
    let text = "[server]\nlisten = '0.0.0.0:9000'\nworkers = 3\nbody_limit = '1MB'\n\
                header_limit = 16384\nconnections_max = 10\nheader_timeout = 1\n\
                body_timeout = 2\nwrite_timeout = '3s'\ngrace = '1m30s'\n\
                headroom_headers = true\norca = true\n\
                cors_origins = ['https://chat.example']\n\
                [admin]\nlisten = 'localhost:8431'\nready_fails_when_saturated = true\n\
                [log]\naccess = false\nformat = 'json'\n";
    let config = good(text);
    let server = &config.server;
    assert_eq!(server.listen, "0.0.0.0:9000".parse().unwrap());
    assert_eq!(server.workers, Some(3));
    assert_eq!((server.body_limit, server.header_limit), (1_000_000, 16_384));
    assert_eq!(server.connections_max, Some(10));
    assert_eq!(server.header_timeout, Duration::from_secs(1));
    assert_eq!(server.body_timeout, Duration::from_secs(2));
    assert_eq!(server.write_timeout, Duration::from_secs(3));
    assert_eq!(server.grace, Duration::from_secs(90));
    assert!(server.headroom_headers && server.orca);
    assert_eq!(server.cors_origins, ["https://chat.example"]);
    assert_eq!(config.admin.listen, Some("127.0.0.1:8431".parse().unwrap()));
    assert!(config.admin.ready_fails_when_saturated);
    assert!(!config.log.access);
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn r08_the_bus_is_configured() {
    assert_eq!(good("[dbus]\nbus = 'system'").dbus, None, "off unless it is wanted");
    let session = good("[dbus]\nenabled = true");
    assert_eq!(session.dbus, Some(Bus::Session));
    assert_eq!(session.notices.is_empty(), cfg!(feature = "dbus"), "{:?}", session.notices);
    let system = good("[dbus]\nenabled = true\nbus = 'System'");
    assert_eq!(system.dbus, Some(Bus::System));
    assert!(Summary(&system).to_string().contains("dbus      on the system bus\n"));
    assert!(bad("[dbus]\nbus = 'user'")[0].contains("\"session\" or \"system\""));
}

#[test]
fn the_fleets_keys_reach_the_fleet() {
    let text = "[discovery]\nenabled = true\nendpoints_file = 'more.txt'\n\
                [health]\ninterval = '1s'\ntimeout = '2s'\neject_after = 4\neject_for = '5s'\n\
                slow_start = 0\n[metrics]\ninterval = '7s'\n\
                [upstream]\nconnect_timeout = '8s'\nanswer_timeout = '9s'\nstall_timeout = '10s'\n\
                [retry]\nattempts = 11\nshare = 0.5\n";
    let fleet = good(text).fleet;
    let seconds = Duration::from_secs;
    assert!(fleet.discover);
    assert_eq!(fleet.endpoints_file, Some("more.txt".into()));
    assert_eq!((fleet.health_interval, fleet.health_timeout), (seconds(1), seconds(2)));
    assert_eq!((fleet.eject_after, fleet.eject_for), (4, seconds(5)));
    assert_eq!((fleet.slow_start, fleet.scrape_interval), (seconds(0), seconds(7)));
    assert_eq!((fleet.connect_timeout, fleet.answer_timeout), (seconds(8), seconds(9)));
    assert_eq!((fleet.stall_timeout, fleet.attempts_max), (seconds(10), 11));
    assert_eq!(fleet.retry_share, 0.5);
}

#[test]
fn c02_any_key_of_the_bounds_fixes_them_and_none_means_auto() {
    assert_eq!(bounds(""), Bounds::Auto);
    assert_eq!(bounds("stock = 'requests'"), Bounds::Auto);
    assert_eq!(bounds("watermark_per_backend = 2"), Hysteresis::around(2.0, 0.1).unwrap().into());
    let deviation = bounds("percentage_deviation_for_bounds = 0.2");
    assert_eq!(deviation, Hysteresis::around(2.0, 0.2).unwrap().into());
    assert_eq!(bounds("lower_bound_per_backend = 1"), fixed(1.0, 2.0, 2.2));
    assert_eq!(bounds("lower_bound_per_backend = 0"), fixed(0.0, 2.0, 2.2), "the source allows 0");
    assert_eq!(bounds("upper_bound_per_backend = 4"), fixed(1.8, 2.0, 4.0));
    let all = "watermark_per_backend = 3\nlower_bound_per_backend = 1\nupper_bound_per_backend = 5";
    assert_eq!(bounds(all), fixed(1.0, 3.0, 5.0));
}

/// The simulator takes its defaults from the core, so the gateway must have the same.
#[test]
fn x05_without_configuration_the_settings_are_those_that_the_simulator_has() {
    assert_eq!(good("").flow, flow::Settings::usual());
}

#[test]
fn c02_impossible_bounds_are_reported_with_their_keys() {
    let cases = [
        ("watermark_per_backend = 0", "controller.watermark_per_backend is 0"),
        ("percentage_deviation_for_bounds = 1", "percentage_deviation_for_bounds is 1, allowed"),
        ("lower_bound_per_backend = 3", "lower_bound_per_backend is 3, allowed is 0 up to the w"),
        ("lower_bound_per_backend = -1", "controller.lower_bound_per_backend is -1"),
        ("upper_bound_per_backend = 1", "upper_bound_per_backend is 1, allowed"),
    ];
    for (text, expected) in cases {
        let problems = bad(&format!("[controller]\n{text}"));
        assert!(problems.len() == 1 && problems[0].contains(expected), "{text}: {problems:?}");
    }
}

#[test]
fn c02_a_deviation_beside_both_bounds_is_noticed() {
    let text = "[controller]\npercentage_deviation_for_bounds = 0.3\n\
                lower_bound_per_backend = 1\nupper_bound_per_backend = 3";
    let config = good(text);
    assert_eq!(config.flow.bounds, fixed(1.0, 2.0, 3.0));
    assert!(config.notices[0].text.contains("percentage_deviation_for_bounds has no effect"));
}

#[test]
fn c05_admission_is_configured() {
    assert_eq!(good("").flow.admission, Admission::All);
    assert_eq!(good("[queue]\nadmission = 'all'").flow.admission, Admission::All);
    for word in ["critical-only", "critical_only"] {
        let config = good(&format!("[queue]\nadmission = '{word}'"));
        assert_eq!(config.flow.admission, Admission::CriticalOnly);
    }
}

#[test]
fn c06_the_unit_of_stock_does_not_depend_on_the_cost() {
    let text = "[controller]\nstock = 'tokens'\nwatermark_per_backend = 9000\n\
                [queue]\ncost = 'bytes'";
    let config = good(text);
    assert_eq!((config.flow.stock, config.cost), (StockUnit::Tokens, Cost::Bytes));
    assert!(config.notices.is_empty());
    let automatic = good("[controller]\nstock = 'tokens'");
    assert!(automatic.notices[0].text.starts_with("controller.stock has no effect"));
}

#[test]
fn c08_queueing_can_be_switched_off() {
    assert!(!good("[queue]\nenabled = false").flow.enabled);
    assert_eq!(good("[queue]\ntotal_capacity = 0").flow.total_capacity, 0);
    assert_eq!(good("[queue]\nmax_size = 0").flow.total_capacity, 0);
}

#[test]
fn a_pace_is_for_automatic_bounds() {
    let config = good("[controller]\npace_max = '50ms'");
    assert_eq!(config.flow.pace_max, Some(Span::from_millis(50)));
    assert!(config.notices.is_empty());
    let fixed = good("[controller]\npace_max = '50ms'\nwatermark_per_backend = 2");
    assert!(fixed.notices[0].text.starts_with("controller.pace_max has no effect"));
    let objective = "[controller]\nslo_tpot = '100ms'\n";
    assert_eq!(good(objective).flow.slo_tpot, Some(Span::from_millis(100)));
    let fixed = good(&format!("{objective}watermark_per_backend = 2"));
    assert!(fixed.notices[0].text.starts_with("controller.slo_tpot has no effect"));
}

#[test]
fn q01_flows_are_keyed_by_any_combination_in_order() {
    let text = "[queue]\nflow_by = ['header:X-Team', 'model', 'target_model', 'workload', \
                'fairness_id']";
    let header = Attribute::Header("x-team".into());
    let parts = [
        header,
        Attribute::Model,
        Attribute::TargetModel,
        Attribute::Workload,
        Attribute::FairnessId,
    ];
    assert_eq!(good(text).identity.parts, parts);
    assert_eq!(good("").identity.parts, [Attribute::Model]);
    assert_eq!(good("[queue]\nflow_by = 'workload'").identity.parts, [Attribute::Workload]);
}

#[test]
fn q01_flows_have_the_settings_of_the_first_matching_entry() {
    let text = "[queue]\nflow_capacity = 7\nqueue_ttl = '9s'\n\
                [[flows]]\nmatch = { model = 'llama-*', 'header:X-Team' = 'a' }\nweight = 3.0\n\
                capacity = 200\nqueue_ttl = '10s'\n\
                [[flows]]\nmatch = { workload = '*' }\n";
    let config = good(text);
    let patterns = [
        (Attribute::Header("x-team".into()), "a".to_owned()),
        (Attribute::Model, "llama-*".to_owned()),
    ];
    let first = ClassRule { patterns: patterns.into(), class: 1 };
    let second = ClassRule { patterns: vec![(Attribute::Workload, "*".into())], class: 2 };
    assert_eq!(config.identity.rules, [first, second]);
    let inherited = FlowClass { capacity: 7, ttl: Span::from_secs(9), ..FlowClass::default() };
    let own = FlowClass {
        weight: Weight::new(3.0).unwrap(),
        capacity: 200,
        ttl: Span::from_secs(10),
        ..FlowClass::default()
    };
    assert_eq!(config.flow.classes, [own, inherited]);
    assert_eq!(config.flow.default_class, inherited);
}

#[test]
fn q03_weights_of_flows_are_checked() {
    for weight in ["0", "-1", "1001", "inf", "nan"] {
        let problems = bad(&format!("[[flows]]\nmatch.model = 'x'\nweight = {weight}"));
        assert!(problems[0].contains("flows[0].weight is "), "{problems:?}");
    }
}

#[test]
fn q04_cost_is_configured() {
    let cost = |word: &str| good(&format!("[queue]\ncost = '{word}'")).cost;
    assert_eq!(good("").cost, Cost::Requests);
    assert_eq!(
        [cost("requests"), cost("tokens"), cost("bytes")],
        [Cost::Requests, Cost::Tokens, Cost::Bytes]
    );
}

#[test]
fn q07_capacities_are_configured() {
    let text = "[queue]\ntotal_capacity = 5\nflow_capacity = 2\nidle_flows_max = 3\n\
                existing_flows_may_exceed_total = true\nrefuse_hopeless = true";
    let flow = good(text).flow;
    assert_eq!((flow.total_capacity, flow.default_class.capacity), (5, 2));
    assert_eq!(flow.idle_flows_max, 3);
    assert!(flow.existing_flows_may_exceed_total && flow.refuse_hopeless);
    let default = good("").flow;
    assert_eq!((default.total_capacity, default.default_class.capacity), (1000, 100));
    assert!(!default.existing_flows_may_exceed_total && !default.refuse_hopeless);
}

#[test]
fn q08_the_time_to_live_is_configured() {
    assert_eq!(good("").flow.default_class.ttl, Span::from_secs(30));
    let ttl = good("[queue]\nqueue_ttl = '1500ms'").flow.default_class.ttl;
    assert_eq!(ttl, Span::from_millis(1500));
    assert!(bad("[queue]\nqueue_ttl = 0")[0].contains("allowed is 1ms to 1d"));
}

/// An objective sends requests that missed it behind others, which no order of the operator's own
/// says.
#[test]
fn w03_an_order_of_the_operators_own_has_no_objective_unless_one_is_set() {
    let two = [Span::FOREVER, Span::from_secs(2), Span::from_secs(2), Span::from_secs(2)];
    assert_eq!(good("").flow.objectives, two);
    assert_eq!(good("[queue]\nsession_by = ['session']").flow.objectives, two);
    for order in ["workload", "deadline"] {
        let config = good(&format!("[queue]\norder = '{order}'"));
        assert_eq!(config.flow.objectives, [Span::FOREVER; 4], "{order}");
        let config = good(&format!("[queue]\norder = '{order}'\nslo_ttft = '2s'"));
        assert_eq!(config.flow.objectives, two, "{order}");
    }
}

#[test]
fn o03_values_of_the_queue_that_are_hardly_meant_are_noted() {
    let rows = [
        ("[queue]\nslo_ttft = 2000", "queue.slo_ttft is longer than queue_ttl"),
        ("[queue]\nslo_ttft_by_band = { high = '1m' }", "queue.slo_ttft is longer"),
        (
            "[queue]\nflow_by = ['header:x-team']\nsession_by = ['header:x-team']",
            "queue.session_by has no effect",
        ),
        (
            "[controller]\nwatermark_per_backend = 9\nreserve_min = 2",
            "controller.reserve_min has no effect",
        ),
        (
            "[controller]\nwatermark_per_backend = 9\n[[backends]]\nurl = 'http://h:1'\nplaces = 4",
            "backends[0].places has no effect",
        ),
        (
            "[controller]\nreserve_share_max = 0\nreserve_min = 2",
            "controller.reserve_min has no effect",
        ),
    ];
    for (text, what) in rows {
        let notices = good(text).notices;
        let noted = notices.iter().any(|notice| notice.text.starts_with(what));
        assert!(noted, "{text}: {notices:?}");
    }
    let meant = "[queue]\nslo_ttft = '30s'\nsession_by = ['session']\n\
                 [controller]\nreserve_min = 2";
    assert!(good(meant).notices.is_empty(), "{:?}", good(meant).notices);
}

#[test]
fn p02_objectives_have_bands_by_any_sources_name() {
    let names = [
        ("critical", Band::Critical),
        ("Critical", Band::Critical),
        ("HIGH", Band::High),
        ("normal", Band::Normal),
        ("Standard", Band::Normal),
        ("Default", Band::Normal),
        ("best-effort", Band::BestEffort),
        ("best_effort", Band::BestEffort),
        ("Sheddable", Band::BestEffort),
    ];
    for (name, band) in names {
        let config = good(&format!("[[objectives]]\nname = 'o'\nband = '{name}'"));
        assert_eq!(config.objectives["o"], band, "{name}");
        assert_eq!(crate::band_alias::band(name), Some(band));
    }
    assert_eq!(crate::band_alias::band("urgent"), None);
}

#[test]
fn p04_bands_share_by_weights() {
    assert_eq!(good("[queue]\nbands = 'strict'").flow.cascade, Cascade::Strict);
    let text = "[queue]\nbands = { critical = 70, high = 15, normal = 10, best_effort = 5 }";
    let weights = [5.0, 10.0, 15.0, 70.0].map(|weight| Weight::new(weight).unwrap());
    assert_eq!(good(text).flow.cascade, Cascade::Weighted(weights));
    let problems = bad("[queue]\nbands = { critical = 70, high = 0 }");
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(bad("[queue]\nbands = 'weighted'")[0].contains("\"strict\" or weights"));
}

#[test]
fn p09_limits_in_flight_are_configured() {
    let text = "[[flows]]\nmatch.model = 'x'\nmax_in_flight = 64\nmax_in_flight_per_backend = 16";
    let class = good(text).flow.classes[0];
    assert_eq!(class.in_flight_max, Some(64));
    assert_eq!(class.in_flight_per_backend_max, Some(16));
    assert_eq!(bad("[[flows]]\nmatch.model = 'x'\nmax_in_flight = 0").len(), 1);
}

#[test]
fn r02_boosts_and_penalties_are_configured() {
    let text = "[router]\nqueue_depth_penalty_per_request = 1\n\
                engine_waiting_penalty_per_request = 2\nfill_penalty = 3\nkv_penalty = 4\n\
                kv_threshold = 0.5\nprefix_bonus = 6\nadapter_bonus = 7\n\
                measured_latency_share = 0.8\n\
                [router.priority_scoring]\ncritical_boost = 1000.0\nhigh_boost = 300\n\
                normal_boost = 10\nbest_effort_penalty = -50.0";
    let terms = RouteTerms {
        boosts: [-50.0, 10.0, 300.0, 1000.0],
        depth_penalty: 1.0,
        flat_depth: false,
        engine_waiting_penalty: 2.0,
        fill_penalty: 3.0,
        kv_penalty: 4.0,
        kv_threshold: 0.5,
        prefix_bonus: 6.0,
        adapter_bonus: 7.0,
        measured_share: 0.8,
    };
    assert_eq!(good(text).flow.route, RouteWeights::new(terms).unwrap());
    assert_eq!(good("").flow.route, RouteWeights::default());
}

#[test]
fn k04_the_stay_with_a_model_is_configured() {
    let flow = good("[queue]\nmodel_stay = \"30s\"\nmodel_slack = 7").flow;
    assert_eq!((flow.model_stay, flow.model_slack), (Span::from_secs(30), 7));
    let flow = good("").flow;
    assert_eq!((flow.model_stay, flow.model_slack), (Span::from_secs(10), 64));
}

#[test]
fn k03_cached_tokens_are_charged_by_option() {
    let charges = |text| {
        let config = good(text);
        (config.charge_cached, config.flow.charge_cached)
    };
    assert_eq!(charges(""), (false, true), "the queue counts requests");
    assert_eq!(charges("[queue]\ncost = \"tokens\""), (false, false));
    assert_eq!(charges("[queue]\ncost = \"tokens\"\ncharge_cached = true"), (true, true));
}

#[test]
fn k01_the_prefix_index_is_configured() {
    assert_eq!(good("[queue]\ncache_slack = 7").flow.cache_slack, 7);
    assert_eq!(good("").flow.cache_slack, 4);
    assert_eq!(good("[queue]\ncache_reorder = 7").flow.cache_reorder, 7);
    assert_eq!(good("").flow.cache_reorder, 256);
    assert_eq!(good("[queue]\ncache_delay = \"2s\"").flow.cache_delay, Span::from_secs(2));
    assert_eq!(good("").flow.cache_delay, Span::from_secs(3));
    let config = good("[router]\ncache_tokens = 0\ncache_per_tenant = true");
    assert_eq!((config.flow.cache_tokens, config.cache_per_tenant), (0, true));
    let config = good("");
    assert_eq!((config.flow.cache_tokens, config.cache_per_tenant), (2_000_000, false));
}

#[test]
fn r02_a_boost_below_that_of_a_lower_band_is_reported_with_its_key() {
    let problems = bad("[router.priority_scoring]\nhigh_boost = -1");
    assert!(problems[0].contains(":2: router.priority_scoring.high_boost is -1"), "{problems:?}");
}

#[test]
fn r10_names_stand_for_models_with_weights_and_bands() {
    let text = "[[models]]\nname = 'chat'\nband = 'high'\n\
                targets = [{ model = 'a', weight = 3 }, { model = 'b' }]\n\
                [[models]]\nname = 'alias'\ntargets = ['a']\n\
                [[models]]\nname = 'slow'\nband = 'Sheddable'\n";
    let names = good(text).names;
    let drawn: Vec<&str> = (0..4).map(|draw| names.resolve("chat", draw).unwrap().target).collect();
    assert_eq!(drawn.iter().filter(|target| **target == "a").count(), 3);
    assert_eq!(names.resolve("chat", 0).unwrap().band, Some(Band::High));
    assert_eq!(names.resolve("alias", 0).unwrap().target, "a");
    let slow = names.resolve("slow", 0).unwrap();
    assert_eq!((slow.target, slow.band), ("slow", Some(Band::BestEffort)));
}

#[test]
fn r10_rules_that_the_core_refuses_are_reported_with_key_and_line() {
    let text = "[[models]]\nname = 'a'\ntargets = ['b']\n\n[[models]]\nname = 'c'\ntargets = ['a']";
    let problems = bad(text);
    assert!(problems[0].contains(":5: models[1].targets[0].model 'a' stands for"), "{problems:?}");
}

#[test]
fn w02_the_registry_is_configured() {
    let text = "[workload]\nwindow = '30s'\nidle = '1m'\ncount_max = 5";
    let limits =
        WorkloadLimits { window: Span::from_secs(30), idle: Span::from_secs(60), count_max: 5 };
    assert_eq!(good(text).flow.workloads, limits);
}

#[test]
fn w03_urgency_is_configured() {
    let text = "[workload]\nwait_cap = '10s'\nrate_cap = 5\n\
                weights = { wait = 0.1, criticality = 0.2, rate = 0.3 }";
    let law = UrgencyWeights::new([0.1, 0.2, 0.3], Span::from_secs(10), 5.0).unwrap();
    assert_eq!(good(text).flow.urgency, law);
    assert_eq!(good("[workload]\nrate_cap = 100").flow.urgency, UrgencyWeights::default());
    assert!(bad("[workload]\nrate_cap = 0")[0].contains("workload.rate_cap is 0, allowed is"));
}

#[test]
fn w03_w05_orders_are_configured() {
    let order = |word: &str| good(&format!("[queue]\norder = '{word}'")).flow.order;
    assert_eq!(good("").flow.order, Order::Fifo);
    assert_eq!(
        [order("fifo"), order("deadline"), order("workload")],
        [Order::Fifo, Order::Deadline, Order::Workload]
    );
}

#[test]
fn every_key_of_a_backend_reaches_it() {
    let text = "[[backends]]\nid = 'gpu-a'\nurl = 'http://h:1/base/'\nkind = 'llama.cpp'\n\
                models = ['m', '*']\npower_watts = 300\nlatency_ms = 150.5\nhttp2 = true\n\
                [[backends]]\nurl = 'http://[::1]:30000'\n";
    let fleet = good(text).fleet;
    let [first, second] = fleet.backends.as_slice() else { panic!("{fleet:?}") };
    assert_eq!((first.id.as_str(), first.url.as_str()), ("gpu-a", "http://h:1/base"));
    assert_eq!(first.kind, BackendKind::LlamaCpp);
    assert_eq!(first.models, ["m", "*"]);
    assert_eq!(first.traits, BackendTraits { power_watts: 300.0, latency_ms: 150.5 });
    assert!(first.http2 && !second.http2);
    assert_eq!((second.id.as_str(), second.kind), ("[::1]:30000", BackendKind::Auto));
    assert_eq!(second.traits, BackendTraits::default());
    assert!(!fleet.discover, "something is named");
}
