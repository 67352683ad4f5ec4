//! X05: the accounts of tenants, and quotas by day, over kills and restarts.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::tools::run;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// A response that used 11 tokens of a prompt, 4 of them from the cache, and 2 more.
fn backend() -> Backend {
    Backend::start(|_| {
        let usage = r#"{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13,
            "prompt_tokens_details":{"cached_tokens":4}}"#;
        let body = format!("{{\"object\":\"chat.completion\",\"usage\":{usage}}}");
        ScriptedResponse::json(200, &body)
    })
}

/// Two tenants with accounts; `alpha` has these further settings.
fn text(keys: &Keys, settings: &str, backend: &Backend) -> String {
    let file: PathBuf = keys.file().with_file_name("usage.db");
    let sections = format!(
        "{}[usage]\nfile = {file:?}\n[log]\nformat = \"json\"\n\
         [[tenants]]\nname = \"alpha\"\n{settings}[[tenants]]\nname = \"beta\"\n",
        keys.section()
    );
    config(&sections, &[("one", backend.address())])
}

fn sum(rows: &Value, field: &str) -> u64 {
    rows["data"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum()
}

#[test]
fn x05_accounts_survive_a_kill_and_a_tenant_sees_its_own_alone() {
    let (keys, backend) = (Keys::new(), backend());
    let (one, two) = (keys.tenant("alpha", "laptop"), keys.tenant("beta", "b"));
    let admin = keys.make(&["--admin", "read", "--name", "billing"]);
    let text = text(&keys, "models = [\"m\"]\n", &backend);
    let mut gateway = Gateway::launch(&text);
    let usage = |gateway: &Gateway, query: &str, key: &str| {
        gateway.ask(&HttpRequest::get(&format!("/usage{query}")).key(key))
    };
    // Killed three times; each process adds to the same sums.
    for round in 1..=3 {
        for _ in 0..4 {
            assert_eq!(gateway.ask(&chat("m").key(&one)).status, 200);
        }
        assert_eq!(gateway.ask(&chat("m").key(&two)).status, 200);
        assert_eq!(gateway.ask(&chat("other").key(&one)).status, 403);
        // A response may reach its client a moment before it is accounted.
        let mine = eventually("accounted", || {
            let mine = usage(&gateway, "", &one).json();
            let all = usage(&gateway, "?tenant=beta", &admin).json();
            let done = (sum(&mine, "requests"), sum(&all, "requests")) == (5 * round, round);
            if done { Ok(mine) } else { Err(format!("{mine} {all}")) }
        });
        assert_eq!(sum(&mine, "refused"), round, "{mine}");
        assert_eq!(sum(&mine, "prompt_tokens"), 44 * round, "{mine}");
        assert_eq!(sum(&mine, "cached_tokens"), 16 * round);
        assert_eq!(sum(&mine, "completion_tokens"), 8 * round);
        assert!(mine["data"].as_array().unwrap().iter().all(|row| row["tenant"] == "alpha"));
        gateway.process.kill();
        gateway = Gateway::launch(&text);
    }
    assert_eq!(sum(&usage(&gateway, "", &admin).json(), "requests"), 18);
    assert_eq!(sum(&usage(&gateway, "?tenant=beta", &admin).json(), "requests"), 3);
    assert_eq!(usage(&gateway, "?tenant=beta", &one).status, 403);
    assert_eq!(usage(&gateway, "?since=never", &admin).status, 400);
    assert_eq!(gateway.ask(&HttpRequest::get("/usage")).status, 401);

    let command = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["usage", "--url", &gateway.url()]).args(more);
        run(command.env("TIDEGATE_API_KEY", &admin))
    };
    let csv = command(&["--csv", "--tenant", "alpha"]);
    assert!(csv.starts_with("hour,tenant,key,model,requests,"), "{csv}");
    assert!(csv.contains(",alpha,laptop,m,"), "{csv}");
    let table = command(&[]);
    assert!(
        table.lines().any(|line| line.starts_with("alpha") && line.contains(" 132 ")),
        "{table}"
    );
}

#[test]
fn x05_a_quota_that_is_used_up_refuses_also_after_a_restart() {
    let (keys, backend) = (Keys::new(), backend());
    let (one, two) = (keys.tenant("alpha", "a"), keys.tenant("beta", "b"));
    let text = text(&keys, "tokens_per_day = 20\non_quota = \"refuse\"\n", &backend);
    let mut gateway = Gateway::launch(&text);
    let mut served = Vec::new();
    for _ in 0..2 {
        let refused = eventually("used up", || {
            let answer = gateway.ask(&chat("m").tag("alpha").key(&one));
            if answer.status == 200 { Err("served".into()) } else { Ok(answer) }
        });
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["code"]), (429, &"insufficient_quota".into()));
        let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=86_400).contains(&after), "{after}");
        assert_eq!(gateway.ask(&chat("m").key(&two)).status, 200, "another tenant");
        eventually("accounted", || {
            let mine = gateway.ask(&HttpRequest::get("/usage").key(&one)).json();
            let done = sum(&mine, "refused") >= 1 && sum(&mine, "prompt_tokens") >= 22;
            if done { Ok(()) } else { Err(mine.to_string()) }
        });
        served.push(backend.seen().iter().filter(|seen| seen.tag() == "alpha").count());
        gateway.process.kill();
        gateway = Gateway::launch(&text);
    }
    assert!(served[0] >= 2 && served[1] == served[0], "the second process served none: {served:?}");
}

