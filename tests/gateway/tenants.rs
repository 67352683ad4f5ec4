//! X05: tenants and their API keys, as clients and operators meet them.

use std::fs;
use std::process::Command;

use crate::support::gateway::{ONE, TWO, config};
use crate::support::keys::Keys;
use crate::support::tools::{run, tool};
use crate::support::{Backend, Gateway, HttpRequest, chat, eventually};

/// Two tenants, of which the second may use some models only.
const TENANTS: &str = "[[tenants]]\nname = \"alpha\"\n\
    [[tenants]]\nname = \"beta\"\nmodels = [\"small-*\"]\n[admin]\nwithout_key = \"all\"\n";

/// A gateway with these sections and the keys, before one backend with some models.
fn gateway(sections: &str, keys: &Keys, backend: &Backend) -> Gateway {
    let backend = format!(
        "[[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"m\", \"small-1\"]\n",
        backend.address()
    );
    Gateway::start(&format!("{}{sections}{backend}", keys.section()))
}

#[test]
fn x05_a_request_needs_a_key_which_never_leaves_the_gateway() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "laptop");
    let gateway = gateway(&format!("{TENANTS}[log]\nformat = \"json\"\n"), &keys, &backend);
    let wrong = format!("{}x", &key[..key.len() - 1]);
    for (ask, code) in [
        (chat("m"), "missing_api_key"),
        (chat("m").header("Authorization", "Basic abc"), "missing_api_key"),
        (chat("m").key(&wrong), "invalid_api_key"),
        (chat("m").key(&"k".repeat(600)), "invalid_api_key"),
        (chat("m").header("x-gateway-dispatch-key", &key), "invalid_api_key"),
    ] {
        let answer = gateway.ask(&ask);
        let error = &answer.json()["error"];
        assert_eq!((answer.status, error["code"].as_str()), (401, Some(code)));
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    assert!(backend.seen().is_empty());
    for ask in [chat("m").key(&key), chat("m").header("x-api-key", &key)] {
        let ask = ask.header("x-request-id", "served");
        assert_eq!(gateway.ask(&ask).status, 200);
    }
    let lower = chat("m").header("authorization", &format!("bearer {key}"));
    assert_eq!(gateway.ask(&lower).status, 200);
    for seen in backend.seen() {
        let shown = format!("{:?}", seen.headers);
        assert!(!shown.contains(&key) && seen.header("authorization").is_none(), "{shown}");
    }
    let line = gateway.access_of("served");
    assert_eq!((&line["tenant"], &line["key"]), (&"alpha".into(), &"laptop".into()));
    let metrics = gateway.get("/metrics").text();
    assert!(metrics.contains("tidegate_tenant_requests_total{tenant=\"alpha\",outcome=\"ok\"} 3"));
    let flows = gateway.get("/flows").text();
    for text in [&metrics, &flows, &gateway.process.access(), &gateway.process.log()] {
        assert!(!text.contains(&key) && !text.contains(&wrong), "{text}");
    }
}

