//! The data in Redis, byte for byte, and which foreign data can be read.

use std::collections::BTreeMap;
use std::time::Duration;

use super::server::{Redis, Reply};
use super::{connect, message, settings, want};
use crate::{
    Body, Claim, Message, Moment, Outcome, RedisQueue, RedisSettings, RedisStore, Release,
    Selection, Store,
};

/// An hour before 1 764 045 130, the deadline of the example in the description of the format.
const NOW: Moment = Moment::from_secs(1_764_041_530);

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// The only member of a sorted set and its score.
fn member(redis: &Redis, set: &str) -> (String, f64) {
    let texts = redis.call(&["ZRANGE", set, "0", "-1", "WITHSCORES"]).texts();
    assert_eq!(texts.len(), 2, "{texts:?}");
    (texts[0].clone(), texts[1].parse().unwrap())
}

fn text(redis: &Redis, command: &[&str]) -> String {
    redis.call(command).texts().remove(0)
}

async fn claim(store: &RedisStore) -> Claim {
    let mut claims = store.claim(want("q", "", 9, NOW), NOW).await.unwrap();
    assert_eq!(claims.len(), 1, "{claims:?}");
    claims.remove(0)
}

#[tokio::test]
async fn d09_a_message_has_the_bytes_of_llm_d_async() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let full = Message {
        tenant: "ann".into(),
        endpoint: "/v1/chat/completions".into(),
        model: "llama".into(),
        metadata: BTreeMap::from([pair("traceparent", "00-a-b-01")]),
        headers: BTreeMap::from([pair("x-a", "1")]),
        route: "out".into(),
        body: Body::Bytes(r#"{ "model":"llama",  "n": 1.50 }"#.into()),
        ..message("req-1", NOW)
    };
    store.submit(vec![full], NOW).await.unwrap();
    let token = text(&redis, &["GET", "request-active:req-1"]);
    assert_eq!(token.len(), 32);
    let expected = r#"{"internal":{"request_token":"TOKEN","request_queue_name":"q","#.to_owned()
        + r#""result_queue_name":"out","enqueue_seq":1},"request_kind":"redis","#
        + r#""data":{"id":"req-1","created":1764041530,"deadline":1764045130,"#
        + r#""payload":{ "model":"llama",  "n": 1.50 },"#
        + r#""metadata":{"traceparent":"00-a-b-01","userid":"ann"},"headers":{"x-a":"1"},"#
        + r#""endpoint":"/v1/chat/completions","model":"llama","result_queue_name":"out"}}"#;
    let (found, score) = member(&redis, "q");
    assert_eq!(found, expected.replace("TOKEN", &token));
    assert_eq!(score, 1_764_045_130.0 + 1.0 / 2_097_152.0);
    assert_eq!(text(&redis, &["GET", "request-seq:q:1764045130"]), "1");
}

#[tokio::test]
async fn empty_fields_are_left_out_of_a_message() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let bare = Message { body: Body::Bytes("{}".into()), ..message("b", NOW) };
    store.submit(vec![bare], NOW).await.unwrap();
    let token = text(&redis, &["GET", "request-active:b"]);
    let expected = r#"{"internal":{"request_token":"TOKEN","request_queue_name":"q","#.to_owned()
        + r#""enqueue_seq":1},"request_kind":"plain","data":{"id":"b","created":1764041530,"#
        + r#""deadline":1764045130,"payload":{}}}"#;
    assert_eq!(member(&redis, "q").0, expected.replace("TOKEN", &token));
}

#[tokio::test]
async fn a_claim_has_the_keys_of_llm_d_async() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    store.submit(vec![message("a", NOW)], NOW).await.unwrap();
    let (member, _) = member(&redis, "q");
    let token = text(&redis, &["GET", "request-active:a"]);
    let claim = claim(&store).await;
    assert_eq!(claim.reference.token.len(), 16);
    let name = format!("a\0{token}");
    let pairs = |one: &str, other: &str| vec![one.to_owned(), other.to_owned()];
    assert_eq!(redis.call(&["HGETALL", "q:claimed"]).texts(), pairs(&name, &member));
    let owners = redis.call(&["HGETALL", "q:claim-owners"]).texts();
    assert_eq!(owners, pairs(&name, &claim.reference.token));
    let index = redis.call(&["ZRANGE", "q:claims-idx", "0", "-1", "WITHSCORES"]).texts();
    assert_eq!(index, pairs(&name, "1764041590"));
    assert_eq!(redis.call(&["EXISTS", "q"]), Reply::Number(0));
}

