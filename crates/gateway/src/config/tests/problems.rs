//! All problems of a file are reported, with line and key, and no file causes a panic.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{bad, good, source, toml, yaml};
use crate::config::file::FILE_MAX;
use crate::config::{Source, load, resolve};
use crate::schema::nearest;

#[test]
fn x06_unknown_keys_are_reported_with_line_and_suggestion() {
    let problems = bad("\n[queue]\nenabled = true\ntotal_capacty = 5\n");
    let expected =
        "t.toml:4: queue.total_capacty is not a known key; did you mean 'total_capacity'?";
    assert_eq!(problems, [expected]);
    let problems = yaml("queue:\n  enabled: true\n  flow_byy: [model]\n").unwrap_err().lines();
    assert_eq!(problems, ["t.yaml:3: queue.flow_byy is not a known key; did you mean 'flow_by'?"]);
    let far = bad("[retry]\nbananas = 5");
    assert_eq!(far, ["t.toml:2: retry.bananas is not a known key; known are: attempts, share"]);
    assert!(
        bad("[quue]\nenabled = true")[0].contains("quue is not a known key; did you mean 'queue'")
    );
    assert!(bad("[[flows]]\nmatch = { modell = 'x' }")[0].contains("did you mean 'model'?"));
    assert!(bad("[queue]\norder = 'fif'")[0].contains("did you mean \"fifo\"?"));
}

