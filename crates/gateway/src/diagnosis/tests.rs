//! Each rule with the plain data of an incident, and with data that is nearly one.

mod batch_attempts;
mod blind;
mod causes;
mod chains;
mod clients;
mod evidence;
mod lasting;
mod lists;
mod tokens;

use std::sync::Arc;

use flow::Time;

use super::situation::{
    BackendCondition, BandState, BatchQueueState, CertificateExpiry, EngineState, FlowState,
    GateCondition, KeyExpiry, ModelState, QueueState, RefusalCount, Situation, StockState,
    StoreTrouble, TenantState,
};
use super::{EndedFinding, Level, Sample, StatusFinding, StatusPage, Trends, findings};

/// A ready backend of the model `m`.
fn backend(id: &str) -> BackendCondition {
    BackendCondition {
        id: id.into(),
        url: format!("http://{id}:8000"),
        state: "ready",
        ready: true,
        models: vec!["m".into()],
        ..BackendCondition::default()
    }
}

/// Batch work behind one gate.
fn behind_gate(gate: GateCondition) -> Situation {
    let queue = BatchQueueState {
        name: "night".into(),
        gates: vec!["load".into()],
        pending: 40,
        ..BatchQueueState::default()
    };
    let gates = vec![GateCondition { name: "load".into(), ..gate }];
    Situation { batch_queues: vec![queue], gates, ..well() }
}

/// A gateway with two ready backends and an empty queue.
fn well() -> Situation {
    Situation {
        has_backends: true,
        backends: vec![backend("gpu-a"), backend("gpu-b")],
        backends_ready: 2,
        backends_total: 2,
        queue: QueueState { capacity: 1000, ttl_seconds: 30.0, ..QueueState::default() },
        stock: StockState { mode: "auto", ..StockState::default() },
        ..Situation::default()
    }
}

fn lost(state: &'static str, reason: &str) -> BackendCondition {
    BackendCondition { state, ready: false, reason: Some(reason.into()), ..backend("gpu-b") }
}

fn with_second(second: BackendCondition) -> Situation {
    let backends_ready = 1 + usize::from(second.ready);
    Situation { backends: vec![backend("gpu-a"), second], backends_ready, ..well() }
}

fn ids(situation: &Situation) -> Vec<&'static str> {
    findings(situation).iter().map(|finding| finding.id).collect()
}

/// The only finding.
fn only(situation: &Situation) -> StatusFinding {
    let found = findings(situation);
    assert_eq!(found.len(), 1, "{found:?}");
    let finding = found.into_iter().next().unwrap();
    assert!(!finding.advice.is_empty() && !finding.text.is_empty(), "{finding:?}");
    assert_eq!(finding.runbook, format!("docs/RUNBOOK.md#{}", finding.id));
    let heading = format!("\n## {}\n", finding.id);
    assert!(include_str!("../../../../docs/RUNBOOK.md").contains(&heading), "{heading}");
    finding
}

fn at(secs: u64) -> Sample {
    Sample { at: Time::from_millis(secs * 1000), ..Sample::default() }
}

/// The page after looking each second until `secs`.
fn after(secs: u64, situation: &Situation) -> StatusPage {
    let mut trends = Trends::default();
    for second in 0..secs {
        trends.judge(situation.clone(), at(second));
    }
    trends.judge(situation.clone(), at(secs))
}

#[test]
fn m03_without_a_finding_all_is_well() {
    assert_eq!(ids(&well()), [""; 0]);
    let page = after(3, &well());
    assert_eq!(page.level, Level::Ok);
    assert_eq!(page.sentence, "All is well: 2 of 2 backends are ready, no request waits.");
}

#[test]
fn m03_a_dead_backend_is_named_with_its_reason_and_its_time() {
    let situation = with_second(lost("unready", "connection refused"));
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("backend_down", Level::Warning));
    assert_eq!(finding.text, "gpu-b is down: connection refused");
    let page = after(120, &situation);
    let expected = "gpu-b is down: connection refused (for 2 min); 1 of 2 backends is ready; \
                    no request waits.";
    assert_eq!(page.sentence, expected);
    assert_eq!(page.findings[0].since_seconds, 120.0);
}