#[tokio::test]
async fn d09_a_result_has_the_bytes_of_llm_d_async() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let outcomes = [
        Outcome::Answered { status: 200, body: "{\"a\":\"é\\n\"}".into() },
        Outcome::failed(Outcome::DEADLINE, "it was \"late\""),
    ];
    let mut expected = Vec::new();
    for (outcome, rest) in outcomes.into_iter().zip([
        r#""status_code":200,"payload":"{\"a\":\"é\\n\"}","#,
        concat!(
            r#""payload":"{\"error\":\"it was \\\"late\\\"\"}","#,
            r#""error_code":"DEADLINE_EXCEEDED","error_message":"it was \"late\"","#,
        ),
    ]) {
        let id = format!("r{}", expected.len());
        store.submit(vec![message(&id, NOW)], NOW).await.unwrap();
        let token = text(&redis, &["GET", &format!("request-active:{id}")]);
        let claim = claim(&store).await;
        assert!(store.complete(claim.reference, outcome, NOW).await.unwrap());
        expected.push(format!(r#"{{"id":"{id}",{rest}"request_token":"{token}"}}"#));
    }
    expected.reverse();
    assert_eq!(redis.call(&["LRANGE", "result-list", "0", "-1"]).texts(), expected);
    assert_eq!(text(&redis, &["TTL", "result-list"]), "-1");
}

#[tokio::test]
async fn a_released_message_keeps_unknown_fields() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let foreign = r#"{"later":[1, 2],"internal":{"labels":{"tier":"batch"},"retry_count":2,"#
        .to_owned()
        + r#""enqueue_seq":7,"dispatch_attempt":5},"request_kind":"pubsub","#
        + r#""data":{"id":"x","deadline":1764045130,"payload":{"a": 1e3},"#
        + r#""pubsub_id":"p","new":0}}"#;
    redis.call(&["ZADD", "q", "1", &foreign]);
    let claim = claim(&store).await;
    assert_eq!((claim.failures, claim.message.body.length()), (2, 10));
    let due = NOW.after(Duration::from_millis(1500));
    assert!(store.release(claim.reference, Release { due, failed: true }, NOW).await.unwrap());
    let (found, score) = member(&redis, "retry-sortedset");
    let expected = foreign
        .replace(r#""retry_count":2"#, r#""retry_count":3"#)
        .replace(r#""internal":{"#, r#""internal":{"request_queue_name":"q","#);
    assert_eq!(found, expected);
    assert_eq!(score, 1_764_041_531.5);
    assert_eq!(store.reclaim("q", due).await.unwrap().due, 1);
    let (found, score) = member(&redis, "q");
    assert_eq!((found, score), (expected, 1_764_045_130.0 + 7.0 / 2_097_152.0), "its old place");
}

#[tokio::test]
async fn messages_of_older_producers_keep_their_places() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let foreign = r#"{"internal":{"request_queue_name":"q","enqueued_at_ms":1764041530000},"#
        .to_owned()
        + r#""request_kind":"plain","data":{"id":"x","deadline":1764045130,"payload":{}}}"#;
    redis.call(&["ZADD", "q", "1", &foreign]);
    let claim = claim(&store).await;
    assert!(
        store.release(claim.reference, Release { due: NOW, failed: false }, NOW).await.unwrap()
    );
    // An hour before the end of the range of 2^17 seconds.
    let place = f64::from((131_072 - 3600) * 16) / 2_097_152.0;
    assert_eq!(member(&redis, "q"), (foreign, 1_764_045_130.0 + place));
}

#[tokio::test]
async fn large_and_non_json_bodies_are_stored_apart_and_deleted_with_the_message() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let large = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(65_536));
    for (id, body) in [("large", large.as_str()), ("odd", "no\0 JSON"), ("spaced", " {}"), ("", "")]
    {
        let id = if id.is_empty() { "empty" } else { id };
        let body = Body::Bytes(body.to_owned().into());
        let message = Message { body, ..message(id, NOW) };
        store.submit(vec![message.clone()], NOW).await.unwrap();
        let token = text(&redis, &["GET", &format!("request-active:{id}")]);
        let key = format!("request-payload:{id}:{token}");
        let (found, _) = member(&redis, "q");
        assert!(found.contains(&format!(r#""payload_ref":"{key}""#)), "{found}");
        assert!(found.contains(r#""payload":null"#), "{found}");
        let life: u64 = text(&redis, &["TTL", &key]).parse().unwrap();
        assert!((4000..=4200).contains(&life), "an hour, and ten minutes: {life}");
        let claim = claim(&store).await;
        assert_eq!(claim.message, message);
        assert!(store.complete(claim.reference, Outcome::failed("X", ""), NOW).await.unwrap());
        assert_eq!(redis.call(&["EXISTS", &key]), Reply::Number(0));
    }
}

#[tokio::test]
async fn a_part_of_a_file_is_stored_in_redis() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let file = std::env::temp_dir().join(format!("tidegate-slice-{}", redis.port()));
    std::fs::write(&file, "before{\"a\":1}after").unwrap();
    let slice = |offset, length| Body::Slice { file: file.clone(), offset, length };
    let message = Message { body: slice(6, 7), ..message("a", NOW) };
    let beyond = Message { body: slice(6, 100), ..message.clone() };
    let error = store.submit(vec![beyond], NOW).await.unwrap_err();
    assert!(error.text.contains("tidegate-slice-"), "{error}");
    store.submit(vec![message], NOW).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(claim(&store).await.message.body, Body::Bytes(r#"{"a":1}"#.into()));
}

#[tokio::test]
async fn a_missing_body_is_reported_as_gone() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let body = Body::Bytes("no JSON".into());
    store.submit(vec![Message { body, ..message("a", NOW) }], NOW).await.unwrap();
    let token = text(&redis, &["GET", "request-active:a"]);
    assert_eq!(redis.call(&["DEL", &format!("request-payload:a:{token}")]), Reply::Number(1));
    let claim = claim(&store).await;
    assert_eq!(claim.message.body, Body::Gone);
    let outcome = Outcome::failed(Outcome::BODY_GONE, "gone");
    assert!(store.complete(claim.reference, outcome, NOW).await.unwrap());
}

/// A producer must not be able to read or delete other keys by means of a message.
#[tokio::test]
async fn a_message_cannot_name_a_key_that_is_no_body() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    redis.call(&["SET", "secret", "treasure"]);
    let foreign = r#"{"internal":{"payload_ref":"secret"},"request_kind":"plain","#.to_owned()
        + r#""data":{"id":"x","deadline":1764045130}}"#;
    redis.call(&["ZADD", "q", "1", &foreign]);
    let claim = claim(&store).await;
    assert_eq!(claim.message.body, Body::Gone);
    assert!(store.complete(claim.reference, Outcome::failed("X", ""), NOW).await.unwrap());
    assert_eq!(text(&redis, &["GET", "secret"]), "treasure");
}

#[tokio::test]
async fn d07_an_unreadable_message_becomes_a_dead_letter_unchanged() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let spoilt = [
        ("not JSON", "expected"),
        (r#"{"id":"bare","deadline":1764045130,"payload":{}}"#, "\"request_kind\": \"plain\""),
        (r#"{"data":{"id":"a"}}"#, "no request_kind"),
        (r#"{"request_kind":"alien","data":{"id":"a"}}"#, "\"alien\" is not known"),
        (r#"{"request_kind":"plain"}"#, "no data"),
        (r#"{"request_kind":"plain","data":{"deadline":1}}"#, "no id"),
        (r#"{"request_kind":"plain","data":{"id":"a","deadline":"soon"}}"#, "its data"),
        (r#"{"internal":5,"request_kind":"plain","data":{"id":"a"}}"#, "its internal"),
    ];
    for (score, (member, _)) in spoilt.iter().enumerate() {
        redis.call(&["ZADD", "q", &score.to_string(), member]);
    }
    store.submit(vec![message("good", NOW)], NOW).await.unwrap();
    assert_eq!(store.lanes("q", NOW).await.unwrap()[0].waiting, 1);
    let dead = store.list_dead_letters("q", None, 100).await.unwrap();
    assert_eq!(dead.len(), spoilt.len());
    for (dead, (member, why)) in dead.iter().zip(spoilt) {
        assert!(dead.why.contains(why), "{dead:?}");
        assert!(dead.why.contains(&format!("it begins with {member:?}")), "{dead:?}");
        assert_eq!((dead.at, dead.failures), (NOW, 0));
        assert_eq!(text(&redis, &["HGET", "{q}:dead-members", &dead.number.to_string()]), member);
    }
    assert_eq!(dead[1].id, "bare", "its producer knows it by that");
    let redriven =
        store.redrive_dead_letters("q", Selection::Ids(vec!["bare".into()]), NOW).await.unwrap();
    assert_eq!((redriven.requeued, redriven.skipped), (0, 1), "it would be back at once");
    let [(id, why)] = redriven.reasons.as_slice() else { panic!("{redriven:?}") };
    assert!(id == "bare" && why.contains("cannot be read"), "{why}");
    assert_eq!(store.purge_dead_letters("q", Selection::All).await.unwrap(), spoilt.len() as u64);
    assert_eq!(redis.call(&["KEYS", "{q}:dead*"]).texts(), ["{q}:dead-count"]);
    assert_eq!(claim(&store).await.message.id, "good");
}

#[tokio::test]
async fn results_go_by_queue_then_message_then_default_and_expire_if_configured() {
    let redis = Redis::start();
    let queue = RedisQueue {
        name: "own".into(),
        results: Some("own-results".into()),
        results_ttl: Some(Duration::from_secs(100)),
    };
    let settings = RedisSettings {
        results: "all".into(),
        queues: vec![queue, RedisQueue { name: "q".into(), ..RedisQueue::default() }],
        ..settings(&[&redis])
    };
    let store = RedisStore::connect(settings).await.unwrap();
    let cases = [("own", "mine", "own-results"), ("q", "mine", "mine"), ("q", "", "all")];
    for (number, (queue, route, list)) in cases.into_iter().enumerate() {
        let id = format!("m{number}");
        let message = message(&id, NOW);
        let message = Message { queue: queue.into(), route: route.into(), ..message };
        store.submit(vec![message], NOW).await.unwrap();
        let claim = store.claim(want(queue, "", 1, NOW), NOW).await.unwrap().remove(0);
        assert!(store.complete(claim.reference, Outcome::failed("X", ""), NOW).await.unwrap());
        assert_eq!(store.take_results(list, 9).await.unwrap()[0].id, id);
    }
    let fixed = r#"{"internal":{"result_queue_name":"fixed","result_routing_resolved":true,"#
        .to_owned()
        + r#""result_ttl_seconds":50},"request_kind":"plain","data":{"id":"f","deadline":9}}"#;
    redis.call(&["ZADD", "own", "1", &fixed]);
    let claim = store.claim(want("own", "", 1, NOW), NOW).await.unwrap().remove(0);
    assert!(store.complete(claim.reference, Outcome::failed("X", ""), NOW).await.unwrap());
    let life: u64 = text(&redis, &["TTL", "fixed"]).parse().unwrap();
    assert!((1..=50).contains(&life), "what another has settled stays: {life}");
}

#[tokio::test]
async fn the_body_of_a_dead_letter_stays_until_it_is_purged_or_completed() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let body = Body::Bytes("no JSON".into());
    let messages = ["a", "b"].map(|id| Message { body: body.clone(), ..message(id, NOW) });
    store.submit(messages.to_vec(), NOW).await.unwrap();
    let bodies = || redis.call(&["KEYS", "request-payload:*"]).texts();
    let keys = bodies();
    for claim in store.claim(want("q", "", 9, NOW), NOW).await.unwrap() {
        let outcome = Outcome::failed(Outcome::FAILED, "no");
        assert!(store.dead_letter(claim.reference, outcome, NOW).await.unwrap());
    }
    assert_eq!(keys.len(), 2);
    for key in &keys {
        assert_eq!(text(&redis, &["TTL", key]), "-1", "the dead wait for a person");
    }
    let known = store.submit(messages.to_vec(), NOW).await.unwrap();
    assert_eq!(known, [crate::Receipt::Duplicate; 2]);
    assert!(
        !store.cancel("a", NOW).await.unwrap(),
        "it stays a dead letter when it is submitted again"
    );
    assert_eq!(
        store
            .redrive_dead_letters("q", Selection::Ids(vec!["a".into()]), NOW)
            .await
            .unwrap()
            .requeued,
        1
    );
    let again = claim(&store).await;
    assert_eq!(again.message.body, body);
    assert!(store.complete(again.reference, Outcome::failed("X", ""), NOW).await.unwrap());
    assert_eq!(bodies().len(), 1);
    assert_eq!(store.purge_dead_letters("q", Selection::All).await.unwrap(), 1);
    assert_eq!(bodies(), Vec::<String>::new());
}