#[test]
fn x05_a_tenant_uses_and_sees_its_models_only() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let (all, some) = (keys.tenant("alpha", "a"), keys.tenant("beta", "b"));
    let gateway = gateway(TENANTS, &keys, &backend);
    assert_eq!(gateway.ask(&chat("small-1").key(&some)).status, 200);
    let rewritten = chat("small-1").header("x-gateway-model-name-rewrite", "m");
    let unnamed = HttpRequest::post("/v1/other", "{}");
    for ask in [chat("m"), rewritten, unnamed] {
        let answer = gateway.ask(&ask.clone().key(&some));
        let code = answer.json()["error"]["code"].clone();
        assert_eq!((answer.status, code), (403, "model_not_allowed".into()));
        assert_eq!(gateway.ask(&ask.key(&all)).status, 200);
    }
    let listed = |key: &str| {
        let list = gateway.ask(&HttpRequest::get("/v1/models").key(key)).json();
        let data = list["data"].as_array().unwrap().clone();
        data.iter().map(|card| card["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&some), ["small-1"]);
    assert_eq!(listed(&all).len(), 2);
    for path in ["/v1/models", "/v1/models/m", "/api/tags", "/v1/files", "/v1/batches"] {
        assert_eq!(gateway.ask(&HttpRequest::get(path)).status, 401, "{path}");
    }
    assert_eq!(gateway.ask(&HttpRequest::get("/v1/models/m").key(&some)).status, 403);
}

#[test]
fn x05_a_changed_key_file_takes_effect_without_a_restart() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let first = keys.tenant("alpha", "first");
    let gateway = gateway(TENANTS, &keys, &backend);
    let await_status = |key: &str, expected: u16| {
        eventually("reloaded", || match gateway.ask(&chat("m").key(key)).status {
            status if status == expected => Ok(()),
            status => Err(status.to_string()),
        });
    };
    await_status(&first, 200);
    let second = keys.tenant("alpha", "second");
    await_status(&second, 200);
    // A broken file changes nothing, and the log names the line but not its text.
    let good = fs::read_to_string(keys.file()).unwrap();
    fs::write(keys.file(), format!("{good}tg-secret\n")).unwrap();
    gateway.process.await_log("was not reloaded", 1);
    let log = gateway.process.await_log("has line 4", 1);
    assert!(!log.contains("tg-secret"));
    await_status(&second, 200);
    // Without its line a key has ended.
    let lines: Vec<&str> = good.lines().filter(|line| !line.ends_with("first")).collect();
    fs::write(keys.file(), lines.join("\n")).unwrap();
    await_status(&first, 401);
    await_status(&second, 200);
}

#[test]
fn x05_an_expired_key_is_refused() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.make(&["--tenant", "alpha", "--name", "old", "--expires", "30d"]);
    let line = fs::read_to_string(keys.file()).unwrap();
    let (line, _) = line.trim().rsplit_once(' ').unwrap();
    fs::write(keys.file(), format!("{line} 2020-01-31\n")).unwrap();
    let gateway = gateway(TENANTS, &keys, &backend);
    let answer = gateway.ask(&chat("m").key(&key));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &"expired_api_key".into()));
}

#[test]
fn x05_claims_above_the_highest_band_are_clamped_and_counted() {
    let (keys, backend) = (Keys::new(), Backend::held());
    let (one, two) = (keys.tenant("alpha", "a"), keys.tenant("beta", "b"));
    let sections =
        format!("{TENANTS}{ONE}").replace("models = [\"small-*\"]", "band_max = \"high\"");
    let gateway = gateway(&sections, &keys, &backend);
    let mut calls = vec![gateway.send(&chat("m").key(&one).tag("running"))];
    backend.await_running(1);
    calls.push(gateway.enqueue(&chat("m").key(&one).tag("claims").priority("critical"), 0));
    calls.push(gateway.enqueue(&chat("m").key(&two).tag("may").priority("critical"), 1));
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200), "no claim is refused");
    assert_eq!(backend.tags(), ["running", "may", "claims"], "high goes before normal");
    let metrics = gateway.metrics();
    for tenant in ["alpha", "beta"] {
        let labels = format!("tenant=\"{tenant}\"");
        assert_eq!(
            metrics.sum_where("tidegate_tenant_bands_clamped_total", &labels),
            1.0,
            "{tenant}"
        );
    }
}

#[test]
fn x05_limits_of_a_minute_give_429_and_say_when_to_try_again() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let (requests, tokens) = (keys.tenant("alpha", "a"), keys.tenant("beta", "b"));
    let limits = TENANTS
        .replace("\"alpha\"\n", "\"alpha\"\nrequests_per_minute = 2\n")
        .replace("models = [\"small-*\"]", "tokens_per_minute = 30");
    let gateway = gateway(&limits, &keys, &backend);
    for (key, ask, what) in [
        (&requests, chat("m"), "requests"),
        (&tokens, chat("m").with("max_tokens", 1000), "tokens"),
    ] {
        let mut statuses = Vec::new();
        let refused = loop {
            let answer = gateway.ask(&ask.clone().key(key));
            statuses.push(answer.status);
            assert!(statuses.len() < 20, "{what}: {statuses:?}");
            if answer.status != 200 {
                break answer;
            }
        };
        assert_eq!(refused.status, 429, "{what}");
        let error = &refused.json()["error"];
        assert_eq!((&error["code"], &error["type"]), (&"rate_limit_exceeded".into(), &what.into()));
        let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&after), "{what}: {after}");
    }
    let many = gateway.metrics();
    let labels = "tenant=\"alpha\",outcome=\"rate_limit_exceeded\"";
    assert_eq!(many.sum_where("tidegate_tenant_requests_total", labels), 1.0);
}

