//! R, W: the choice of the backend, the response headers that describe it, and the request headers
//! that affect it.

use crate::support::gateway::{ONE, TWO};
use crate::support::scripted_response::delta;
use crate::support::{
    Backend, Call, Gateway, HttpRequest, ScriptedResponse, chat, eventually, queueing,
};

const ROOM: &str = "[controller]\nwatermark_per_backend = 20\n";

/// A backend section that serves `m` and a model with the backend's own name.
fn entry(id: &str, backend: &Backend, traits: &str) -> String {
    let url = format!("url = \"http://{}\"\nmodels = [\"m\", \"{id}\"]", backend.address());
    format!("[[backends]]\nid = \"{id}\"\n{url}\n{traits}\n")
}

/// Occupies a backend with this many requests of a band.
fn occupy(gateway: &Gateway, id: &str, backend: &Backend, band: &str, count: usize) -> Vec<Call> {
    let before = backend.running();
    let calls = (0..count).map(|_| gateway.send(&chat(id).priority(band))).collect();
    backend.await_running(before + count);
    calls
}

#[test]
fn r04_scenario_1_a_critical_request_avoids_congested_backends() {
    let trio = [Backend::held(), Backend::held(), Backend::held()];
    let [a, b, c] = &trio;
    let entries = entry("a", a, "") + &entry("b", b, "") + &entry("c", c, "");
    let gateway = Gateway::start(&format!("{ROOM}{entries}"));
    let _normal = occupy(&gateway, "a", a, "normal", 5);
    let _critical = occupy(&gateway, "c", c, "critical", 2);
    let ask = chat("m").priority("critical").header("X-Latency-Critical", "true");
    let call = gateway.send(&ask);
    b.await_running(1);
    b.open();
    let answer = call.finish();
    assert_eq!(answer.header("x-backend-used"), Some("b"));
    assert_eq!(answer.header("x-routing-reason"), Some("critical-priority-low-queue"));
    assert_eq!(answer.header("x-queue-depth"), Some("0"));
    assert_eq!(answer.header("x-priority-boost"), Some("500"));
    let busy = gateway.backend("a");
    assert_eq!((&busy["queue_depth"], &busy["priority_counts"]["normal"]), (&5.into(), &5.into()));
    assert_eq!(gateway.backend("c")["priority_counts"]["critical"], 2);
}

#[test]
fn r04_scenario_2_best_effort_saves_the_fast_backend() {
    let (nvidia, npu) = (Backend::held(), Backend::held());
    let entries = entry("ollama-nvidia", &nvidia, "power_watts = 55\nlatency_ms = 150")
        + &entry("ollama-npu", &npu, "power_watts = 3\nlatency_ms = 800");
    let gateway = Gateway::start(&format!("{ROOM}{entries}"));
    let _busy = occupy(&gateway, "ollama-npu", &npu, "best-effort", 1);
    let call = gateway.send(&chat("m").priority("best-effort"));
    npu.await_running(2);
    npu.open();
    let answer = call.finish();
    assert_eq!(answer.header("x-backend-used"), Some("ollama-npu"));
    assert_eq!(answer.header("x-routing-reason"), Some("best-effort-power-efficient"));
    assert_eq!(answer.header("x-estimated-power-w"), Some("3.0"));
    assert_eq!(answer.header("x-priority-boost"), Some("-100"));
}

#[test]
fn r04_no_power_is_told_where_none_is_configured() {
    let backend = Backend::quick();
    let gateway = Gateway::start(&format!("{ROOM}{}", entry("a", &backend, "latency_ms = 20")));
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("a")));
    for header in ["x-estimated-power-w", "x-estimated-power-watts"] {
        assert_eq!(answer.header(header), None, "{header}");
    }
}