#[test]
fn m03_the_only_backend_of_a_model_is_trouble() {
    let only_one =
        BackendCondition { models: vec!["other".into()], ..lost("ejected", "status 500") };
    let finding = only(&with_second(only_one));
    assert_eq!((finding.id, finding.level), ("backend_ejected", Level::Trouble));
}

#[test]
fn m03_without_a_ready_backend_the_first_finding_says_why() {
    let mut situation = with_second(lost("unready", "connection refused"));
    situation.backends.remove(0);
    (situation.backends_ready, situation.backends_total) = (0, 1);
    let page = after(1, &situation);
    assert_eq!(page.findings[0].id, "no_backend_ready");
    assert_eq!(page.level, Level::Trouble);
    assert!(page.sentence.contains("gpu-b: connection refused"), "{}", page.sentence);
    let none = Situation { backends: Vec::new(), backends_ready: 0, backends_total: 0, ..well() };
    assert_eq!(ids(&none), ["no_backend"]);
    assert_eq!(ids(&Situation { has_backends: false, ..none.clone() }), [""; 0]);
    let lost = Situation { discovery: vec!["there is no InferencePool llama".into()], ..none };
    let text = findings(&lost).pop().unwrap().text;
    assert_eq!(text, "no backend is ready", "there is no reason to name");
}

/// A pool may be scaled to zero, so that is no trouble.
#[test]
fn m03_a_pool_without_pods_is_named_with_its_selector() {
    let empty = "the InferencePool llama with the selector app=vllm finds no endpoint";
    let mut situation =
        Situation { backends: Vec::new(), backends_ready: 0, backends_total: 0, ..well() };
    situation.discovery_empty = vec![empty.into()];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("no_backend", Level::Note));
    assert_eq!(finding.text, format!("there is no backend: {empty}"));
    situation.queue.depth = 1;
    assert_eq!(only(&situation).level, Level::Warning);
}

#[test]
fn m03_an_object_of_the_cluster_that_is_left_out_is_a_warning() {
    let problem = "the InferenceModelRewrite r, rule 1 (for \"m\"): it has no target";
    let finding = only(&Situation { discovery_left_out: vec![problem.into()], ..well() });
    assert_eq!((finding.id, finding.level), ("discovery_incomplete", Level::Warning));
    assert!(finding.text.ends_with(problem) && !finding.advice.contains("role"), "{finding:?}");
}

#[test]
fn m03_a_failing_backend_is_named_with_its_last_error() {
    let mut failing = backend("gpu-b");
    (failing.answered_per_minute, failing.failed_per_minute) = (9.0, 3.0);
    failing.last_error = Some("status 500".into());
    let finding = only(&with_second(failing.clone()));
    assert_eq!(
        finding.text,
        "3 of the 12 attempts at gpu-b in the last minute failed (25 %): status 500"
    );
    failing.answered_per_minute = 1000.0;
    assert_eq!(ids(&with_second(failing)), [""; 0]);
}

#[test]
fn m03_a_backend_is_slow_compared_with_its_peers() {
    let mut situation = well();
    situation.backends[0].stream_first_byte_ms = Some(100.0);
    situation.backends[1].stream_first_byte_ms = Some(900.0);
    let finding = only(&situation);
    assert_eq!((finding.id, finding.subject.as_deref()), ("backend_slow", Some("gpu-b")));
    assert_eq!((finding.evidence["own_ms"], finding.evidence["peers_ms"]), (900.0, 100.0));
    situation.backends[1].models = vec!["another".into()];
    assert_eq!(ids(&situation), [""; 0], "it has no peer");
    situation.backends[1].models = vec!["m".into()];
    situation.backends[1].stream_first_byte_ms = Some(250.0);
    assert_eq!(ids(&situation), [""; 0], "it is not much slower");
}

