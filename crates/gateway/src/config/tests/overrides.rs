//! Flags before the environment, the environment before the file, the file before the defaults.

use crate::config::{Config, Flag, Source, resolve};

use super::source;

const FILE: &str = "[queue]\ntotal_capacity = 5\nflow_capacity = 5\nqueue_ttl = '5s'\n";

fn with(variables: &[(&str, &str)], flags: &[&str]) -> Source {
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let flags = flags.iter().map(|text| Flag::Set((*text).into()));
    Source { variables: variables.collect(), flags: flags.collect(), ..source("t.toml") }
}

fn good(source: &Source) -> Config {
    resolve(source, FILE).unwrap_or_else(|error| panic!("{error}"))
}

fn wrong(variables: &[(&str, &str)], flags: &[&str]) -> Vec<String> {
    resolve(&with(variables, flags), FILE).unwrap_err().lines()
}

#[test]
fn x06_a_flag_goes_before_a_variable_and_a_variable_before_the_file() {
    let variables =
        [("TIDEGATE_QUEUE__TOTAL_CAPACITY", "6"), ("TIDEGATE_QUEUE__FLOW_CAPACITY", "6")];
    let config = good(&with(&variables, &["queue.total_capacity=7"]));
    assert_eq!(config.flow.total_capacity, 7);
    assert_eq!(config.flow.default_class.capacity, 6);
    assert_eq!(config.flow.default_class.ttl, flow::Span::from_secs(5));
    assert_eq!(config.flow.idle_flows_max, 16_384);
    let origin = |key: &str| {
        let settings = config.values.settings();
        settings.into_iter().find(|setting| setting.key == key).unwrap().origin
    };
    assert_eq!(origin("queue.total_capacity"), "--set queue.total_capacity");
    assert_eq!(origin("queue.flow_capacity"), "TIDEGATE_QUEUE__FLOW_CAPACITY");
    assert_eq!(origin("queue.queue_ttl"), "t.toml:4");
    assert_eq!(origin("queue.idle_flows_max"), "default");
}

#[test]
fn x06_the_last_flag_counts_and_set_goes_before_a_flag_of_its_own() {
    let listen =
        |value: &str| Flag::Value { flag: "--listen", key: "server.listen", value: value.into() };
    let set = Flag::Set("server.listen=127.0.0.1:2".into());
    let flags = vec![listen("127.0.0.1:1"), set];
    assert_eq!(good(&Source { flags, ..source("t.toml") }).server.listen.port(), 2);
    let twice = with(&[], &["queue.total_capacity=8", "queue.total_capacity=9"]);
    assert_eq!(good(&twice).flow.total_capacity, 9);
}

#[test]
fn x02_what_other_flags_imply_gives_way_to_every_value_that_is_given() {
    let implied = || {
        let value = "0.0.0.0:1".into();
        Flag::Implied { flag: "--grpc-port", key: "epp.listen", value }
    };
    let port = |file: &str, variables: &[(&str, &str)], flags: &[&str]| {
        let mut source = with(variables, flags);
        source.flags.push(implied());
        resolve(&source, file).unwrap_or_else(|error| panic!("{error}")).epp.listen.port()
    };
    assert_eq!(port("", &[], &[]), 1);
    assert_eq!(port("[epp]\ndrain = '1s'\n", &[], &[]), 1);
    assert_eq!(port("[epp]\nlisten = '127.0.0.1:2'\n", &[], &[]), 2);
    assert_eq!(port("", &[("TIDEGATE_EPP__LISTEN", "127.0.0.1:3")], &[]), 3);
    assert_eq!(port("", &[], &["epp.listen=127.0.0.1:4"]), 4);
}

#[test]
fn x06_values_are_toml_or_bare_texts() {
    let flags = [
        "queue.queue_ttl=1m30s",
        "queue.order='deadline'",
        "queue.flow_by=[\"model\", \"workload\"]",
        "server.body_limit=1048576",
        "router.kv_threshold=0.5",
        "batch.folder=C:=odd",
        "queue.bands={ critical = 4, high = 3, normal = 2, best_effort = 1 }",
    ];
    let config = good(&with(&[], &flags));
    assert_eq!(config.flow.default_class.ttl, flow::Span::from_secs(90));
    assert_eq!((config.flow.order, config.identity.parts.len()), (flow::Order::Deadline, 2));
    assert_eq!(config.server.body_limit, 1 << 20);
    assert_eq!(config.batch.folder, Some("C:=odd".into()), "beside no file, and as it is");
    assert!(matches!(config.flow.cascade, flow::Cascade::Weighted(_)));
}