#[test]
fn r04_scenario_3_a_voice_request_does_not_wait_behind_batch_jobs() {
    let trio = [Backend::held(), Backend::held(), Backend::held()];
    let [a, b, c] = &trio;
    let entries = entry("a", a, "") + &entry("b", b, "") + &entry("c", c, "");
    let gateway = Gateway::start(&format!("{ROOM}{entries}"));
    let _batch = occupy(&gateway, "a", a, "best-effort", 10);
    let _chat = occupy(&gateway, "b", b, "normal", 5);
    let _voice = occupy(&gateway, "c", c, "critical", 3);
    let call = gateway.send(&chat("m").priority("critical").header("X-Max-Latency-Ms", "100"));
    // Ten requests that it overtakes weigh 2.5, five normal ones 2.5, three of its own band 3.
    let arrived = || match (a.running(), b.running(), c.running()) {
        (11, 5, 3) | (10, 6, 3) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("arrived where few critical ones are", arrived);
    trio.iter().for_each(Backend::open);
    let answer = call.finish();
    assert_ne!(answer.header("x-backend-used"), Some("c"));
    assert_eq!(answer.header("x-routing-reason"), Some("latency-limit-unmet-fastest"));
    assert_eq!((answer.status, answer.header("x-queue-wait-ms")), (200, Some("0")));
}

#[test]
fn r04_all_idle_each_band_goes_where_the_chart_of_the_source_says() {
    let trio = [Backend::quick(), Backend::quick(), Backend::quick()];
    let [nvidia, igpu, npu] = &trio;
    let entries = entry("nvidia", nvidia, "power_watts = 55\nlatency_ms = 150")
        + &entry("igpu", igpu, "power_watts = 12\nlatency_ms = 400")
        + &entry("npu", npu, "power_watts = 3\nlatency_ms = 800");
    let sections = "[router]\nmeasured_latency_share = 0\n";
    let gateway = Gateway::start(&format!("{sections}{ROOM}{entries}"));
    let chart = [
        ("critical", "nvidia", "500"),
        ("high", "nvidia", "200"),
        ("normal", "igpu", "0"),
        ("best-effort", "npu", "-100"),
    ];
    for (band, backend, boost) in chart {
        let answer = gateway.ask(&chat("m").priority(band));
        assert_eq!(answer.header("x-backend-used"), Some(backend), "{band}");
        assert_eq!(answer.header("x-priority-boost"), Some(boost), "{band}");
    }
}

/// How many of two critical requests, one after the other, go to a fast and to a frugal backend.
fn critical_requests_by_backend(router: &str) -> [usize; 2] {
    let both = [Backend::held(), Backend::held()];
    let [fast, frugal] = &both;
    let entries = entry("fast", fast, "power_watts = 300\nlatency_ms = 100")
        + &entry("frugal", frugal, "power_watts = 3\nlatency_ms = 900");
    let router = format!("[router]\nmeasured_latency_share = 0\n{router}");
    let gateway = Gateway::start(&format!("{router}{ROOM}{entries}"));
    let running = || both.each_ref().map(Backend::running);
    let mut calls = Vec::new();
    for sent in 1..=2 {
        calls.push(gateway.send(&chat("m").priority("critical")));
        eventually("running", || match running() {
            [fast, frugal] if fast + frugal == sent => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    running()
}

#[test]
fn r02_configured_boosts_and_penalties_change_the_choice() {
    assert_eq!(critical_requests_by_backend(""), [2, 0], "the fastest");
    let equal = "[router.priority_scoring]\ncritical_boost = 0\nhigh_boost = 0\n\
        normal_boost = 0\nbest_effort_penalty = 0\n";
    assert_eq!(critical_requests_by_backend(equal), [0, 2], "the most frugal");
    let depth = "queue_depth_penalty_per_request = 9000\n";
    assert_eq!(critical_requests_by_backend(depth), [1, 1], "the emptiest");
}

#[test]
fn r01_a_session_stays_at_one_backend() {
    let trio = [Backend::quick(), Backend::quick(), Backend::quick()];
    let [a, b, c] = &trio;
    let entries = entry("a", a, "") + &entry("b", b, "") + &entry("c", c, "");
    let gateway = Gateway::start(&format!("[router]\nmeasured_latency_share = 0\n{entries}"));
    let counts = || trio.each_ref().map(|backend| backend.seen().len());
    let ask = |ask: &HttpRequest| {
        assert_eq!(gateway.ask(ask).status, 200);
        // A request in flight would count against its backend.
        gateway.await_idle();
    };
    (0..6).for_each(|_| ask(&chat("m")));
    assert_eq!(counts(), [2, 2, 2], "others take turns");
    for session in ["one", "two", "three"] {
        let before = counts();
        (0..4).for_each(|_| ask(&chat("m").header("X-Session-Id", session)));
        let after = counts();
        let more = [0, 1, 2].map(|at| after[at] - before[at]);
        assert!(more.contains(&4), "{session}: {more:?}");
    }
}

#[test]
fn r05_a_latency_limit_and_a_wish_for_speed_are_honoured() {
    let (fast, frugal) = (Backend::quick(), Backend::quick());
    let entries = entry("fast", &fast, "power_watts = 300\nlatency_ms = 100")
        + &entry("frugal", &frugal, "power_watts = 3\nlatency_ms = 900");
    let gateway = Gateway::start(&format!("[router]\nmeasured_latency_share = 0\n{TWO}{entries}"));
    let used = |ask: HttpRequest| gateway.ask(&ask).header("x-backend-used").unwrap().to_owned();
    assert_eq!(used(chat("m")), "frugal");
    assert_eq!(used(chat("m").header("X-Latency-Critical", "true")), "fast");
    let limited = gateway.ask(&chat("m").header("X-Max-Latency-Ms", "200"));
    assert_eq!(limited.header("x-backend-used"), Some("fast"));
    assert_eq!(limited.header("x-routing-reason"), Some("only-backend-within-latency-limit"));
    assert_eq!(used(chat("m").header("X-Media-Type", "realtime")), "fast");
    for absurd in ["-1", "soon", "99999999999999999999", ""] {
        let ask = chat("m").header("X-Max-Latency-Ms", absurd);
        assert_eq!(gateway.ask(&ask).status, 200, "{absurd}");
    }
}

/// The fast backend draws much, the frugal one little.
fn fast_and_frugal(fast: &Backend, frugal: &Backend, sections: &str) -> Gateway {
    let entries = entry("fast", fast, "power_watts = 300\nlatency_ms = 100")
        + &entry("frugal", frugal, "power_watts = 3\nlatency_ms = 900");
    Gateway::start(&format!("[router]\nmeasured_latency_share = 0\n{sections}{entries}"))
}

/// A backend that begins each response after this time.
fn taking(millis: u64) -> Backend {
    Backend::start(move |seen| match seen.json()["stream"] == true {
        true => ScriptedResponse::stream(&[&delta("tide")]).after_ms(millis),
        false => ScriptedResponse::ok().after_ms(millis),
    })
}

/// Two backends of equal traits, and where four equal requests go after both have responded.
fn where_four_go(sections: &str, sent: &HttpRequest, asked: &HttpRequest) -> Vec<String> {
    let (slow, fast) = (taking(900), taking(0));
    let entries = entry("slow", &slow, "") + &entry("fast", &fast, "");
    let gateway = Gateway::start(&format!("{sections}{entries}"));
    gateway.await_ready(2);
    for id in ["slow", "fast"] {
        let answer = gateway.ask(&sent.clone().header("X-Target-Backend", id));
        assert_eq!(answer.header("x-backend-used"), Some(id));
    }
    let used = |_| gateway.ask(asked).header("x-backend-used").unwrap().to_owned();
    (0..4).map(used).collect()
}

#[test]
fn r05_a_latency_limit_is_compared_with_what_responses_have_shown() {
    for sections in ["", ROOM] {
        for sent in [chat("m"), chat("m").streamed()] {
            let asked = sent.clone().header("X-Max-Latency-Ms", "450");
            assert_eq!(where_four_go(sections, &sent, &asked), ["fast"; 4], "{sections}");
        }
    }
}

/// Requests of others wait inside one of two equal engines.
#[test]
fn r01_the_queue_of_an_engine_counts_under_fixed_bounds_too() {
    for sections in ["", ROOM] {
        let [busy, idle] = [(); 2].map(|()| Backend::quick().reports_places(8));
        busy.reports_waiting(9);
        let entries =
            entry("busy", &busy, "kind = \"vllm\"") + &entry("idle", &idle, "kind = \"vllm\"");
        let gateway = Gateway::start(&format!("{sections}{entries}"));
        gateway.await_ready(2);
        busy.await_metrics_read();
        let used = |_| gateway.ask(&chat("m")).header("x-backend-used").unwrap().to_owned();
        assert_eq!((0..4).map(used).collect::<Vec<_>>(), ["idle"; 4], "{sections}");
    }
}

/// A response in one piece tells nothing about its first token.
#[test]
fn r05_whole_responses_are_not_compared_with_an_objective_for_a_first_token() {
    let asked = chat("m").header("x-slo-ttft-ms", "700");
    let used = where_four_go(ROOM, &chat("m"), &asked);
    assert!(used.iter().any(|id| id == "slow"), "{used:?}");
}

#[test]
fn r01_streams_are_measured_under_fixed_bounds_too() {
    for asked in [chat("m").priority("critical"), chat("m").header("X-Latency-Critical", "true")] {
        let asked = asked.streamed();
        assert_eq!(where_four_go(ROOM, &chat("m").streamed(), &asked), ["fast"; 4]);
    }
}

#[test]
fn r05_power_and_a_named_backend_are_honoured() {
    let (fast, frugal) = (Backend::quick(), Backend::quick());
    let gateway = fast_and_frugal(&fast, &frugal, TWO);
    let urgent = || chat("m").priority("critical");
    let route = |ask: HttpRequest| {
        let answer = gateway.ask(&ask);
        assert_eq!(answer.status, 200);
        let header = |name: &str| answer.header(name).unwrap().to_owned();
        (header("x-backend-used"), header("x-routing-reason"))
    };
    assert_eq!(route(urgent()).0, "fast");
    let (used, reason) = route(urgent().header("X-Max-Power-Watts", "299"));
    assert_eq!((used.as_str(), reason.as_str()), ("frugal", "only-backend-within-power-limit"));
    assert_eq!(route(urgent().header("X-Max-Power-Watts", "300")).0, "fast");
    let (used, reason) = route(urgent().header("X-Max-Power-Watts", "1"));
    assert_eq!((used.as_str(), reason.as_str()), ("frugal", "power-limit-unmet-most-economical"));
    let (used, reason) = route(urgent().header("X-Power-Efficient", "true"));
    assert_eq!((used.as_str(), reason.as_str()), ("frugal", "power-efficient"));
    assert_eq!(route(chat("m")).0, "frugal");
    assert_eq!(route(chat("m").header("X-Target-Backend", "fast")).0, "fast");
    for other in ["auto", "nobody", ""] {
        assert_eq!(route(chat("m").header("X-Target-Backend", other)).0, "frugal", "{other}");
    }
    let read = HttpRequest::get("/v1/things").header("X-Target-Backend", "fast");
    assert_eq!(gateway.ask(&read).header("x-backend-used"), Some("fast"));
}

/// Other pickers read these numbers as decimals, so clients write them so.
#[test]
fn r05_latency_limits_may_have_decimals() {
    let (fast, frugal) = (Backend::quick(), Backend::quick());
    let gateway = fast_and_frugal(&fast, &frugal, TWO);
    let used = |name: &str, value: &str| {
        let answer = gateway.ask(&chat("m").header(name, value));
        answer.header("x-backend-used").unwrap().to_owned()
    };
    for name in ["x-slo-ttft-ms", "x-llm-d-slo-ttft-ms", "X-Max-Latency-Ms"] {
        for value in ["200.0", "150.5", "1e2", "200"] {
            assert_eq!(used(name, value), "fast", "{name}: {value}");
        }
        for value in ["1e3", "-200.0", "nan", "inf", "-inf", "1e999", "0x10", "200,5", "200 ms"] {
            assert_eq!(used(name, value), "frugal", "{name}: {value}");
        }
    }
    let logged = chat("m").header("x-slo-ttft-ms", "250.5").header("X-Request-ID", "slo-2");
    assert_eq!(gateway.ask(&logged).status, 200);
    eventually("its line", || {
        let lines = gateway.process.access();
        let found = |line: &str| line.contains("slo-2") && line.contains("slo_ttft_ms=250.500");
        if lines.lines().any(found) { Ok(()) } else { Err(lines) }
    });
    // Shortly after 1970.
    let gone = gateway.ask(&chat("m").header("X-Deadline-Ms", "1.5"));
    assert_eq!((gone.status, gone.code().as_str()), (504, "deadline_exceeded"));
}

#[test]
fn r05_a_power_limit_may_have_decimals() {
    let (fast, frugal) = (Backend::quick(), Backend::quick());
    let entries = entry("fast", &fast, "power_watts = 9.99\nlatency_ms = 100")
        + &entry("frugal", &frugal, "power_watts = 3\nlatency_ms = 900");
    let gateway = Gateway::start(&format!("[router]\nmeasured_latency_share = 0\n{TWO}{entries}"));
    let used = |watts: &str| {
        let ask = chat("m").priority("critical").header("X-Max-Power-Watts", watts);
        gateway.ask(&ask).header("x-backend-used").unwrap().to_owned()
    };
    for watts in ["9.98", "3.0", "0.5", "9"] {
        assert_eq!(used(watts), "frugal", "{watts}");
    }
    for watts in ["9.99", "10.0", "1e3", "-1.5", "nan", "inf", "ten"] {
        assert_eq!(used(watts), "fast", "{watts}");
    }
}

/// A request waits for the backend that it names while another one is free.
#[test]
fn r05_a_request_waits_for_the_backend_that_it_names() {
    let (fast, frugal) = (Backend::held(), Backend::quick());
    let gateway = fast_and_frugal(&fast, &frugal, ONE);
    let ask = || chat("m").header("X-Target-Backend", "fast");
    let first = gateway.send(&ask());
    fast.await_running(1);
    let second = gateway.enqueue(&ask(), 0);
    assert_eq!(gateway.ask(&chat("m")).header("x-backend-used"), Some("frugal"));
    fast.open();
    for call in [first, second] {
        assert_eq!(call.finish().header("x-backend-used"), Some("fast"));
    }
    gateway.await_idle();
}

#[test]
fn r05_the_objective_for_a_first_token_is_a_latency_limit_and_is_logged() {
    for name in ["x-slo-ttft-ms", "x-llm-d-slo-ttft-ms"] {
        let (fast, frugal) = (Backend::quick(), Backend::quick());
        let gateway = fast_and_frugal(&fast, &frugal, TWO);
        let answer = gateway.ask(&chat("m").header(name, "200").header("X-Request-ID", "slo-1"));
        assert_eq!(answer.header("x-backend-used"), Some("fast"), "{name}");
        assert_eq!(answer.header("x-routing-reason"), Some("only-backend-within-latency-limit"));
        assert_eq!(answer.header("x-estimated-latency-ms"), Some("100"));
        eventually("its line", || {
            let lines = gateway.process.access();
            let logged =
                |line: &str| line.contains("slo-1") && line.contains("slo_ttft_ms=200.000");
            if lines.lines().any(logged) { Ok(()) } else { Err(lines) }
        });
    }
}

#[test]
fn r05_a_deadline_by_the_clock_ends_a_request() {
    let backend = Backend::held();
    let gateway = Gateway::before(TWO, &backend);
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let due = |at: u128| gateway.ask(&chat("m").header("X-Deadline-Ms", &at.to_string()));
    let passed = due(now() - 1);
    assert_eq!((passed.status, passed.code().as_str()), (504, "deadline_exceeded"));
    assert!(backend.seen().is_empty());
    let soon = due(now() + 700);
    assert_eq!((soon.status, soon.code().as_str()), (504, "deadline_exceeded"));
    backend.open();
    assert_eq!(due(now() + 60_000).status, 200);
    assert_eq!(gateway.ask(&chat("m").header("X-Deadline-Ms", "soon")).status, 200);
}

#[test]
fn r05_the_request_id_is_echoed_forwarded_and_logged_with_the_choice() {
    let backend = Backend::quick();
    let gateway = Gateway::before(&format!("[log]\nformat = \"json\"\n{TWO}"), &backend);
    let answer = gateway.ask(&chat("m").priority("high").header("X-Request-ID", "voice-001"));
    assert_eq!(answer.header("x-request-id"), Some("voice-001"));
    assert_eq!(backend.seen()[0].header("x-request-id"), Some("voice-001"));
    let line = eventually("logged", || {
        let log = gateway.process.access();
        let line = log.lines().find(|line| line.contains("voice-001")).map(str::to_owned);
        line.ok_or(log)
    });
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    for field in ["boost", "score", "queue_penalty"] {
        assert!(line.to_string().contains(&format!("\"{field}\"")), "no {field}: {line}");
    }
    assert!(line.to_string().contains("\"high\""), "{line}");
    let generated = gateway.ask(&chat("m"));
    let id = generated.header("x-request-id").unwrap().to_owned();
    assert!(!id.is_empty());
    assert_eq!(backend.seen()[1].header("x-request-id"), Some(id.as_str()));
    gateway.ask(&chat("nobody-has-it")).header("x-request-id").unwrap();
}

#[test]
fn r10_a_name_stands_for_its_targets_and_only_the_name_is_rewritten() {
    let backend = Backend::quick();
    let models = "[[models]]\nname = \"chat\"\ntargets = [{ model = \"m\" }]\n";
    let gateway = Gateway::before(&format!("{models}{TWO}"), &backend);
    let around = ("{ \"seed\":9007199254740993, \"model\" : ", ",\"x\":{\"model\":\"chat\"} }");
    let body = format!("{}\"chat\"{}", around.0, around.1);
    assert_eq!(gateway.ask(&HttpRequest::post("/v1/chat/completions", body)).status, 200);
    let sent = String::from_utf8(backend.seen().remove(0).body).unwrap();
    assert_eq!(sent, format!("{}\"m\"{}", around.0, around.1));
    let direct = "{ \"model\":\"m\" , \"a\":1e3}";
    assert_eq!(gateway.ask(&HttpRequest::post("/v1/chat/completions", direct)).status, 200);
    assert_eq!(backend.seen()[1].body, direct.as_bytes());
    let listed = gateway.get("/v1/models").text();
    assert!(listed.contains("\"chat\"") && listed.contains("\"m\""), "{listed}");
    let names = "model=\"chat\",target_model=\"m\"";
    assert_eq!(gateway.metrics().sum_where("tidegate_requests_total", names), 1.0);
    eventually("logged", || match gateway.process.access() {
        log if log.contains("model=chat target_model=m ") => Ok(()),
        log => Err(log),
    });
}

#[test]
fn r10_weighted_targets_share_the_requests() {
    let backend = Backend::start(|_| ScriptedResponse::ok());
    let entry = entry("n", &backend, "");
    let models = "[[models]]\nname = \"chat\"\n\
        targets = [{ model = \"m\", weight = 3 }, { model = \"n\", weight = 1 }]\n";
    let gateway = Gateway::start(&format!("{models}{TWO}{entry}"));
    for _ in 0..80 {
        assert_eq!(gateway.ask(&chat("chat")).status, 200);
    }
    let seen = backend.seen();
    let next = seen.iter().filter(|seen| seen.json()["model"] == "n").count();
    assert!((5..=40).contains(&next), "{next} of 80 went to a target with a quarter's weight");
}

#[test]
fn w01_a_workloads_context_is_read_and_never_an_error() {
    let backend = Backend::held();
    let gateway = Gateway::before(TWO, &backend);
    let context = "{\"workload_id\": \"nightly\", \"criticality\": 5}";
    let call = gateway.send(&chat("m").header("X-Workload-Context", context));
    backend.await_running(1);
    let workloads = gateway.get("/workloads").text();
    assert!(workloads.contains("nightly"), "{workloads}");
    backend.open();
    assert_eq!(call.finish().status, 200);
    assert!(backend.seen()[0].header("x-workload-context").is_none());
    let long = format!("{{\"workload_id\": \"{}\"}}", "x".repeat(9000));
    let absurd = [
        "",
        "{",
        "null",
        "[]",
        "{\"workload_id\": \"\"}",
        "{\"workload_id\": 7}",
        "{\"workload_id\": \"a\", \"criticality\": 99}",
        "{\"workload_id\": \"a\", \"criticality\": \"very\"}",
        "\u{e9}\u{fc}",
        &long,
    ];
    for value in absurd {
        let answer = gateway.ask(&chat("m").header("X-Workload-Context", value));
        assert_eq!(answer.status, 200, "{value}");
    }
    gateway.await_idle();
}

#[test]
fn w01_a_criticality_counts_without_an_id_and_ids_are_logged() {
    let backend = Backend::held();
    let sections = format!("[queue]\norder = \"workload\"\n[log]\nformat = \"json\"\n{ONE}");
    let (gateway, running) = Gateway::occupied(&sections, &backend, &chat("m"));
    queueing::check_workload_context(&gateway, &backend, running);
}

#[test]
fn w03_the_more_critical_workload_of_a_flow_goes_first() {
    let backend = Backend::held();
    let gateway = Gateway::before(&format!("[queue]\norder = \"workload\"\n{ONE}"), &backend);
    let ask = |id: &str, criticality: u8| {
        let context = format!("{{\"workload_id\":\"{id}\",\"criticality\":{criticality}}}");
        chat("m").tag(id).header("X-Workload-Context", &context)
    };
    let mut calls = vec![gateway.send(&ask("running", 3))];
    backend.await_running(1);
    for (others, (id, criticality)) in [("low", 1), ("mid", 3), ("top", 5)].into_iter().enumerate()
    {
        calls.push(gateway.enqueue(&ask(id, criticality), others));
    }
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.tags(), ["running", "top", "mid", "low"]);
}

/// A second round of requests has the same size and memory as the first, but for the workloads.
#[test]
fn w04_a_thousand_workloads_take_less_than_ten_megabytes() {
    let backend = Backend::quick();
    let gateway = Gateway::before("[queue]\norder = \"workload\"\n", &backend);
    let mut call = Call::open(gateway.address(), b"");
    let mut ask = |number: usize, name: &str| {
        let context = format!("{{\"workload_id\":\"{number:0256}\",\"criticality\":3}}");
        call.send(&chat("m").header(name, &context).bytes_kept()).unwrap();
        assert_eq!(call.answer().unwrap().status, 200);
    };
    (0..1000).for_each(|number| ask(number, "x-other-context"));
    let before = gateway.process.resident_bytes();
    (0..1000).for_each(|number| ask(number, "x-workload-context"));
    let more = gateway.process.resident_bytes().saturating_sub(before);
    assert_eq!(gateway.metrics().sum("tidegate_workloads"), 1000.0);
    eprintln!("a thousand workloads took {more} bytes");
    assert!(more < 10_000_000, "{more} bytes");
}

/// C11: responses report the headroom, by option.
#[test]
fn c11_responses_state_headroom_and_load_if_configured() {
    let backend = Backend::held();
    let options = "[server]\nheadroom_headers = true\norca = true\n[queue]\ntotal_capacity = 4\n";
    let bounds = "[controller]\nlower_bound_per_backend = 1\nwatermark_per_backend = 1\n\
                  upper_bound_per_backend = 1\n";
    let gateway = Gateway::start(&format!("{options}{bounds}{}", entry("a", &backend, "")));
    queueing::check_headroom(&gateway, &backend);
    let plain = Gateway::start(&entry("a", &Backend::quick(), "")).send(&chat("m")).finish();
    assert_eq!(plain.header("endpoint-load-metrics"), None);
}