/// A response that is no stream begins when it is complete, so a long one takes long.
#[test]
fn m03_a_backend_with_long_responses_is_not_slow() {
    let mut situation = well();
    for (backend, (millis, tokens)) in
        situation.backends.iter_mut().zip([(1000.0, 50.0), (9000.0, 450.0)])
    {
        (backend.first_byte_ms, backend.latency_ms) = (Some(millis), Some(millis));
        backend.output_tokens = Some(tokens);
    }
    assert_eq!(ids(&situation), [""; 0], "nine times the tokens take nine times as long");
    situation.backends[1].output_tokens = Some(60.0);
    let text =
        "gpu-b is slow: a response of 60 tokens takes 9.0 s, 8 times as long as at its peers";
    assert_eq!(only(&situation).text, text, "1.2 s would be usual");
    situation.backends[1].latency_ms = Some(1100.0);
    situation.backends[1].output_tokens = Some(1.0);
    assert_eq!(ids(&situation), [""; 0], "a short response is mostly its prompt");
    situation.backends[1].latency_ms = Some(9000.0);
    situation.backends[1].output_tokens = None;
    assert_eq!(ids(&situation), [""; 0], "its length is not known and may be the reason");
}

#[test]
fn m03_a_backend_hangs_with_requests_and_without_a_byte() {
    let mut hung = backend("gpu-b");
    (hung.in_flight, hung.silent_seconds, hung.first_byte_ms) = (3, Some(100.0), Some(200.0));
    let situation = with_second(hung);
    assert!(after(9, &situation).findings.is_empty(), "it has had requests for nine seconds only");
    let page = after(11, &situation);
    assert_eq!(page.findings[0].id, "backend_hung");
    assert_eq!(page.findings[0].text, "gpu-b hangs: 3 requests there, and no byte for 11 s");
    let mut cold = situation;
    cold.backends[1].first_byte_ms = None;
    assert!(after(29, &cold).findings.is_empty(), "it may load its model");
    assert_eq!(after(31, &cold).findings[0].id, "backend_hung");
}

#[test]
fn m03_a_flooding_flow_is_compared_with_its_weight() {
    let flow = |name: &str, waiting: u32| FlowState {
        name: name.into(),
        queue_depth: waiting,
        queue_share: f64::from(waiting) / 40.0,
        fair_share: 0.5,
        ..FlowState::default()
    };
    let mut situation = well();
    situation.queue.depth = 40;
    situation.flows = vec![flow("loud", 38), flow("quiet", 2)];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.subject.as_deref()), ("flow_floods", Some("loud")));
    assert!(finding.text.contains("38 of 40 waiting requests (95 %)"), "{}", finding.text);
    situation.flows = vec![flow("loud", 22), flow("quiet", 18)];
    assert_eq!(ids(&situation), [""; 0], "both have their share");
    situation.flows = vec![flow("loud", 40)];
    assert_eq!(ids(&situation), [""; 0], "there is no other flow");
    situation.flows = vec![flow("loud", 38), flow("quiet", 2)];
    (situation.flows[0].unserved, situation.queue.unserved) = (38, 38);
    assert_eq!(ids(&situation), [""; 0], "it waits because its model has no backend");
}