#[test]
fn x05_x04_a_backend_gets_its_own_key_in_place_of_the_clients() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let secret = keys.file().with_file_name("backend.key");
    fs::write(&secret, "upstream-1\n").unwrap();
    let entry = format!("api_key_file = {secret:?}\n");
    let with_tenants = format!("{}{TENANTS}", keys.section());
    for (sections, ask) in [
        (with_tenants, chat("m").key(&key)),
        (String::new(), chat("m").header("Authorization", "Bearer own")),
    ] {
        let text = config(&sections, &[("one", backend.address())]) + &entry;
        let gateway = Gateway::start(&text);
        let sent = || {
            assert_eq!(gateway.ask(&ask).status, 200);
            let last = backend.seen().pop().unwrap();
            let all = last.headers.iter().filter(|(name, _)| name == "authorization");
            all.map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        fs::write(&secret, "upstream-1\n").unwrap();
        eventually("the first key", || match sent() {
            sent if sent == ["Bearer upstream-1"] => Ok(()),
            sent => Err(format!("{sent:?}")),
        });
        fs::write(&secret, "upstream-2\n").unwrap();
        eventually("the new key", || match sent() {
            sent if sent == ["Bearer upstream-2"] => Ok(()),
            sent => Err(format!("{sent:?}")),
        });
        let pages = gateway.get("/backends").text() + &gateway.process.log();
        assert!(!pages.contains("upstream-"), "{pages}");
    }
}

#[test]
fn x05_key_new_prints_the_key_once_and_checks_what_it_stores() {
    let keys = Keys::new();
    let key = keys.tenant("alpha", "laptop");
    assert!(key.starts_with("tg-") && key.len() == 67, "{key}");
    let stored = fs::read_to_string(keys.file()).unwrap();
    assert!(!stored.contains(&key) && stored.contains(" alpha laptop\n"), "{stored}");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["key", "new"]).args(arguments).output().unwrap()
    };
    let printed = run(&["--admin", "read", "--name", "grafana", "--expires", "2099-01-31"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let [key, line] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    assert!(key.starts_with("tg-"), "{printed}");
    assert!(line.ends_with(" admin:read grafana 2099-02-01T00:00:00Z"), "{printed}");
    let file = keys.file().to_str().unwrap();
    for wrong in [
        &["--tenant", "alpha", "--name", "laptop", "--file", file][..],
        &["--tenant", "al/pha", "--name", "b"],
        &["--tenant", "alpha", "--name", "b c"],
        &["--tenant", "alpha", "--name", "b", "--expires", "2020-01-01"],
        &["--tenant", "alpha", "--admin", "read", "--name", "b"],
        &["--name", "b"],
    ] {
        let output = run(wrong);
        assert!(!output.status.success() && output.stdout.is_empty(), "{wrong:?}");
    }
    assert_eq!(fs::read_to_string(keys.file()).unwrap(), stored);
}

/// Some clients lose a response that comes while they send: Debian's curl over HTTP/2 is one.
#[test]
fn x05_a_refusal_reaches_a_client_that_still_sends_its_body() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let gateway = gateway(TENANTS, &keys, &backend);
    let body = format!("{{\"model\":\"m\",\"padding\":\"{}\"}}", "x".repeat(100_000));
    for (path, expected) in [("/v1/chat/completions", "401"), ("/nowhere", "404")] {
        let url = format!("http://{}{path}", gateway.address());
        for _ in 0..20 {
            let mut curl = tool("curl");
            curl.args(["-sS", "--max-time", "30", "--http2-prior-knowledge", &url]);
            curl.args(["-o", "/dev/null", "-w", "%{http_code}", "-H", "Authorization: Bearer no"]);
            assert_eq!(run(curl.args(["-d", &body])), expected, "{path}");
        }
    }
}

#[test]
fn x05_without_tenants_no_key_is_needed_and_the_clients_passes_on() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    assert_eq!(gateway.ask(&chat("m").key("theirs")).status, 200);
    assert_eq!(backend.seen()[1].header("authorization"), Some("Bearer theirs"));
}
