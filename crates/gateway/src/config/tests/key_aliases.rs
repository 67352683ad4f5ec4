//! The sources' spellings.

use flow::{Bounds, Hysteresis, Span};

use super::{Config, bad, good, yaml};

/// A file whose sections of other designs imply no profile.
#[track_caller]
fn own_rules(text: &str) -> Config {
    good(&format!("profile = 'none'\n{text}"))
}

#[test]
fn n01_the_queue_of_nexus_means_total_capacity_and_ttl() {
    let flow = own_rules("[queue]\nenabled = true\nmax_size = 50\nmax_wait_seconds = 12").flow;
    assert!(flow.enabled);
    assert_eq!(flow.total_capacity, 50);
    assert_eq!(flow.default_class.capacity, 50, "the same number unless given");
    assert_eq!(flow.default_class.ttl, Span::from_secs(12));
    let own = good("[queue]\nmax_size = 50\nflow_capacity = 5").flow;
    assert_eq!((own.total_capacity, own.default_class.capacity), (50, 5));
    let large = good("[queue]\ntotal_capacity = 50").flow;
    assert_eq!(large.default_class.capacity, 100, "only max_size means both");
}

#[test]
fn n01_a_size_of_zero_disables() {
    let flow = good("[queue]\nmax_size = 0").flow;
    assert_eq!(flow.total_capacity, 0);
    assert_eq!(flow.default_class.capacity, 100);
}

#[test]
fn a_bad_size_is_one_problem() {
    assert_eq!(bad("[queue]\nmax_size = 99999999").len(), 1);
    assert!(bad("[queue]\nmax_size = -1")[0].contains("queue.max_size is -1"));
}

#[test]
fn the_sections_of_the_inference_gateway_are_the_queue_and_the_controller() {
    let text = "fair_request_queue: { total_capacity: 2000, flow_capacity: 200, queue_ttl: 90s }\n\
                request_queue_controller:\n  watermark_per_backend: 3\n  \
                percentage_deviation_for_bounds: 0.15\n";
    let flow = yaml(text).unwrap().flow;
    assert_eq!((flow.total_capacity, flow.default_class.capacity), (2000, 200));
    assert_eq!(flow.default_class.ttl, Span::from_secs(90));
    assert_eq!(flow.bounds, Hysteresis::around(3.0, 0.15).unwrap().into());
}

#[test]
fn every_alias_means_its_key() {
    let cases = [
        ("queue", "max_wait_seconds = 4", "queue_ttl = 4"),
        ("queue", "maxWaitSeconds = 4", "queue_ttl = 4"),
        ("queue", "total_queue_capacity = 4", "total_capacity = 4"),
        ("queue", "totalQueueCapacity = 4", "total_capacity = 4"),
        ("queue", "totalCapacity = 4", "total_capacity = 4"),
        ("queue", "model_queue_capacity = 4", "flow_capacity = 4"),
        ("queue", "modelQueueCapacity = 4", "flow_capacity = 4"),
        ("queue", "flowCapacity = 4", "flow_capacity = 4"),
        ("queue", "queueTTL = '4s'", "queue_ttl = 4"),
        ("queue", "queueTtl = '4s'", "queue_ttl = 4"),
        ("controller", "watermarkPerBackend = 4", "watermark_per_backend = 4"),
        (
            "controller",
            "percentageDeviationForBounds = 0.4",
            "percentage_deviation_for_bounds = 0.4",
        ),
        ("controller", "lowerBoundPerBackend = 1", "lower_bound_per_backend = 1"),
        ("controller", "upperBoundPerBackend = 4", "upper_bound_per_backend = 4"),
        ("server", "grace_seconds = 4", "grace = 4"),
    ];
    for (section, theirs, ours) in cases {
        let ours = good(&format!("[{section}]\n{ours}"));
        assert_ne!(ours, good(""), "{theirs}: the key itself has a meaning");
        let names: &[&str] = match section {
            "queue" => &["queue", "fair_request_queue", "fairRequestQueue"],
            "controller" => &["controller", "request_queue_controller", "requestQueueController"],
            _ => &["server"],
        };
        for name in names {
            assert_eq!(own_rules(&format!("[{name}]\n{theirs}")), ours, "[{name}] {theirs}");
        }
    }
}