/// A quiet flow has no request most of the time; the flood goes on.
#[test]
fn m03_a_flood_is_reported_while_the_other_flow_rests() {
    let mut trends = Trends::default();
    let flow = |name: &str, waiting: u32, fair_share: f64| FlowState {
        name: name.into(),
        queue_depth: waiting,
        in_flight: 1,
        queue_share: 1.0,
        fair_share,
        ..FlowState::default()
    };
    let mut both = well();
    both.queue.depth = 40;
    both.flows = vec![flow("loud", 40, 0.5), flow("quiet", 0, 0.5)];
    let mut alone = both.clone();
    alone.flows = vec![flow("loud", 40, 1.0)];
    let mut seen = |situation: &Situation, second: u64| {
        let page = trends.judge(situation.clone(), at(second));
        page.findings.first().map(|one| (one.id, one.since_seconds))
    };
    assert_eq!(seen(&alone, 0), None, "one flow alone floods no other");
    assert_eq!([seen(&both, 1), seen(&both, 3)], [None, None], "it may be a burst of all");
    assert_eq!(seen(&both, 4), Some(("flow_floods", 3.0)));
    assert_eq!(seen(&alone, 20), Some(("flow_floods", 19.0)), "the other flow rests");
    assert_eq!(seen(&both, 50), Some(("flow_floods", 49.0)));
    assert_eq!(seen(&alone, 105), Some(("flow_floods", 104.0)));
    assert_eq!(seen(&alone, 111), None, "the other flow has left");
    assert_eq!([seen(&both, 112), seen(&both, 115)], [None, Some(("flow_floods", 3.0))]);
    let mut over = both.clone();
    over.flows[0].queue_depth = 2;
    assert_eq!(seen(&over, 116), None, "the flood is over");
    let part = |share: f64| {
        let mut part = both.clone();
        part.flows[0].queue_share = share;
        part.flows[0].fair_share = 0.2;
        part
    };
    assert_eq!(seen(&part(0.45), 200), None, "it has less than half of the queue");
    let found = [(0.55, 203), (0.55, 206), (0.45, 207)].map(|(one, at)| seen(&part(one), at));
    assert_eq!(found, [None, Some(("flow_floods", 3.0)), Some(("flow_floods", 4.0))], "it goes on");
    assert_eq!(seen(&part(0.25), 208), None);
}

/// A fixed watermark, with this engine behind the second backend.
fn fixed(watermark: f64, engine: EngineState) -> Situation {
    let (stock, in_flight) = (watermark as u64, watermark as u32);
    let engine = Some(engine);
    let second = BackendCondition { watermark, engine, stock, in_flight, ..backend("gpu-b") };
    let mut situation = with_second(second);
    situation.stock.mode = "fixed";
    situation.queue.depth = 12;
    let waits = ModelState { name: "m".into(), queue_depth: 12, ..ModelState::default() };
    situation.models = vec![waits];
    situation
}

#[test]
fn m03_a_fixed_watermark_is_too_high_if_the_engine_queues() {
    let engine =
        EngineState { running: 8, waiting: 22, kv_used: Some(0.9), ..EngineState::default() };
    let mut situation = fixed(30.0, engine);
    let finding = only(&situation);
    assert_eq!(finding.id, "watermark_too_high");
    assert!(finding.advice.contains("about 8"), "{}", finding.advice);
    situation.stock.mode = "auto";
    assert_eq!(ids(&situation), [""; 0], "the gateway moves the bound itself");
}

#[test]
fn m03_a_fixed_watermark_is_too_low_if_places_are_free() {
    let engine = EngineState { running: 1, running_max: Some(8), ..EngineState::default() };
    let situation = fixed(1.0, engine);
    let finding = only(&situation);
    assert_eq!(finding.id, "watermark_too_low");
    assert!(finding.text.contains("7 of its 8 places are free"), "{}", finding.text);
    let mut idle = situation.clone();
    (idle.queue.depth, idle.models[0].queue_depth) = (0, 0);
    assert_eq!(ids(&idle), [""; 0], "no request waits");
    let full = EngineState { kv_used: Some(0.9), ..engine };
    assert_eq!(ids(&fixed(1.0, full)), [""; 0], "the engine has no room");
    let old = EngineState { age_seconds: 60.0, ..engine };
    assert_eq!(ids(&fixed(1.0, old)), [""; 0], "the reading is too old");
    let unknown = EngineState { running_max: None, kv_used: Some(0.1), ..engine };
    assert!(only(&fixed(1.0, unknown)).text.contains("10 % used"));
}

