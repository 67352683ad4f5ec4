//! Configurations that cannot work, and valid values that are probably a mistake.

use std::fs;

use super::{Folder, text};

/// What `check` says of a file: whether it succeeds, and its messages.
fn verdict(folder: &Folder, file: &str) -> (bool, String) {
    fs::write(folder.path().join("t.toml"), file).unwrap();
    let output = folder.check(&["t.toml"]);
    (output.status.success(), text(&output.stderr))
}

#[track_caller]
fn warns(name: &str, file: &str, expected: &[&str]) {
    let (success, said) = verdict(&Folder::new(name), file);
    assert!(success, "{said}");
    let said: Vec<&str> = said.lines().collect();
    let prefixed: Vec<String> = expected.iter().map(|text| format!("warning: {text}")).collect();
    assert_eq!(said, prefixed, "{file}");
}

#[track_caller]
fn refuses(name: &str, file: &str, expected: &str) {
    let (success, said) = verdict(&Folder::new(name), file);
    assert!(!success && said.contains(expected), "{expected:?} is not in {said}");
}

const BACKEND: &str =
    "[[backends]]\nid = 'a'\nurl = 'http://127.0.0.1:8000'\nmodels = ['llama-3', 'qwen']\n";

#[test]
fn x06_check_warns_of_targets_that_no_backend_serves() {
    let name = "check-targets";
    let models = "[[models]]\nname = 'chat'\ntargets = ['llama-3', 'lama-3']\n\
                  [[models]]\nname = 'gpt'\nband = 'high'\n\
                  [[models]]\nname = 'code'\n\
                  targets = [{ model = 'qwen' }, { model = 'x', weight = 0 }]\n";
    let waits = "which no backend lists: requests for it wait for such a backend";
    warns(
        name,
        &format!("{BACKEND}{models}"),
        &[
            &format!(
                "t.toml:7: models[0].targets[1] is \"lama-3\", {waits}; \
                 did you mean \"llama-3\"?"
            ),
            &format!("t.toml:9: models[1].name is \"gpt\", {waits}"),
        ],
    );
    // A list that is read from a server, an endpoints file or discovery may have the model.
    let other = "[[backends]]\nid = 'b'\nurl = 'http://127.0.0.1:8001'\n";
    warns(name, &format!("{BACKEND}{models}{other}"), &[]);
    warns(name, &format!("{BACKEND}{models}[discovery]\nenabled = true\n"), &[]);
    warns(name, &format!("{BACKEND}{models}{other}models = ['*']\n"), &[]);
}

#[test]
fn x06_check_refuses_one_address_for_the_api_and_the_status_pages() {
    let name = "check-addresses";
    for (api, pages) in [
        ("127.0.0.1:8500", "127.0.0.1:8500"),
        ("0.0.0.0:8500", "127.0.0.1:8500"),
        ("[::1]:8500", "[::]:8500"),
        // A socket on [::] takes connections over IPv4, too.
        ("[::]:8500", "127.0.0.1:8500"),
        ("127.0.0.1:8500", "[::]:8500"),
        ("0.0.0.0:8500", "[::]:8500"),
        ("localhost:8500", "127.0.0.1:8500"),
        ("0.0.0.0:8500", "localhost:8500"),
        ("[::ffff:127.0.0.1]:8500", "127.0.0.1:8500"),
    ] {
        let file = format!("[server]\nlisten = '{api}'\n[admin]\nlisten = '{pages}'\n");
        let shown = pages.replace("localhost", "127.0.0.1");
        let expected = format!("t.toml:4: admin.listen is {shown}, which server.listen has");
        refuses(name, &file, &expected);
    }
    for (api, pages) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::]:0", "127.0.0.1:0"),
        ("127.0.0.1:8500", "127.0.0.2:8500"),
        ("[::1]:8500", "127.0.0.1:8500"),
        ("[::1]:8500", "0.0.0.0:8500"),
    ] {
        let open = "without_key = 'all'";
        let pages = format!("[admin]\nlisten = '{pages}'\n{open}\n");
        warns(name, &format!("[server]\nlisten = '{api}'\n{pages}"), &[]);
    }
}