#[test]
fn x06_entries_of_lists_are_named_by_their_index() {
    let flags = ["backends[0].url=http://h:1", "backends[1].url=http://h:2", "backends[0].id=a"];
    let backends = good(&with(&[], &flags)).fleet.backends;
    let ids: Vec<&str> = backends.iter().map(|backend| backend.id.as_str()).collect();
    assert_eq!(ids, ["a", "h:2"]);
    let whole = good(&with(&[("TIDEGATE_BACKENDS", "[{ url = \"http://h:3\" }]")], &[]));
    assert_eq!(whole.fleet.backends[0].id, "h:3");
    let many: Vec<(String, String)> = (0..12)
        .rev()
        .map(|at| (format!("TIDEGATE_BACKENDS__{at}__URL"), format!("http://h:{}", at + 1)))
        .collect();
    let many = good(&Source { variables: many, ..source("t.toml") });
    assert_eq!(many.fleet.backends[11].id, "h:12");
    let names = ["flows[0].match.\"header:x-team\"=a", "flows[0].match.model=b"];
    assert_eq!(good(&with(&[], &names)).identity.rules[0].patterns.len(), 2);
    let team = [("TIDEGATE_FLOWS__0__MATCH__model", "b")];
    assert_eq!(good(&with(&team, &[])).identity.rules[0].patterns.len(), 1);
    let text = "[[models]]\nname = 'a'\ntargets = ['b', 'c']\n";
    let flags = with(&[], &["models[0].targets[0].weight=0"]);
    let names = resolve(&flags, text).unwrap().names;
    assert!((0..9).all(|draw| names.resolve("a", draw).unwrap().target == "c"));
    assert!(wrong(&[], &["backends[1].url=http://h"])[0].contains("the list, which has 0 entries"));
    assert!(wrong(&[], &["backends.url=http://h"])[0].contains("name an entry by its index"));
}

#[test]
fn x06_aliases_work_there_too() {
    let flow = resolve(&with(&[("TIDEGATE_QUEUE__MAX_SIZE", "9")], &[]), "").unwrap().flow;
    assert_eq!((flow.total_capacity, flow.default_class.capacity), (9, 9));
    let flow = good(&with(&[], &["fair_request_queue.maxWaitSeconds=3"])).flow;
    assert_eq!(flow.default_class.ttl, flow::Span::from_secs(3));
}

#[test]
fn x06_a_missing_port_is_told_at_the_selector_that_needs_it() {
    let variables = [
        ("TIDEGATE_DISCOVERY__KUBERNETES__NAMESPACE", "models"),
        ("TIDEGATE_DISCOVERY__KUBERNETES__SELECTOR", "app=vllm"),
    ];
    let problem = &wrong(&variables, &[])[0];
    let place = "TIDEGATE_DISCOVERY__KUBERNETES__SELECTOR: discovery.kubernetes.selector needs";
    assert!(problem.starts_with(place), "{problem}");
}

#[test]
fn x06_problems_name_the_flag_or_the_variable() {
    let cases = [
        ("queue.total_capacity=x", "--set queue.total_capacity: queue.total_capacity is \"x\", "),
        ("queue.total_capacty=1", "--set queue.total_capacty: queue.total_capacty is not a known"),
        ("quue.enabled=true", "--set quue.enabled: quue is not a known key; did you mean 'queue'?"),
        ("queue.enabled.x=1", "--set queue.enabled.x: queue.enabled has no keys below it"),
        ("queue", "--set queue: write it as KEY=VALUE"),
        ("=1", "--set =1: write it as KEY=VALUE"),
    ];
    for (flag, expected) in cases {
        let problems = wrong(&[], &[flag]);
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
    }
    let problems = wrong(&[("TIDEGATE_QUEUE__QUEUE_TTL", "soon")], &[]);
    let expected = "TIDEGATE_QUEUE__QUEUE_TTL: queue.queue_ttl is \"soon\", allowed is 1ms to 1d";
    assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
}

#[test]
fn x06_a_variable_of_no_key_is_a_problem_with_a_suggestion() {
    let expected = "TIDEGATE_QUEUE__TOTAL_CAPACTY is not a variable of Tidegate; \
                did you mean TIDEGATE_QUEUE__TOTAL_CAPACITY?";
    assert_eq!(wrong(&[("TIDEGATE_QUEUE__TOTAL_CAPACTY", "5")], &[]), [expected]);
    let single = wrong(&[("TIDEGATE_QUEUE_TOTAL_CAPACITY", "5")], &[]);
    assert!(single[0].ends_with("did you mean TIDEGATE_QUEUE__TOTAL_CAPACITY?"), "{single:?}");
    let far = wrong(&[("TIDEGATE_BANANAS", "5")], &[]);
    assert!(far[0].ends_with("`tidegate check --all` lists the keys"), "{far:?}");
}

#[test]
fn x06_variables_of_other_purposes_are_left_alone() {
    let others = [
        ("TIDEGATE_LOG", "debug"),
        ("TIDEGATE_SERVICE_HOST", "10.0.0.1"),
        ("TIDEGATE_SERVICE_PORT_HTTP", "8430"),
        ("TIDEGATE_PORT", "tcp://10.0.0.1:8430"),
        ("TIDEGATE_PORT_8430_TCP_ADDR", "10.0.0.1"),
        ("TIDEGATE_EPP_SERVICE_PORT", "9002"),
        ("TIDEGATE_QUEUE__ORDER", ""),
        ("PATH", "/bin"),
    ];
    assert_eq!(good(&with(&others, &[])), good(&with(&[], &[])));
}