#[test]
fn m03_a_closed_gate_is_named_while_batch_work_waits() {
    let mut situation = well();
    let queue = BatchQueueState {
        name: "night".into(),
        gates: vec!["load".into()],
        pending: 40,
        ..BatchQueueState::default()
    };
    let gate = GateCondition {
        name: "load".into(),
        value: Some(0.1),
        threshold: 0.2,
        state: "closed: D 0.10 is not above B 0.20".into(),
        ..GateCondition::default()
    };
    situation.batch_queues = vec![queue];
    situation.gates = vec![gate.clone()];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.evidence["pending"]), ("gate_closed", 40.0));
    assert!(after(1, &situation).findings.is_empty(), "gates close for moments all the time");
    assert_eq!(after(6, &situation).findings[0].id, "gate_closed");
    situation.gates = vec![GateCondition { value: None, ..gate.clone() }];
    assert_eq!(only(&situation).id, "gate_unreadable");
    situation.gates = vec![GateCondition { spent: true, ..gate.clone() }];
    let note = only(&situation);
    assert_eq!((note.id, note.level), ("budget_used_up", Level::Note), "a batch runs");
    let page = after(60, &situation);
    assert_eq!(page.level, Level::Ok);
    let well = "All is well: 2 of 2 backends are ready, no request waits; 1 note.";
    assert_eq!(page.sentence, well);
    situation.gates = vec![GateCondition { open: true, left: 3, ..gate.clone() }];
    assert_eq!(ids(&situation), [""; 0]);
    (situation.gates, situation.batch_queues[0].pending) = (vec![gate], 0);
    assert_eq!(ids(&situation), [""; 0], "no batch work waits");
}

#[test]
fn d08_m03_a_queue_whose_data_cannot_be_used_is_named_with_the_remedy() {
    let mut situation = well();
    let trouble = Some("the key \"q2\" is a string and must be a sorted set: rename it".into());
    let queue = BatchQueueState { name: "q2".into(), trouble, ..BatchQueueState::default() };
    situation.batch_queues =
        vec![BatchQueueState { name: "q".into(), ..Default::default() }, queue];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("batch_queue_unusable", Level::Trouble));
    let named =
        "the batch queue q2 cannot be used, so it sends nothing: the key \"q2\" is a string";
    assert!(finding.text.starts_with(named), "{}", finding.text);
}

#[test]
fn m03_a_full_disk_is_told_from_other_failures_of_a_store() {
    let mut situation = well();
    let full = "queue.db: database or disk is full";
    let folder = std::path::Path::new("/var/lib/batches");
    situation.stores = vec![StoreTrouble::new("batch.folder", full.into()).at(folder)];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("disk_full", Level::Trouble));
    let place = "the disk is full: batch.folder (/var/lib/batches) cannot be written";
    assert!(finding.text.starts_with(place), "{}", finding.text);
    assert!(finding.advice.contains("the disk of /var/lib/batches"), "{}", finding.advice);
    let relative = StoreTrouble::new("batch.folder", full.into()).at("./batch".as_ref());
    let shown = relative.path.unwrap_or_default();
    assert!(shown.starts_with('/') && shown.ends_with("/batch"), "{shown}");
    situation.stores = vec![StoreTrouble::new("batch.folder", "permission denied".into())];
    assert_eq!(only(&situation).id, "store_failing");
}

#[test]
fn m03_a_queue_that_is_nearly_full_is_reported() {
    let mut situation = well();
    situation.queue.depth = 899;
    assert_eq!(ids(&situation), [""; 0]);
    situation.queue.depth = 900;
    assert_eq!(only(&situation).level, Level::Warning);
    situation.queue.depth = 1000;
    assert_eq!(
        (only(&situation).id, only(&situation).level),
        ("queue_nearly_full", Level::Trouble)
    );
}

#[test]
fn m03_requests_that_will_expire_are_counted() {
    let mut situation = well();
    situation.queue.depth = 100;
    situation.queue.mean_drain_seconds = Some(29.0);
    assert_eq!(ids(&situation), [""; 0]);
    situation.queue.mean_drain_seconds = Some(60.0);
    let text = "about 50 of 100 waiting requests will expire before their turn";
    assert_eq!(only(&situation).text, text);
    situation.queue.mean_drain_seconds = None;
    situation.queue.oldest_seconds = Some(25.0);
    assert!(only(&situation).text.contains("is about to expire"));
}