#[test]
fn x06_check_warns_of_flow_rules_that_never_apply() {
    let name = "check-rules";
    let rule = |patterns: &str| format!("[[flows]]\nmatch = {{ {patterns} }}\nweight = 2\n");
    let first = "[queue]\nflow_by = ['model', 'header:x-team']\n";
    let rules = [
        rule("model = 'llama-*'"),
        rule("model = 'llama-3*', 'header:x-team' = 'a'"),
        rule("'header:X-Team' = 'b*', model = '*q*'"),
        rule("'header:x-team' = 'blue'"),
        rule("'header:x-team' = 'b*l*e', model = 'qwen*'"),
    ];
    let file = format!("{first}{}{BACKEND}", rules.concat());
    warns(
        name,
        &file,
        &[
            "t.toml:6: flows[1] never applies: flows[0] matches all of its requests first",
            "t.toml:15: flows[4] never applies: flows[2] matches all of its requests first",
        ],
    );
    let unknown = format!("{first}{}{BACKEND}", rule("model = 'gpt-*'"));
    let expected = "t.toml:4: flows[0].match.model is \"gpt-*\", and no backend lists such a \
                    model: the entry never applies";
    warns(name, &unknown, &[expected]);
    // The name is one that clients may ask for.
    let alias = "[[models]]\nname = 'gpt-4'\ntargets = ['qwen']\n";
    warns(name, &format!("{unknown}{alias}"), &[]);
}

#[test]
fn x06_check_warns_of_flow_rules_on_parts_that_make_up_no_flow() {
    let name = "check-parts";
    let rule = "[[flows]]\nmatch = { 'header:x-team' = 'a', model = 'm' }\n";
    let expected = "t.toml:2: flows[0].match.header:x-team is not in queue.flow_by: requests \
                    with other values are in the same flow, and each request changes the \
                    settings of that flow";
    warns(name, &format!("{rule}max_in_flight = 3\n"), &[expected]);
    // A time to live is the request's own.
    warns(name, &format!("{rule}queue_ttl = '3s'\n"), &[]);
    let parts = "[queue]\nflow_by = ['model', 'header:X-Team']\n";
    warns(name, &format!("{rule}max_in_flight = 3\n{parts}"), &[]);
}

#[test]
fn x06_check_warns_of_two_backends_at_one_address() {
    let again = "[[backends]]\nid = 'b'\nurl = 'HTTP://LOCALHOST:80/v1/'\n\
                 [[backends]]\nid = 'c'\nurl = 'http://localhost/v1'\n\
                 [[backends]]\nid = 'd'\nurl = 'http://localhost/v2'\n";
    let again = again.replace("HTTP", "http");
    let expected = "t.toml:6: backends[1].url is the address of \"b\" too: the server gets the \
                    requests of both, each up to its own bounds";
    warns("check-urls", &again, &[expected]);
    let local = "[[backends]]\nid = 'b'\nurl = 'http://localhost:8000'\n";
    let expected = "t.toml:7: backends[1].url is the address of \"a\" too: the server gets the \
                    requests of both, each up to its own bounds";
    warns("check-localhost", &format!("{BACKEND}{local}"), &[expected]);
}

/// `serve` starts without the endpoints of a file that it cannot use, and logs why.
#[test]
fn x06_check_warns_of_an_endpoints_file_that_cannot_be_used() {
    let folder = Folder::new("check-endpoints");
    let of = |path: &str| format!("[discovery]\nendpoints_file = '{path}'\n{BACKEND}");
    let entry = |name: &str, address: &str, port: u16| {
        format!("- {{name: {name}, address: {address}, port: {port}}}\n")
    };
    let unknown = "endpoints:\n- {name: b, address: h, port: 1, kind: vlm}\n".to_owned();
    let twice = format!("endpoints:\n{}{}", entry("b", "h", 1), entry("b", "h", 2));
    for (content, why) in [
        ("endpoints: [", ""),
        ("- a\n", ""),
        (&unknown, "endpoints[0]: kind \"vlm\" is unknown"),
        (&twice, "line 3: endpoints[1]: the name \"b\" occurs twice"),
        (
            &entry("b", "u:p@h/v1", 1).replacen("- ", "endpoints:\n- ", 1),
            "line 2: endpoints[0]: address",
        ),
    ] {
        fs::write(folder.path().join("e.yaml"), content).unwrap();
        let (success, said) = verdict(&folder, &of("e.yaml"));
        assert!(success && said.lines().count() == 1, "{said}");
        let expected = "warning: t.toml:2: discovery.endpoints_file cannot be used, and lists no \
                        backend until it can: ";
        assert!(said.starts_with(expected) && said.contains(why), "{said}");
    }
    fs::create_dir(folder.path().join("folder")).unwrap();
    let (success, said) = verdict(&folder, &of("folder"));
    assert!(success && said.contains("is not a regular file"), "{said}");
}

