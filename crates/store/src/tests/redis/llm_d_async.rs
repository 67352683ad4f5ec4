//! Interoperation with producers, workers and consumers of llm-d-async on the same Redis. A Python
//! program implements its format independently of this crate.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Redis, Reply};
use super::{connect, message, want};
use crate::{Body, Moment, Outcome, Receipt, Store};

/// Runs the Python program to its end, and returns the lines that it printed.
fn other_side(redis: &Redis, arguments: &[&str]) -> Vec<String> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/llm_d_producer.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(redis.port().to_string()).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("python3 cannot be started, run tools/setup.sh");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A time at which new messages of the Python program are neither expired nor due.
fn now(redis: &Redis) -> Moment {
    let time = redis.call(&["TIME"]).texts();
    Moment::from_secs(time[0].parse().unwrap())
}

#[tokio::test]
async fn d09_a_foreign_producer_is_served_and_gets_its_results() {
    served(&[]).await;
}

#[tokio::test]
async fn d09_a_foreign_producer_that_keeps_bodies_apart_is_served() {
    served(&["apart"]).await;
}

async fn served(apart: &[&str]) {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let tokens = other_side(&redis, &[&["submit", "q", "out", "6"], apart].concat());
    let now = now(&redis);
    let lanes = store.lanes("q", now).await.unwrap();
    let lanes: Vec<_> = lanes.iter().map(|lane| (lane.tenant.as_str(), lane.waiting)).collect();
    assert_eq!(lanes, [("user-0", 3), ("user-1", 3)]);
    let mut claims = store.claim(want("q", "user-1", 9, now), now).await.unwrap();
    claims.extend(store.claim(want("q", "user-0", 9, now), now).await.unwrap());
    for claim in claims {
        let Body::Bytes(body) = &claim.message.body else { panic!("{claim:?}") };
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["model"], "m");
        assert_eq!(claim.message.metadata["traceparent"], "00-1-2-01");
        assert_eq!(claim.message.headers["x-extra"], "1");
        assert_eq!(claim.message.endpoint, "/v1/completions");
        let body = json!({ "id": claim.message.id, "saw": body["prompt"] }).to_string();
        let outcome = Outcome::Answered { status: 200, body: body.into() };
        assert!(store.complete(claim.reference, outcome, now).await.unwrap());
    }
    let results = other_side(&redis, &["collect", "out", "6"]);
    for (place, number) in [1, 3, 5, 0, 2, 4].into_iter().enumerate() {
        let result: Value = serde_json::from_str(&results[place]).unwrap();
        let payload: Value = serde_json::from_str(result["payload"].as_str().unwrap()).unwrap();
        assert_eq!(result["id"], format!("q-{number}"));
        assert_eq!(result["status_code"], 200);
        assert_eq!(result["request_token"], tokens[number]);
        assert_eq!(payload["saw"], format!("request {number} <&> ☃"));
    }
    // The remaining keys are those of this engine, and expire by themselves.
    let left = redis.call(&["KEYS", "request-*"]).texts();
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(redis.call(&["EXISTS", "q:claimed", "q:claim-owners"]), Reply::Number(0));
}

#[tokio::test]
async fn d09_a_foreign_worker_completes_messages_of_this_engine() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let now = now(&redis);
    let small = message("small", now);
    let mut large = message("large", now);
    large.body = Body::Bytes(format!(r#"{{"prompt":"{}"}}"#, "x".repeat(100_000)).into());
    large.route = "elsewhere".into();
    let submitted = store.submit(vec![small, large], now).await.unwrap();
    assert_eq!(submitted, [Receipt::Accepted; 2]);
    assert_eq!(other_side(&redis, &["work", "q", "2"]), ["small", "large"]);
    let small = store.take_results("result-list", 9).await.unwrap();
    assert_eq!((small[0].id.as_str(), small[0].status), ("small", Some(200)));
    let large = store.take_results("elsewhere", 9).await.unwrap();
    let body: Value = serde_json::from_slice(&large[0].body).unwrap();
    assert_eq!(body["echo"]["prompt"].as_str().unwrap().len(), 100_000);
}

#[tokio::test]
async fn d07_messages_that_a_crashed_foreign_worker_held_are_reclaimed() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    other_side(&redis, &["submit", "q", "out", "3"]);
    assert_eq!(other_side(&redis, &["grab", "q", "2"]), ["q-0", "q-1"]);
    let now = now(&redis);
    assert_eq!(store.depth("q").await.unwrap().claimed, 2);
    let later = now.after(Duration::from_secs(60));
    assert_eq!(store.reclaim("q", later).await.unwrap().lost, 2);
    let mut ids = Vec::new();
    for tenant in ["user-0", "user-1"] {
        for claim in store.claim(want("q", tenant, 9, later), later).await.unwrap() {
            ids.push(claim.message.id);
            let outcome = Outcome::failed(Outcome::FAILED, "no");
            assert!(store.complete(claim.reference, outcome, later).await.unwrap());
        }
    }
    assert_eq!(ids, ["q-0", "q-2", "q-1"], "by their deadlines, as before");
    assert_eq!(other_side(&redis, &["collect", "out", "3"]).len(), 3);
}