/// Two findings with two different advices confuse; the cause is advised about.
#[test]
fn m03_refusals_that_another_finding_explains_point_to_it() {
    let refusal = RefusalCount { reason: "queue_timeout", total: 9, last_minute: 9, of_work: 9 };
    let advice = |mut situation: Situation| {
        situation.refusals = vec![refusal.clone()];
        let found = findings(&situation);
        found.into_iter().find(|one| one.id == "requests_refused").unwrap().advice
    };
    assert!(advice(well()).contains("Add a backend"));
    let mut dead = with_second(lost("unready", "connection refused"));
    dead.backends.remove(0);
    (dead.backends_ready, dead.backends_total) = (0, 1);
    assert_eq!(advice(dead), "See no_backend_ready: it explains these refusals.");
    let engine = EngineState { running: 1, running_max: Some(8), ..EngineState::default() };
    assert_eq!(advice(fixed(1.0, engine)), "See watermark_too_low: it explains these refusals.");
    let mut long = well();
    (long.queue.depth, long.queue.mean_drain_seconds) = (100, Some(60.0));
    assert_eq!(advice(long), "See requests_will_expire: it explains these refusals.");
    let other = with_second(lost("unready", "connection refused"));
    assert_eq!(advice(other), "See backend_down: it explains these refusals.", "fewer places");
}

#[test]
fn m03_a_used_up_quota_names_its_tenant_and_its_end() {
    let mut situation = well();
    let tenant = TenantState {
        name: "lab".into(),
        tokens_today: 1200,
        tokens_per_day: Some(1000),
        quota_used_up: Some("day"),
        quota_ends_in_seconds: Some(7200.0),
        ..TenantState::default()
    };
    situation.tenants = vec![tenant.clone()];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("quota_used_up", Level::Note));
    let text = "lab has used its quota of 1000 tokens a day; the next day begins in 2 h";
    assert_eq!((finding.text.as_str(), finding.subject.as_deref()), (text, Some("lab")));
    let month = TenantState {
        tokens_per_month: Some(9000),
        quota_used_up: Some("month"),
        ..tenant.clone()
    };
    situation.tenants = vec![month];
    assert!(only(&situation).text.contains("9000 tokens a month"), "{:?}", only(&situation));
    situation.tenants = vec![TenantState { quota_used_up: None, ..tenant }];
    assert_eq!(ids(&situation), [""; 0]);
}

#[test]
fn m03_a_certificate_that_expires_is_named_with_its_file() {
    let mut situation = well();
    let soon = CertificateExpiry {
        file: "/etc/tls/web.pem".into(),
        expires_in_seconds: 3.0 * 86_400.0,
        last_day: "Fri, 20 Nov 2026 12:00:00 GMT".into(),
        valid_yet: true,
    };
    situation.certificates = vec![soon.clone()];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("certificate_expires", Level::Warning));
    let text = "the certificate in /etc/tls/web.pem expires in 3 days, on Fri, 20 Nov 2026";
    assert!(finding.text.starts_with(text), "{}", finding.text);
    assert_eq!(finding.subject.as_deref(), Some("/etc/tls/web.pem"));
    let old = CertificateExpiry { expires_in_seconds: -5.0, ..soon.clone() };
    situation.certificates = vec![old];
    let finding = only(&situation);
    assert_eq!(finding.level, Level::Trouble);
    assert!(finding.text.contains("expired on Fri, 20 Nov 2026"), "{}", finding.text);
    situation.certificates = vec![CertificateExpiry { valid_yet: false, ..soon }];
    let finding = only(&situation);
    assert_eq!(finding.level, Level::Trouble);
    assert!(finding.text.contains("is not valid yet"), "{}", finding.text);
}

