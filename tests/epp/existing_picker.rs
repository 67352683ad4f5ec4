//! The command line and the configuration file of the existing picker.

use std::fs;
use std::process::{Command, Output};

use crate::support::tools::run;
use crate::support::{Process, eventually, fresh_file};

fn tidegate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
}

/// What the existing picker's chart writes, with thresholds of an operator.
const CONFIG: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: prefix-cache-scorer, parameters: {lruCapacityPerServer: 1000}}
- {name: best, type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
- {name: limit, type: concurrency-detector, parameters: {maxConcurrency: 32, headroom: 0.1}}
- {name: turns, type: round-robin-fairness-policy}
- {type: session-affinity-scorer}
- {type: lora-affinity-scorer}
- {type: single-profile-handler}
- {name: extra, type: example-plugin}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 4}
  - {pluginRef: prefix-cache-scorer, weight: 6}
  - {pluginRef: session-affinity-scorer, weight: 1}
  - {pluginRef: best}
flowControl:
  maxRequests: 5k
  defaultRequestTTL: 45s
  noEndpointRequestTTL: 2m
  enableEviction: true
  saturationDetector: {pluginRef: limit}
  priorityBands:
  - {priority: 10, maxRequests: 100, fairnessPolicyRef: turns}
";

fn config_file(text: &str) -> String {
    let path = fresh_file().with_file_name("epp.yaml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The value that `check --json` shows for a key, with its origin.
fn shown(checked: &serde_json::Value, key: &str) -> String {
    let mut all = checked["settings"].as_array().unwrap().iter();
    let found = all.find(|value| value["key"] == key).unwrap_or_else(|| panic!("{key}: {checked}"));
    found["value"].to_string()
}

#[test]
fn x02_x06_the_existing_pickers_configuration_is_read_as_far_as_it_maps() {
    let file = config_file(CONFIG);
    let json = run(tidegate().args(["check", "--json", "--endpoint-picker-config", &file]));
    let checked: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (key, value) in [
        ("queue.total_capacity", "5000"),
        ("queue.flow_capacity", "5000"),
        ("queue.queue_ttl", "45s"),
        ("queue.hold_ttl", "2m"),
        ("queue.flow_by", "fairness_id"),
        ("controller.watermark_per_backend", "32"),
        ("router.kv_penalty", "400"),
        ("router.prefix_bonus", "200"),
        ("router.cache_tokens", "64000"),
        ("epp.fallbacks", "1"),
    ] {
        let shown = shown(&checked, key);
        assert!(shown.contains(value), "{key} is {shown}");
    }
    let said = run(tidegate().args(["check", "--endpoint-picker-config", &file]));
    let row = |theirs: &str| said.lines().find(|line| line.starts_with(theirs)).unwrap_or_default();
    assert!(row("kv-cache-utilization-scorer weight 4").ends_with("router.kv_penalty = 400.0"));
    assert!(row("featureGates flowControl").contains("the same: "), "{said}");
    for lost in [
        "session-affinity-scorer weight 1",
        "concurrency-detector.headroom 0.1",
        "flowControl.enableEviction true",
        "flowControl.priorityBands[10].maxRequests 100",
    ] {
        assert!(row(lost).contains("no effect: "), "{lost}: {said}");
    }
    for (plugin, why) in [
        ("plugin lora-affinity-scorer", "no effect: nothing refers to it"),
        ("plugin single-profile-handler", "the same: "),
        ("plugin extra (example-plugin)", "no effect: the plugin is not known"),
    ] {
        assert!(row(plugin).contains(why), "{plugin}: {said}");
    }
    for referred in ["plugin queue-scorer", "plugin best", "plugin limit", "plugin turns"] {
        assert_eq!(row(referred), "", "{said}");
    }
}

/// Without a limit there, those of the queue here hold, and the check says so.
#[test]
fn x02_x06_a_file_without_max_requests_is_told_the_limits_of_the_queue() {
    for limit in ["", "flowControl: {maxRequests: 0}\n"] {
        let file = config_file(&format!("kind: EndpointPickerConfig\n{limit}"));
        let said = run(tidegate().args(["check", "--endpoint-picker-config", &file]));
        let mut lines = said.lines().filter(|line| line.starts_with("flowControl.maxRequests"));
        let line = lines.next().unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains("queue.flow_capacity limits the waiting requests of a flow (100"));
        let json = run(tidegate().args(["check", "--json", "--endpoint-picker-config", &file]));
        assert!(!json.contains("queue.flow_capacity"), "a default: {json}");
    }
}

#[test]
fn x02_x06_a_file_of_another_kind_is_refused() {
    let file = config_file("apiVersion: v1\nkind: ConfigMap\n");
    let mut command = tidegate();
    let Output { status, stderr, .. } =
        command.args(["check", "--endpoint-picker-config", &file]).output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(!status.success(), "{said}");
    let refused = "kind is \"ConfigMap\", allowed is \"EndpointPickerConfig\"";
    assert!(said.contains(refused), "{said}");
}

/// A command line as the older chart of the existing picker has it: no command, one dash. Port 0 is
/// a free one.
#[test]
fn x02_x06_the_existing_pickers_command_line_starts_the_picker() {
    let file = config_file(CONFIG);
    let arguments = [
        "-endpointSelector",
        "app=llama",
        "--endpoint-target-ports=8000",
        "-grpcPort",
        "0",
        "--grpc-health-port=0",
        "--metrics-port",
        "0",
        "--v=4",
        "--secure-serving=false",
        "--enable-pprof",
        "--health-checking",
        "--ha-enable-leader-election=false",
        "--kv-cache-usage-percentage-metric=vllm:kv_cache_usage_perc",
        "--config-file",
        &file,
        "--set",
        "discovery.kubernetes.url=http://127.0.0.1:1",
    ];
    let words = ["listening on grpc://", "health on grpc://", "metrics on http://"];
    let picker = Process::start_saying(&arguments, &words);
    assert!(picker.address().ip().is_unspecified(), "{}", picker.address());
    eventually("told", || {
        let said = picker.access();
        let expected = ["--enable-pprof has", "--kv-cache-usage-percentage-metric has"];
        let missing = expected.iter().find(|line| !said.contains(**line));
        missing.map_or(Ok(()), |line| Err(format!("{line}: {said}")))
    });
    let said = picker.access();
    assert_eq!(said.matches("--enable-pprof has no effect here").count(), 1, "{said}");
    assert!(said.contains("flowControl.enableEviction true has no effect here"), "{said}");
    for said_nothing in ["--health-checking has", "--ha-enable-leader-election has"] {
        assert!(!said.contains(said_nothing), "{said}");
    }
    let leader = "--ha-enable-leader-election has no effect here: there is no leader: each ready \
                  replica takes requests and has a queue of its own";
    let arguments = [&arguments[..], &["--ha-enable-leader-election", "--health-checking=false"]];
    let picker = Process::start_saying(&arguments.concat(), &words);
    eventually("told", || match picker.access() {
        said if said.contains(leader) && said.contains("--health-checking has") => Ok(()),
        said => Err(said),
    });
}

#[test]
fn x06_a_misspelt_flag_of_the_existing_picker_gets_a_suggestion() {
    for (flag, meant) in [
        ("--pool-nam=p", "'--pool-name'"),
        ("--grpc-helth-port=1", "'--grpc-health-port'"),
        ("-poolNam", "'--pool-name'"),
        ("-grpcHelthPort", "'--grpc-health-port'"),
    ] {
        for command in [&["epp"][..], &[]] {
            let mut tidegate = tidegate();
            let output = tidegate.args(command).arg(flag).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(meant), "{said}");
        }
    }
    // The flags of this program are its own.
    assert!(run(tidegate().arg("--help")).contains("Usage: tidegate "));
    assert!(run(tidegate().arg("--version")).starts_with("tidegate "));
}