#[tokio::test]
async fn a_cancellation_by_a_foreign_producer_counts() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    other_side(&redis, &["submit", "q", "out", "3"]);
    let now = now(&redis);
    let held = store.claim(want("q", "user-0", 1, now), now).await.unwrap().remove(0);
    for id in ["q-0", "q-1"] {
        assert_eq!(other_side(&redis, &["cancel", id]), ["cancelled"]);
    }
    let standing = store.standing(vec![held.reference]).await.unwrap();
    assert_eq!(standing, [crate::Standing::Cancelled]);
    assert!(store.claim(want("q", "user-1", 1, now), now).await.unwrap()[0].cancelled);
    assert!(!store.claim(want("q", "user-0", 1, now), now).await.unwrap()[0].cancelled);
    assert!(store.cancel("q-2", now).await.unwrap(), "and we can cancel theirs");
    let [wish, active] =
        ["request-cancel:q-2", "request-active:q-2"].map(|key| redis.call(&["GET", key]));
    assert_eq!(wish, active, "in the generation that is under way");
}

/// A worker of llm-d-async keeps its claim while the message is in the retry set.
#[tokio::test]
async fn a_message_that_a_foreign_worker_requeued_is_claimed_although_its_claim_remains() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let tokens = other_side(&redis, &["submit", "q", "out", "1"]);
    other_side(&redis, &["grab", "q", "1"]);
    let now = now(&redis);
    let claim = format!("q-0\0{}", tokens[0]);
    let member = redis.call(&["HGET", "q:claimed", &claim]).texts().remove(0);
    let retry = member.replacen("{\"internal\": {", "{\"internal\": {\"retry_count\": 3, ", 1);
    let due = now.secs().to_string();
    redis.call(&["ZADD", "retry-sortedset", &due, &retry]);
    assert_eq!(store.reclaim("q", Moment::from_secs(now.secs() - 10)).await.unwrap().due, 0);
    assert_eq!(store.reclaim("q", now).await.unwrap().due, 1);
    let ours = store.claim(want("q", "user-0", 9, now), now).await.unwrap().remove(0);
    assert_eq!(ours.failures, 3, "what others tried counts");
    let outcome = Outcome::failed(Outcome::FAILED, "no");
    assert!(store.complete(ours.reference, outcome, now).await.unwrap());
    let later = now.after(Duration::from_secs(3600));
    assert_eq!(store.reclaim("q", later).await.unwrap().lost, 0, "its claim is gone with ours");
}

/// Two producers that give no token may use one id at a time. Neither message may be lost.
#[tokio::test]
async fn two_messages_with_one_id_and_no_token_are_claimed_one_after_the_other() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let now = now(&redis);
    let deadline = now.secs() + 600;
    for prompt in ["first", "second"] {
        let data = json!({ "id": "same", "deadline": deadline, "payload": { "prompt": prompt } });
        let member = json!({ "internal": {}, "request_kind": "plain", "data": data });
        redis.call(&["ZADD", "q", &deadline.to_string(), &member.to_string()]);
    }
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let mut claims = store.claim(want("q", "", 9, now), now).await.unwrap();
        assert_eq!(claims.len(), 1, "{claims:?}");
        assert_eq!(store.claim(want("q", "", 9, now), now).await.unwrap(), []);
        let claim = claims.remove(0);
        bodies.push(claim.message.body);
        let outcome = Outcome::failed(Outcome::FAILED, "no");
        assert!(store.complete(claim.reference, outcome, now).await.unwrap());
    }
    let body = |prompt: &str| Body::Bytes(format!(r#"{{"prompt":"{prompt}"}}"#).into());
    assert_eq!(bodies, [body("first"), body("second")]);
    assert_eq!(store.take_results("result-list", 9).await.unwrap().len(), 2);
}