/// "All is well" needs to be known.
#[test]
fn m03_waiting_requests_without_a_known_rate_are_not_called_well() {
    let mut situation = well();
    (situation.queue.depth, situation.queue.oldest_seconds) = (3, Some(3.0));
    let page = Trends::default().judge(situation, Sample { depth: 3, ..at(0) });
    let text = "Nothing wrong is found: 2 of 2 backends are ready, 3 requests wait, how long is \
                not known yet.";
    assert_eq!((page.sentence.as_str(), page.level), (text, Level::Ok));
}

/// Fresh requests go before late ones, so the queue empties later than its rate says.
#[test]
fn m03_no_time_is_promised_to_late_requests_while_others_arrive() {
    let mut situation = well();
    (situation.queue.depth, situation.queue.late) = (20, 12);
    let after_five_seconds = |arriving: u64| {
        let mut trends = Trends::default();
        let sample = |second: u64| Sample {
            offered: arriving * second,
            granted: 2 * second,
            depth: 20,
            ..at(second)
        };
        (0..5).for_each(|second| _ = trends.judge(situation.clone(), sample(second)));
        trends.judge(situation.clone(), sample(5))
    };
    let page = after_five_seconds(1);
    let said = "20 requests wait, 12 of them late: they go after the fresh requests of their \
                flows, and at least 10 s remain";
    assert!(page.sentence.contains(said), "{}", page.sentence);
    assert!(page.situation.queue.drain_is_least);
    let page = after_five_seconds(0);
    assert!(page.sentence.contains("20 requests wait, the last for about 10 s more"), "{page:?}");
    assert!(!page.situation.queue.drain_is_least);
}

#[test]
fn m03_rates_and_the_time_until_the_queue_is_empty_come_from_the_samples() {
    let mut trends = Trends::default();
    let mut situation = well();
    situation.queue.depth = 20;
    situation.bands = vec![BandState::default(); 4];
    let sample = |second: u64| Sample {
        offered: 4 * second,
        granted: 2 * second,
        depth: 20,
        endings: [((Some(3), "ok"), 3 * second), ((Some(0), "flow_full"), second)].into(),
        attempts: [(Arc::from("gpu-a"), [second, 2 * second])].into(),
        ..at(second)
    };
    let first = trends.judge(situation.clone(), sample(0)).situation.queue;
    assert_eq!((first.drains_in_seconds, first.arriving_per_second), (None, 0.0), "unknown yet");
    for second in 1..5 {
        trends.judge(situation.clone(), sample(second));
    }
    let page = trends.judge(situation.clone(), sample(5));
    let queue = &page.situation.queue;
    assert_eq!((queue.arriving_per_second, queue.starting_per_second), (4.0, 2.0));
    assert_eq!(queue.drains_in_seconds, Some(10.0));
    let bands = &page.situation.bands;
    assert_eq!((bands[0].served_per_second, bands[3].refused_per_second), (3.0, 1.0));
    assert_eq!(page.situation.refusals[0].last_minute, 5);
    assert_eq!(page.situation.backends[0].failed_per_minute, 10.0);
    assert!(page.sentence.contains("20 requests wait, the last for about 10 s more"), "{page:?}");
}

#[test]
fn m03_the_worst_finding_comes_first_and_one_that_ends_is_forgotten() {
    let mut trends = Trends::default();
    let mut situation = with_second(lost("unready", "connection refused"));
    trends.judge(situation.clone(), at(0));
    situation.stores = vec![StoreTrouble::new("usage.file", "disk is full".into())];
    let page = trends.judge(situation.clone(), at(10));
    let found: Vec<_> = page.findings.iter().map(|one| (one.id, one.since_seconds)).collect();
    assert_eq!(found, [("disk_full", 0.0), ("backend_down", 10.0)]);
    assert!(page.sentence.starts_with("The disk is full"), "{}", page.sentence);
    trends.judge(well(), at(20));
    assert_eq!(trends.judge(situation, at(30)).findings[0].since_seconds, 0.0);
}