#[test]
fn x06_all_problems_are_reported_at_once_in_the_order_of_the_file() {
    let text = "[server]\nlisten = '8430'\nbody_limt = 3\n\
                [queue]\nflow_capacity = 0\nqueue_ttl = 'soon'\n\
                [router]\nkv_penalty = -3\nfill_penalty = 1e9\n\
                priority_scoring = { high_boost = 7000, critical_boost = inf }\n\
                [workload]\nweights = { wait = -1, rate = 5000 }\n\
                [[backends]]\nurl = 'http://h'\npower_watts = -1\nlatency_ms = nan\n";
    let problems = bad(text);
    let expected = [
        "t.toml:2: server.listen is \"8430\", allowed is an address",
        "t.toml:3: server.body_limt is not a known key",
        "t.toml:5: queue.flow_capacity is 0, allowed is a whole number from 1 to 16777216",
        "t.toml:6: queue.queue_ttl is \"soon\", allowed is 1ms to 1d",
        "t.toml:8: router.kv_penalty is -3, allowed is 0 to 10000",
        "t.toml:9: router.fill_penalty is 1000000000, allowed is 0 to 10000",
        "t.toml:10: router.priority_scoring.critical_boost is inf, allowed is a finite number",
        "t.toml:10: router.priority_scoring.high_boost is 7000, allowed is -1000 to 1000",
        "t.toml:12: workload.weights.wait is -1, allowed is 0 to 1000",
        "t.toml:12: workload.weights.rate is 5000, allowed is 0 to 1000",
        "t.toml:15: backends[0].power_watts is -1, allowed is 0 to 1000000",
        "t.toml:16: backends[0].latency_ms is NaN, allowed is a finite number",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn values_of_a_wrong_type_are_reported() {
    let cases = [
        ("queue = 5", "queue is 5, allowed is a table"),
        ("[flows]\nweight = 1", "flows is a table, allowed is a list of tables"),
        ("backends = [1]", "backends[0] is 1, allowed is a table"),
        ("[queue]\nenabled = 'yes'", "queue.enabled is \"yes\", allowed is true or false"),
        ("[queue]\ntotal_capacity = 1.5", "queue.total_capacity is 1.5, allowed is a whole"),
        ("[queue]\norder = 3", "queue.order is 3, allowed is \"fifo\", \"deadline\" or"),
        ("[queue]\nflow_by = []", "queue.flow_by is an empty list"),
        ("[queue]\nflow_by = [1]", "queue.flow_by[0] is 1, allowed is a text"),
        ("[queue]\nflow_by = ['model', 'model']", "queue.flow_by[1] is \"model\" for a second"),
        ("[queue]\nflow_by = ['header:']", "queue.flow_by[0] is \"header:\""),
        ("[queue]\nsession_by = ['sesion']", "queue.session_by[0] is \"sesion\""),
        ("[queue]\nsession_by = 'session'\norder = 'deadline'", "queue.session_by cannot be com"),
        ("[[models]]\nname = 'a'\ntargets = 'b'", "models[0].targets is \"b\", allowed is a list"),
        ("[[models]]\nname = 'a'\ntargets = [{}]", "models[0].targets[0].model is missing"),
        ("[[objectives]]\nname = 'a'", "objectives[0].band is missing"),
        ("[[objectives]]\nband = 'high'", "objectives[0].name is missing"),
        (
            "[dispatch.redis]\nurls = ['redis://h:1']\nsentinel = 'a'\ncluster = true",
            "dispatch.redis.sentinel has no effect with cluster",
        ),
        ("[log]\nformat = 2026-01-01", "log.format is \"2026-01-01\""),
    ];
    for (text, expected) in cases {
        let problems = bad(text);
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{text}: {problems:?}");
    }
    let null = yaml("queue: { total_capacity: }").unwrap_err().lines();
    assert!(null[0].contains("queue.total_capacity is empty, allowed is"), "{null:?}");
    assert!(yaml("- 1").unwrap_err().lines()[0].contains("the file is a list"));
    assert!(yaml("retry: { share: .inf }").unwrap_err().lines()[0].contains("retry.share is inf"));
}

#[test]
fn x05_settings_of_tokens_that_protect_nothing_are_refused() {
    let tenant = "[[tenants]]\nname = 'a'\n";
    for key in ["tenant_claim", "issuer", "audience"] {
        let problems = bad(&format!("{tenant}[auth.jwt]\n{key} = 'x'\n"));
        let expected = format!("auth.jwt.{key} has no effect without a key");
        assert!(problems[0].contains(&expected), "{problems:?}");
    }
    let problems = bad("[auth.jwt]\nsecret_file = 'secret'\n");
    assert!(problems[0].contains("auth.jwt needs [[tenants]]"), "{problems:?}");
}

#[test]
fn x05_origins_that_no_browser_sends_are_refused() {
    for (origin, expected) in [
        ("chat.example", "it must be an origin such as https://chat.example"),
        ("https://", "it must be an origin"),
        ("https://*.example", "which has a * inside"),
        ("https://chat.example/", "which has a path"),
        ("https://chat.example/app", "which has a path"),
        ("https://chat.example?a", "which has a path"),
        ("https://user:pass@chat.example", "which has a user"),
        ("https://chat.example:443", "whose port is the usual one"),
        ("http://chat.example:80", "whose port is the usual one"),
        ("https://chat.example:", "it must be an origin"),
        ("https://chat.example:99999", "it must be an origin"),
        ("https://chat .example", "it must be an origin"),
        ("https://[::1", "it must be an origin"),
        ("null", "it must be an origin"),
    ] {
        let problems = bad(&format!("[server]\ncors_origins = ['{origin}']"));
        assert!(problems[0].contains(expected), "{origin}: {problems:?}");
    }
    for origin in [
        "*",
        "https://chat.example",
        "http://localhost:3000",
        "http://[::1]:3000",
        "https://chat.example:80",
        "chrome-extension://abcdef",
    ] {
        let config = good(&format!("[server]\ncors_origins = ['{origin}']"));
        assert_eq!(config.server.cors_origins, [origin]);
    }
}

#[test]
fn a_flow_that_matches_nothing_in_particular_is_refused() {
    for text in ["[[flows]]\nweight = 2", "[[flows]]\nmatch = {}", "[[flows]]\nmatch.model = ''"] {
        assert!(bad(text)[0].contains("flows[0].match"), "{text}");
    }
}

#[test]
fn addresses_of_backends_are_checked() {
    let cases = [
        ("https://h:x", "allowed is http://HOST:PORT or https://HOST:PORT"),
        ("h:1", "did you mean \"http://h:1\"?"),
        ("ftp://h", "allowed is http://HOST:PORT"),
        ("http://", "allowed is http://HOST:PORT"),
        ("http://h:99999", "allowed is http://HOST:PORT"),
        ("http://h:0", "allowed is http://HOST:PORT"),
        ("http://h:", "allowed is http://HOST:PORT"),
        ("http://user@h", "allowed is http://HOST:PORT"),
        ("http://h/?a=b", "allowed is http://HOST:PORT"),
        ("http://h/#a", "allowed is http://HOST:PORT"),
        ("http://h h", "allowed is http://HOST:PORT"),
    ];
    for (url, expected) in cases {
        let problems = bad(&format!("[[backends]]\nid = 'a'\nurl = '{url}'"));
        assert!(problems[0].contains("t.toml:3: backends[0].url is"), "{problems:?}");
        assert!(problems[0].contains(expected), "{url}: {problems:?}");
    }
    assert!(bad("[[backends]]\nid = 'a'")[0].contains("backends[0].url is missing"));
    let spaced = bad("[[backends]]\nid = 'a b'\nurl = 'http://h'");
    assert!(spaced[0].contains("backends[0].id is \"a b\""), "{spaced:?}");
}

#[test]
fn two_backends_of_one_id_are_a_problem() {
    let text =
        "[[backends]]\nid = 'a'\nurl = 'http://h:1'\n[[backends]]\nid = 'a'\nurl = 'http://h:2'";
    let expected = "t.toml:5: backends[1].id is \"a\", which is the id of backends[0] already";
    assert_eq!(bad(text), [expected]);
    assert_eq!(
        bad("[[objectives]]\nname='a'\nband='high'\n[[objectives]]\nname='a'\nband='high'").len(),
        1
    );
}

#[test]
fn x05_tenants_have_names_of_their_own_and_keys_are_never_repeated() {
    let twice = bad("[[tenants]]\nname = 'a'\n[[tenants]]\nname = 'a'");
    assert_eq!(twice, ["t.toml:4: tenants[1].name is \"a\", which is the name of another tenant"]);
    let strange = bad("[[tenants]]\nname = 'a/b'");
    assert!(strange[0].contains("tenants[0].name is \"a/b\""), "{strange:?}");
    let key = "tg-0123456789abcdef";
    let problems = bad(&format!("[auth]\nkeys = ['{key}']"));
    assert!(problems[0].contains("auth.keys"), "{problems:?}");
    assert!(!problems[0].contains(key), "{problems:?}");
    let both = "[[backends]]\nurl = 'http://h:1'\napi_key_env = 'A'\napi_key_file = 'b'";
    assert!(bad(both)[0].contains("give one of them"));
}

#[test]
fn nothing_to_serve_is_a_problem() {
    let problems = bad("[discovery]\nenabled = false");
    assert!(problems[0].contains("discovery.enabled is false and there are no backends"));
    good("[discovery]\nenabled = false\nendpoints_file = 'x'");
}

#[test]
fn every_fault_of_syntax_has_its_line() {
    let problems = bad("[queue\nenabled = true\n[server]\nlisten = \n");
    assert!(problems.iter().any(|problem| problem.starts_with("t.toml:1: ")), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.starts_with("t.toml:4: ")), "{problems:?}");
    let problems = yaml("queue:\n  enabled: [\n").unwrap_err().lines();
    assert!(problems[0].starts_with("t.yaml:"), "{problems:?}");
    assert_eq!(bad("[queue]\nenabled = true\nenabled = true").len(), 1, "a key twice");
    assert_eq!(yaml("queue: {}\nqueue: {}").unwrap_err().lines().len(), 1, "a key twice");
}

#[test]
fn an_unreadable_file_is_reported_by_name() {
    let problem = load(&source("/nowhere/at/all.toml")).unwrap_err().lines().remove(0);
    assert!(problem.starts_with("/nowhere/at/all.toml: cannot be read"), "{problem}");
    let problem = resolve(&source("t.json"), "").unwrap_err().lines().remove(0);
    assert_eq!(problem, "t.json: the name must end in .toml, .yaml or .yml");
}

#[test]
fn a_file_has_a_largest_size() {
    let path = std::env::temp_dir().join(format!("tidegate-large-{}.toml", std::process::id()));
    std::fs::write(&path, "#".repeat(FILE_MAX as usize + 1)).unwrap();
    let problem = load(&Source { file: Some(path.clone()), ..Source::default() });
    std::fs::remove_file(&path).unwrap();
    assert!(problem.unwrap_err().lines()[0].contains("larger than 1MiB"));
}

#[test]
fn suggestions_are_near_or_none() {
    let known = ["total_capacity", "flow_capacity", "order"];
    assert_eq!(nearest("total_capcity", known), Some("total_capacity"));
    assert_eq!(nearest("Total-Capacity", known), Some("total_capacity"));
    assert_eq!(nearest("odrer", known), Some("order"), "neighbours swapped are one slip");
    assert_eq!(nearest("ordering", known), None);
    assert_eq!(nearest("", known), None);
    assert_eq!(nearest(&"o".repeat(10_000), known), None);
}

/// Pieces of files, so that random texts come near to meaning something.
fn pieces() -> impl Strategy<Value = String> {
    let words = [
        "[queue]\n",
        "[[flows]]\n",
        "[[backends]]\n",
        "[[models]]\n",
        "[router]\n",
        "[workload]\n",
        "[controller]\n",
        "[[objectives]]\n",
        "match = ",
        "url = ",
        "id = ",
        "weight = ",
        "bands = ",
        "queue_ttl = ",
        "max_size = ",
        "targets = ",
        "flow_by = ",
        "\n",
        "\n  ",
        ": ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
        "'",
        "1",
        "-1",
        "1e400",
        "nan",
        ".inf",
        "0x1F",
        "99999999999999999999999999999999999999999",
        "\"30s\"",
        "\"9e99d\"",
        "'http://'",
        "model",
        "&a ",
        "*a",
        "!!x ",
        "<<: ",
        "~",
        "\u{0}",
        "\u{feff}",
        "é",
        "2026-01-01",
        "|\n",
        "? ",
    ];
    vec(select(words.to_vec()), 0..40).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in prop_oneof![any::<String>(), pieces()]) {
        for outcome in [toml(&text), yaml(&text)] {
            if let Err(error) = outcome {
                prop_assert!(!error.lines().is_empty());
            }
        }
    }
}

#[test]
fn deep_nesting_is_survived() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("{a=", "}")] {
        let text = format!("x = {}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(toml(&text).is_err());
        assert!(yaml(&text.replacen("x = ", "x: ", 1)).is_err());
    }
    assert!(toml(&format!("{} = 1", vec!["a"; 100_000].join("."))).is_err());
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in ('b'..='z').zip('a'..) {
        text += &format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "));
    }
    assert!(yaml(&text).is_err());
}

#[test]
fn x03_all_bodies_together_need_room_for_one() {
    let problems = bad("[server]\nbody_limit = '2MiB'\nbodies_limit = '1MiB'");
    assert!(problems[0].contains("server.bodies_limit is less than twice"), "{problems:?}");
}

#[test]
fn x02_the_pickers_addresses_are_three() {
    let problems = bad("[epp]\nlisten = '127.0.0.1:9003'");
    assert!(problems[0].contains("epp.health_listen is 127.0.0.1:9003, where"), "{problems:?}");
    good("[epp]\nlisten = '127.0.0.1:0'\nhealth_listen = '127.0.0.1:0'");
}