#[test]
fn sections_of_both_names_add_up() {
    let text = "[queue]\nflow_capacity = 3\n[fair_request_queue]\ntotal_capacity = 4";
    let flow = good(text).flow;
    assert_eq!((flow.total_capacity, flow.default_class.capacity), (4, 3));
    let text = "profile: none\nqueue:\nfair_request_queue: { total_capacity: 4 }\n\
                request_queue_controller:\n";
    let config = yaml(text).unwrap();
    assert_eq!((config.flow.total_capacity, config.flow.bounds), (4, Bounds::Auto));
}

#[test]
fn both_spellings_of_one_thing_are_a_problem_that_names_both() {
    let cases = [
        ("[queue]\nmax_size = 1\ntotal_capacity = 2", "queue.max_size", "queue.total_capacity"),
        ("[queue]\nqueue_ttl = 1\nmax_wait_seconds = 2", "queue.queue_ttl", "max_wait_seconds"),
        (
            "[queue]\nmax_size = 1\n[fair_request_queue]\ntotalCapacity = 2",
            "queue.max_size",
            "fair_request_queue.totalCapacity",
        ),
        (
            "[controller]\nwatermark_per_backend = 1\n[request_queue_controller]\n\
             watermark_per_backend = 1",
            "controller.watermark_per_backend",
            "request_queue_controller.watermark_per_backend",
        ),
        ("[server]\ngrace = 1\ngrace_seconds = 1", "server.grace", "server.grace_seconds"),
        ("queue = 1\n[fair_request_queue]\ntotal_capacity = 1", "queue", "fair_request_queue"),
    ];
    for (text, one, other) in cases {
        let problems = bad(text);
        let both = problems.iter().any(|problem| {
            problem.contains("same thing") && problem.contains(one) && problem.contains(other)
        });
        assert!(both, "{text}: {problems:?}");
    }
}

#[test]
fn x06_keys_without_an_effect_are_accepted_with_a_notice() {
    let text = "[request_queue_controller]\nnumPoppers = 10\npopper_wait_base = '10ms'\n\
                popperWaitJitterMax = '1ms'\nexpiry_cleanup_interval = '5s'\n\
                [workload]\ncleanup_interval = '1m'";
    let config = own_rules(text);
    assert_eq!(config.flow, good("").flow);
    assert_eq!(config.notices.len(), 5);
    assert!(config.notices.iter().all(|notice| notice.text.contains("has no effect")));
    let named = |key: &str| config.notices.iter().any(|notice| notice.text.starts_with(key));
    assert!(named("request_queue_controller.numPoppers "), "{:?}", config.notices);
    assert!(named("workload.cleanup_interval "));
}

#[test]
fn problems_name_the_key_as_the_file_does() {
    let problems = bad("[fair_request_queue]\nqueueTTL = 'soon'\ntotalCapasity = 1");
    assert!(problems[0].starts_with("t.toml:2: fair_request_queue.queueTTL is \"soon\""));
    assert!(problems[1].contains("fair_request_queue.totalCapasity is not a known key"));
    assert!(problems[1].contains("'total_capacity'"));
}

#[test]
fn r08_dbus_enabled_of_the_source_means_our_key() {
    let ours = good("[dbus]\nenabled = true").dbus;
    assert!(ours.is_some());
    assert_eq!(good("[efficiency]\ndbus_enabled = true").dbus, ours);
    let text = "[dbus]\nbus = 'session'\n[efficiency]\ndbus_enabled = true";
    assert_eq!(good(text).dbus, ours, "beside our own section");
    let both = bad("[dbus]\nenabled = false\n[efficiency]\ndbus_enabled = true");
    assert!(both[0].contains("same thing") && both[0].contains("efficiency.dbus_enabled"));
    let more = bad("[efficiency]\ndbus_enabled = true\ndefault_mode = 'Quiet'");
    assert!(more[0].contains("efficiency is not a known key"), "{more:?}");
    assert!(bad("[efficiency]\ndbus_enabled = 'yes'")[0].contains("efficiency.dbus_enabled is"));
}