#[test]
fn x06_check_warns_of_two_endpoints_at_one_address() {
    let folder = Folder::new("check-endpoint-addresses");
    let entries = "endpoints:\n\
                   - {name: b, address: localhost, port: 8000}\n\
                   - {name: c, address: 10.0.0.5, port: 8000}\n\
                   - {name: d, address: 10.0.0.5, port: \"8000\"}\n\
                   - {name: e, address: 10.0.0.5, port: 8001}\n\
                   - {name: a, address: 10.0.0.6, port: 8000}\n";
    fs::write(folder.path().join("e.yaml"), entries).unwrap();
    let file = format!("[discovery]\nendpoints_file = 'e.yaml'\n{BACKEND}");
    let (success, said) = verdict(&folder, &file);
    assert!(success, "{said}");
    let both = "the server gets the requests of both, each up to its own bounds";
    let expected = [
        format!("lists \"b\" at the address of \"a\": {both}"),
        format!("lists \"d\" at the address of \"c\": {both}"),
        "lists \"a\", which is the id of an entry in [[backends]]: only that entry is used"
            .to_owned(),
    ];
    let expected =
        expected.map(|text| format!("warning: t.toml:2: discovery.endpoints_file {text}"));
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn x06_check_warns_of_band_rules_without_effect() {
    let rule = |pattern: &str, keys: &str| {
        format!("[[band_rules]]\nmatch = {{ 'header:x-team' = '{pattern}' }}\n{keys}\n")
    };
    let file = [
        rule("lab*", "band = 'high'"),
        rule("lab-1", "band = 'normal'\nband_max = 'critical'"),
        rule("web", "band = 'high'\nband_max = 'normal'"),
        rule("*", "band_max = 'high'"),
        rule("ops", "band = 'critical'"),
        rule("b*", "band_max = 'normal'"),
        rule("b", "band_max = 'normal'"),
    ];
    warns(
        "check-band-rules",
        &file.concat(),
        &[
            "t.toml:6: band_rules[1].band never applies: band_rules[0] gives a band to all of \
             its requests first",
            "t.toml:7: band_rules[1].band_max has no effect: band_rules[3] limits all of its \
             requests to high",
            "t.toml:10: band_rules[2].band is high, above its band_max: its requests get normal",
            "t.toml:17: band_rules[4].band is critical, and band_rules[3] limits all of its \
             requests to high",
            "t.toml:23: band_rules[6].band_max has no effect: band_rules[5] limits all of its \
             requests to normal",
        ],
    );
}

#[test]
fn x06_check_refuses_broken_promql() {
    let name = "check-promql";
    let gate = |query: &str| {
        format!(
            "[[dispatch.gates]]\nname = 'g'\nkind = 'prometheus-query'\ncapacity = 9\n\
             url = 'http://127.0.0.1:9'\nquery = '''{query}'''\n"
        )
    };
    for (query, why) in [
        ("1 - (busy / 10", "has a ( that is not closed"),
        ("1 - busy) / 10", "has a ) that closes nothing"),
        ("sum(rate(busy[5m))", "has a ) where ] is due"),
        ("busy{pool=\"a}", "has a \" that is not closed"),
        ("1 - busy /", "ends after \"/\""),
        ("avg(1 - )", "has nothing after \"-\""),
        ("busy or", "ends after \"or\""),
        ("* busy", "has nothing before \"*\""),
        ("rate(busy[$__rate_interval])", "has a $, which is not PromQL"),
        ("busy{pool=“a”}", "has a “, which is not PromQL"),
        ("busy = 3", "has a =, which is not an operator"),
        ("# busy", "is empty"),
        ("1 +* 2", "has nothing between \"+\" and \"*\""),
        ("1 // 2", "has nothing between \"/\" and \"/\""),
        ("x offset", "ends after \"offset\""),
        ("sum(x) by", "ends after \"by\""),
        ("a b", "has no operator between \"a\" and \"b\""),
        ("up{a=b}", "has \"b\" as the value of a label, which needs quotes"),
    ] {
        let expected = format!("t.toml:6: dispatch.gates[0].query {why}");
        refuses(name, &gate(query), &expected);
    }
    for query in [
        "1 - avg(busy{pool=~\"a(|=\", x!=\"\\\"\"}) / 10 # not ) this",
        "sum by (job,) (rate(a:b[5m:1m] offset -5m)) / on(job) group_left(x) sum(c) by (job) >= 1",
        "-busy + (a or b unless on() c @ end()) ^ 2 % 3 != bool 4 * {`__name__`=\"x.y\"}",
    ] {
        warns(name, &gate(query), &[]);
    }
}

#[test]
fn x06_check_refuses_a_folder_that_cannot_be_used() {
    let name = "check-folder";
    let folder = Folder::new(name);
    let of = |path: &str| format!("[batch]\nfolder = '{path}'\n");
    fs::write(folder.path().join("taken"), "").unwrap();
    for (path, why) in [
        ("taken", "is a file"),
        ("taken/batch", "cannot be created"),
        // Not even root creates anything there.
        ("/proc/batch", "cannot be created"),
        ("/proc", "cannot be written"),
    ] {
        let (success, said) = verdict(&folder, &of(path));
        assert!(!success && said.contains("t.toml:2: batch.folder"), "{said}");
        assert!(said.contains(why), "{why:?} is not in {said}");
    }
    fs::create_dir(folder.path().join("there")).unwrap();
    for path in ["there", "new", "new/below"] {
        assert_eq!(verdict(&folder, &of(path)), (true, String::new()));
    }
    assert!(!folder.path().join("new").exists(), "check leaves nothing behind");
    assert_eq!(fs::read_dir(folder.path().join("there")).unwrap().count(), 0);
    let file = "[discovery]\nendpoints_file = 'e.yaml'\n";
    let (success, said) = verdict(&folder, file);
    assert!(success, "{said}");
    assert!(said.contains("t.toml:2: discovery.endpoints_file does not exist yet"), "{said}");
}

/// One look at the report is enough to correct a file.
#[test]
fn x06_check_reports_all_problems_and_warnings_at_once() {
    let folder = Folder::new("check-all");
    fs::write(folder.path().join("taken"), "").unwrap();
    let file = "[queue]\nqueue_tll = 3\n[controller]\nstock = 'tokens'\n\
                [batch]\nfolder = 'taken'\n\
                [[backends]]\nid = 'a'\nurl = 'http://h:1'\n\
                [[backends]]\nid = 'a'\nurl = 'ftp://h:2'\n\
                [[backends]]\nid = 'c'\nurl = 'http://h:1'\n\
                [[models]]\ntargets = ['x']\n\
                [[models]]\nname = 'chat'\ntargets = []\n\
                [[models]]\nname = 'chat'\ntargets = ['y']\n";
    let (success, said) = verdict(&folder, file);
    assert!(!success, "{said}");
    for problem in [
        "t.toml:2: queue.queue_tll is not a known key",
        "t.toml:6: batch.folder is taken, which is a file",
        "t.toml:11: backends[1].id is \"a\", which is the id of backends[0] already",
        "t.toml:12: backends[1].url is \"ftp://h:2\"",
        "models[0].name is missing",
        "models[1].targets has 0 entries",
        "models[2].name 'chat' has a rule already",
    ] {
        assert!(said.contains(problem), "{problem:?} is not in {said}");
    }
    assert!(said.contains("error: 7 problems in the configuration"), "{said}");
    for warning in [
        "warning: t.toml:4: controller.stock has no effect",
        "warning: t.toml:15: backends[2].url is the address of \"a\" too",
    ] {
        assert!(said.contains(warning), "{warning:?} is not in {said}");
    }
    let output = folder.check(&["t.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |key: &str| json[key].as_array().map(Vec::len);
    assert_eq!((count("problems"), count("warnings")), (Some(7), Some(2)), "{json}");
    // No warning follows from a part that is missing because of a problem.
    let file = format!(
        "{BACKEND}[[backends]]\nid = 'b'\nmodels = ['gpt']\n\
                        [[models]]\nname = 'chat'\ntargets = ['gpt']\n"
    );
    let (success, said) = verdict(&folder, &file);
    assert!(!success && !said.contains("warning"), "{said}");
    let file = "[queue]\nqueue_tll = 3\n[discovery]\nenabled = false\n";
    refuses("check-no-backend", file, "discovery.enabled is false and there are no backends");
}

#[test]
fn x06_the_examples_have_no_warnings() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let output = super::check(&[path.to_str().unwrap()]);
        let said = text(&output.stderr);
        let unexpected = said.lines().filter(|line| !line.contains(" has no effect"));
        assert_eq!(unexpected.collect::<Vec<_>>(), [""; 0], "{}", path.display());
    }
}