#[test]
fn x06_a_wrong_value_of_the_existing_pickers_flags_is_refused() {
    let groups = "allowed are inference.networking.k8s.io and inference.networking.x-k8s.io";
    for (flag, value, allowed) in [
        ("--grpc-port", "many", "allowed is a port"),
        ("--pool-group", "bogus", groups),
        ("--pool-group", "any.x-k8s.io", groups),
        ("--secure-serving", "maybe", "allowed are true and false"),
        ("--tracing", "yes", "allowed are true and false"),
        ("--metrics-endpoint-auth", "on", "allowed are true and false"),
        ("--ha-enable-leader-election", "2", "allowed are true and false"),
        ("--zap-encoder", "xml", "allowed are json and console"),
        ("--zap-log-level", "loud", "allowed are debug, info, error, panic and a number"),
        ("--zap-time-encoding", "sundial", "allowed are epoch, millis"),
        ("--v", "much", "allowed is a number"),
        ("--metrics-staleness-threshold", "2 seconds", "allowed is a duration"),
        ("--refresh-metrics-interval", "5", "allowed is a duration"),
        ("--drain-timeout", "3", "allowed is a duration"),
        ("--model-server-metrics-port", "http", "allowed is a number"),
        ("--model-server-metrics-scheme", "ftp", "allowed are http, https"),
        ("--grpc-max-recv-msg-size", "10 MiB", "allowed is a number of bytes"),
    ] {
        let mut command = tidegate();
        // The wrong key ends the process also if the flag does not.
        let flags = ["--pool-name=p", &format!("{flag}={value}")];
        command.args(["epp", "--set", "queue.no_such_key=1"]).args(flags);
        let Output { status, stderr, .. } = command.output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert!(!status.success(), "{said}");
        assert!(said.contains(&format!("{flag} is \"{value}\", {allowed}")), "{said}");
    }
}