/// A request uses 13 tokens, of which 9 are computed. Two requests fit into a quota of 25 with or
/// without the others; whether a third one fits is known after a restart, too.
#[test]
fn k03_quotas_count_the_tokens_that_were_computed() {
    for (charge_cached, fits) in [(true, false), (false, true)] {
        let (keys, backend) = (Keys::new(), backend());
        let key = keys.tenant("alpha", "a");
        let quota = "tokens_per_day = 25\non_quota = \"refuse\"\n";
        let text = text(&keys, quota, &backend);
        let text = format!("[queue]\ncharge_cached = {charge_cached}\n{text}");
        let mut gateway = Gateway::launch(&text);
        let ask = |gateway: &Gateway| gateway.ask(&chat("m").key(&key));
        let await_accounts = |gateway: &Gateway, prompts| {
            eventually("accounted", || {
                let mine = gateway.ask(&HttpRequest::get("/usage").key(&key)).json();
                let done = sum(&mine, "prompt_tokens") == prompts;
                done.then_some(()).ok_or(mine.to_string())
            });
        };
        for served in 1..=2 {
            assert_eq!(ask(&gateway).status, 200);
            await_accounts(&gateway, 11 * served);
        }
        gateway.process.kill();
        gateway = Gateway::launch(&text);
        let third = ask(&gateway);
        assert_eq!(third.status == 200, fits, "{charge_cached}: {}", third.text());
        let fourth = eventually("used up", || {
            let answer = ask(&gateway);
            let is_settled = answer.header("retry-after").is_some_and(|after| after != "5");
            if is_settled { Ok(answer) } else { Err(answer.text()) }
        });
        assert_eq!(fourth.status, 429, "{}", fourth.text());
        assert_eq!(backend.seen().len(), if fits { 3 } else { 2 });
    }
}

#[test]
fn x05_a_quota_that_is_used_up_waits_in_the_lowest_band() {
    let (keys, backend) = (Keys::new(), backend());
    let key = keys.tenant("alpha", "a");
    let gateway = Gateway::launch(&text(&keys, "tokens_per_month = 1\n", &backend));
    let priority = |id: &str| {
        let ask = chat("m").key(&key).header("x-request-id", id);
        assert_eq!(gateway.ask(&ask).status, 200, "it is not refused");
        gateway.access_of(id)["priority"].clone()
    };
    assert_eq!(priority("first"), "normal");
    // The first response may reach its client a moment before it is counted.
    let mut number = 0;
    eventually("the quota is used up", || {
        number += 1;
        let band = priority(&format!("further-{number}"));
        if band == "best_effort" { Ok(()) } else { Err(band.to_string()) }
    });
}

#[test]
fn x05_accounts_are_read_in_pages_and_a_removed_file_is_told() {
    let (keys, backend) = (Keys::new(), backend());
    let names = ["one", "three", "two"];
    let made = names.map(|name| keys.tenant("alpha", name));
    let admin = keys.make(&["--admin", "read", "--name", "billing"]);
    let gateway = Gateway::launch(&text(&keys, "", &backend));
    for key in &made {
        assert_eq!(gateway.ask(&chat("m").key(key)).status, 200);
    }
    let page = |query: &str| gateway.ask(&HttpRequest::get(&format!("/usage{query}")).key(&admin));
    eventually("accounted", || {
        let rows = page("").json();
        if sum(&rows, "requests") == 3 { Ok(()) } else { Err(rows.to_string()) }
    });
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let response = page(&format!("?limit=1{after}"));
        let rows = response.json();
        seen.extend(rows["data"].as_array().unwrap().iter().map(|row| row["key"].clone()));
        assert_eq!(response.header("x-next-after"), rows["next"].as_str());
        let Some(next) = rows["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, names);

    std::fs::remove_file(keys.file().with_file_name("usage.db")).unwrap();
    gateway.process.await_log("was removed or replaced", 1);
    assert_eq!(gateway.ask(&chat("m").key(&made[0])).status, 200);
    eventually("accounted anew", || {
        let rows = page("").json();
        if sum(&rows, "requests") == 1 { Ok(()) } else { Err(rows.to_string()) }
    });
}

/// Accounts are kept by tenant. A gateway without tenants or without a file says what to set.
#[test]
fn x05_usage_without_accounts_says_what_to_set() {
    let backend = backend();
    let usage = |sections: &str| {
        let gateway = Gateway::start(&config(sections, &[("one", backend.address())]));
        assert_eq!(gateway.ask(&chat("m")).status, 200);
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(["usage", "--url", &gateway.url()]).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8(said).unwrap(), output.status.success())
    };
    let (said, worked) = usage("");
    assert!(!worked && said.contains("usage.file") && said.contains("[[tenants]]"), "{said}");
    let (said, worked) = usage("[usage]\nfile = \"usage.db\"\n");
    assert!(worked, "{said}");
    assert!(said.contains("No request of a tenant") && said.contains("[[tenants]]"), "{said}");
}
