//! Servers that are down, that refuse, or whose keys have other types; and lost replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};

use super::server::{Redis, Reply};
use super::{connect, message, settings, want};
use crate::{
    Depth, ErrorKind, Message, Outcome, Receipt, RedisSettings, RedisStore, Release, Standing,
    Store, StoreError,
};

const NOW: crate::Moment = crate::Moment::from_secs(1_800_000_000);
/// To be sent again a second later.
const LATER: Release = Release { due: crate::Moment::from_secs(1_800_000_001), failed: true };

async fn refused(settings: RedisSettings) -> StoreError {
    RedisStore::connect(settings).await.expect_err("it cannot work")
}

#[tokio::test]
async fn a_server_that_is_down_is_unavailable() {
    let redis = Redis::start();
    let settings = settings(&[&redis]);
    drop(redis);
    let url = settings.urls[0].clone();
    let error = refused(settings).await;
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(error.text.contains(&url) && error.text.contains("refused"), "{error}");
}

#[tokio::test]
async fn an_invalid_address_is_refused() {
    for urls in [vec![], vec!["http://x".to_owned()], vec!["https://x".to_owned()]] {
        let error = refused(RedisSettings { urls: urls.clone(), ..RedisSettings::default() }).await;
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(urls.iter().all(|url| error.text.contains(url)), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_reported_and_never_shown() {
    let redis = Redis::start_with(&["--requirepass", "right"]);
    for user in ["", ":wrong@", "somebody:wrong@"] {
        let url = format!("redis://{user}127.0.0.1:{}", redis.port());
        let settings = RedisSettings { urls: vec![url], ..RedisSettings::default() };
        let shown = format!("{settings:?}");
        let error = refused(settings).await;
        assert_eq!(error.kind, ErrorKind::Broken, "{error}");
        assert!(error.text.contains("password"), "{error}");
        assert!(!error.text.contains("wrong@") && !shown.contains("wrong"), "{error} {shown}");
    }
    let url = format!("redis://:right@127.0.0.1:{}", redis.port());
    let settings = RedisSettings { urls: vec![url], ..RedisSettings::default() };
    let store = RedisStore::connect(settings).await.unwrap();
    assert!(!format!("{store:?}").contains("right"), "{store:?}");
    let submitted = store.submit(vec![message("a", NOW)], NOW).await.unwrap();
    assert_eq!(submitted, [Receipt::Accepted]);
}

#[tokio::test]
async fn d08_the_check_of_a_queue_names_the_key_and_its_types() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    store.submit(vec![message("a", NOW), message("b", NOW)], NOW).await.unwrap();
    // A message in each state, so that all keys have their own types.
    let claims = store.claim(want("q", "", 2, NOW), NOW).await.unwrap();
    let [one, two] = claims.try_into().unwrap();
    store.dead_letter(one.reference, Outcome::failed(Outcome::FAILED, "no"), NOW).await.unwrap();
    assert_eq!(store.check_queue("q").await.unwrap(), None);
    store.release(two.reference, LATER, NOW).await.unwrap();
    assert_eq!(store.check_queue("q").await.unwrap(), None);
    assert_eq!(store.check_queue("empty").await.unwrap(), None);
    let keys = ["q", "q:claimed", "q:claim-owners", "q:claims-idx", "{q}:deliveries"];
    let others = ["{q}:dead", "{q}:dead-reasons", "{q}:dead-members", "{q}:dead-count"];
    for key in keys.into_iter().chain(others).chain(["retry-sortedset", "result-list"]) {
        redis.call(&["FLUSHALL"]);
        redis.call(&["SADD", key, "mine"]);
        let found = match key {
            "retry-sortedset" => store.check_retries("q").await.unwrap().unwrap_or_default(),
            _ => store.check_queue("q").await.unwrap().unwrap_or_default(),
        };
        assert!(found.starts_with(&format!("the key {key:?} is a set and must be a ")), "{found}");
        assert!(found.contains(&format!("RENAME {key} {key}.old")), "{found}");
    }
}

/// Messages of another queue that nobody serves are taken along, unless its key is unusable.
#[tokio::test]
async fn d08_a_bad_key_of_one_queue_does_not_stop_the_retries_of_another() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let of = |queue: &str, id: &str| Message { queue: queue.into(), ..message(id, NOW) };
    store.submit(vec![of("q", "a"), of("bad", "b")], NOW).await.unwrap();
    for queue in ["q", "bad"] {
        let claim = store.claim(want(queue, "", 1, NOW), NOW).await.unwrap().remove(0);
        store.release(claim.reference, LATER, NOW).await.unwrap();
    }
    redis.call(&["SET", "bad", "mine"]);
    let later = NOW.after(Duration::from_secs(1000));
    assert_eq!(store.reclaim("q", later).await.unwrap().due, 1);
    assert_eq!(store.claim(want("q", "", 9, later), later).await.unwrap().len(), 1);
    redis.call(&["DEL", "bad"]);
    store.reclaim("q", later).await.unwrap();
    assert_eq!(store.depth("bad").await.unwrap().pending, 1, "it was kept");
}

/// A released message then waits in its claim, with the number of its failures.
#[tokio::test]
async fn d08_a_queue_does_without_the_set_of_retries() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    redis.call(&["SET", "retry-sortedset", "mine"]);
    store.submit(vec![message("a", NOW)], NOW).await.unwrap();
    let mut now = NOW;
    for (failed, failures) in [(true, 0), (false, 1), (true, 1)] {
        let claim = store.claim(want("q", "", 9, now), now).await.unwrap().remove(0);
        assert_eq!(claim.failures, failures);
        let due = now.after(Duration::from_secs(7));
        let release = Release { due, failed };
        assert!(store.release(claim.reference.clone(), release, now).await.unwrap());
        let outcome = Outcome::failed(Outcome::FAILED, "late");
        assert!(!store.complete(claim.reference, outcome, now).await.unwrap(), "it is released");
        let reclaimed = store.reclaim("q", now).await.unwrap();
        assert_eq!((reclaimed.lost, reclaimed.next), (0, Some(due)));
        let depth = store.depth("q").await.unwrap();
        assert_eq!((depth.pending, depth.claimed), (0, 1));
        now = due;
        assert_eq!(store.reclaim("q", now).await.unwrap().lost, 1);
    }
    let claim = store.claim(want("q", "", 9, now), now).await.unwrap().remove(0);
    assert_eq!(claim.failures, 2);
    redis.call(&["LPUSH", "request-cancel:a", "x"]);
    let due = now.after(Duration::from_secs(7));
    let release = Release { due, failed: true };
    let standings = store.standing(vec![claim.reference.clone()]).await.unwrap();
    assert_eq!(standings, [Standing::Held], "whatever the key of the cancellation is");
    assert!(store.release(claim.reference, release, now).await.unwrap());
}

#[tokio::test]
async fn a_key_of_another_type_is_reported_and_nothing_is_lost() {
    let keys =
        ["q:claimed", "q:claim-owners", "q:claims-idx", "{q}:deliveries", "result-list", "q"];
    for key in keys {
        let redis = Redis::start();
        let store = connect(&redis).await;
        store.submit(vec![message("a", NOW), message("b", NOW)], NOW).await.unwrap();
        let before = redis.call(&["DUMP", "q"]);
        redis.call(&["RENAME", "q", "saved"]);
        redis.call(&["SET", key, "mine"]);
        if key != "q" {
            redis.call(&["RENAME", "saved", "q"]);
        }
        let outcome = || Outcome::failed(Outcome::FAILED, "no");
        let tried = async {
            let claim = store.claim(want("q", "", 1, NOW), NOW).await?.remove(0);
            store.complete(claim.reference, outcome(), NOW).await
        };
        let error = tried.await.expect_err(key);
        assert_eq!(error.kind, ErrorKind::Broken, "{key}: {error}");
        assert!(error.text.contains("has another type"), "{key}: {error}");
        redis.call(&["DEL", key]);
        if key == "q" {
            redis.call(&["RENAME", "saved", "q"]);
            assert_eq!(redis.call(&["DUMP", "q"]), before);
        }
        // The message whose claim failed halfway is reclaimed when its lease has expired.
        let later = NOW.after(Duration::from_secs(100));
        store.reclaim("q", later).await.unwrap();
        let mut ids = Vec::new();
        for claim in store.claim(want("q", "", 9, later), later).await.unwrap() {
            assert!(store.complete(claim.reference, outcome(), later).await.unwrap(), "{key}");
            ids.push(claim.message.id);
        }
        assert_eq!(ids, ["a", "b"], "{key}");
        assert_eq!(store.take_results("result-list", 9).await.unwrap().len(), 2, "{key}");
    }
}

#[tokio::test]
async fn a_full_server_recovers_when_it_has_room() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    store.submit(vec![message("a", NOW)], NOW).await.unwrap();
    redis.call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis.call(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = store.submit(vec![message("b", NOW)], NOW).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Full, "{error}");
    redis.call(&["CONFIG", "SET", "maxmemory", "0"]);
    let submitted = store.submit(vec![message("a", NOW), message("b", NOW)], NOW).await.unwrap();
    assert_eq!(submitted, [Receipt::Duplicate, Receipt::Accepted]);
}

#[tokio::test]
async fn a_server_that_starts_later_is_used() {
    let mut redis = Redis::start();
    redis.kill();
    let store = RedisStore::new(settings(&[&redis])).unwrap();
    let error = store.check_server().await.expect_err("no server is up");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    redis.restart();
    let submitted = store.submit(vec![message("a", NOW)], NOW).await.unwrap();
    assert_eq!(submitted, [Receipt::Accepted]);
}

#[tokio::test]
async fn settings_that_may_lose_messages_cause_warnings() {
    let redis = Redis::start();
    let cautions = connect(&redis).await.check_server().await.unwrap();
    assert_eq!(cautions, Vec::<String>::new());
    redis.call(&["CONFIG", "SET", "appendonly", "no"]);
    redis.call(&["CONFIG", "SET", "maxmemory", "1gb"]);
    redis.call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let cautions = connect(&redis).await.check_server().await.unwrap();
    let [log, memory] = cautions.as_slice() else { panic!("{cautions:?}") };
    assert!(log.contains("appendonly") && memory.contains("allkeys-lru"), "{log} {memory}");
}

#[tokio::test]
async fn a_server_that_forgot_the_scripts_is_taught_them() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    for id in ["a", "b"] {
        redis.call(&["SCRIPT", "FLUSH"]);
        let submitted = store.submit(vec![message(id, NOW)], NOW).await.unwrap();
        assert_eq!(submitted, [Receipt::Accepted]);
        redis.call(&["SCRIPT", "FLUSH"]);
        let claim = store.claim(want("q", "", 1, NOW), NOW).await.unwrap().remove(0);
        redis.call(&["SCRIPT", "FLUSH"]);
        let outcome = Outcome::failed(Outcome::FAILED, "no");
        assert!(store.complete(claim.reference, outcome, NOW).await.unwrap());
    }
}

/// A proxy between a store and its server that drops a reply on demand.
struct Lossy {
    port: u16,
    /// How many replies pass before one is dropped; below zero none is.
    left: Arc<AtomicI64>,
}

impl Lossy {
    async fn new(redis: &Redis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, server) = (listener.local_addr().unwrap().port(), redis.port());
        let left = Arc::new(AtomicI64::new(-1));
        let counter = Arc::clone(&left);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Self::pass(client, server, Arc::clone(&counter)));
            }
        });
        Self { port, left }
    }

    async fn pass(client: TcpStream, server: u16, left: Arc<AtomicI64>) {
        let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let upwards = tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
        let mut buffer = vec![0; 1 << 20];
        while let Ok(count) = from_server.read(&mut buffer).await {
            if count == 0 || left.fetch_sub(1, Ordering::SeqCst) == 0 {
                break;
            }
            to_client.write_all(&buffer[..count]).await.unwrap();
        }
        upwards.abort();
    }

    /// Lets this many replies pass, and drops the next.
    fn swallow(&self, after: i64) {
        self.left.store(after, Ordering::SeqCst);
    }

    fn swallowed(&self) -> bool {
        self.left.swap(-1, Ordering::SeqCst) < 0
    }
}

/// When any reply of any verb is lost, the verb still takes effect once, and its caller learns so.
#[tokio::test]
async fn d07_a_verb_whose_reply_was_lost_runs_once() {
    let redis = Redis::start();
    let lossy = Lossy::new(&redis).await;
    let url = format!("redis://127.0.0.1:{}", lossy.port);
    let settings = RedisSettings { urls: vec![url], ..RedisSettings::default() };
    let store = RedisStore::connect(settings).await.unwrap();
    let outcome = || Outcome::failed(Outcome::FAILED, "no");
    let mut lost = [0; 7];
    for after in 0..5 {
        let count = |verb: usize, lost: &mut [usize; 7]| {
            lost[verb] += usize::from(lossy.swallowed());
            lossy.swallow(after);
        };
        lossy.swallow(after);
        let submitted = store.submit(vec![message("a", NOW), message("b", NOW)], NOW).await;
        count(0, &mut lost);
        assert_eq!(submitted.unwrap(), [Receipt::Accepted; 2], "after {after} answers");
        let claims = store.claim(want("q", "", 9, NOW), NOW).await.unwrap();
        count(1, &mut lost);
        let [a, b] = &claims[..] else { panic!("after {after} answers: {claims:?}") };
        assert_eq!((a.failures, b.failures), (0, 0));
        let held = vec![a.reference.clone(), b.reference.clone()];
        let standing = store.renew(held, NOW.after(Duration::from_secs(60))).await.unwrap();
        count(2, &mut lost);
        assert_eq!(standing, [Standing::Held; 2]);
        assert!(store.complete(a.reference.clone(), outcome(), NOW).await.unwrap());
        count(3, &mut lost);
        let back = Release { due: NOW, failed: true };
        assert!(store.release(b.reference.clone(), back, NOW).await.unwrap());
        count(4, &mut lost);
        let again = store.claim(want("q", "", 9, NOW), NOW).await.unwrap().remove(0);
        lossy.swallow(after);
        assert_eq!(again.failures, 1);
        assert!(store.dead_letter(again.reference, outcome(), NOW).await.unwrap());
        count(5, &mut lost);
        let results = store.take_results("result-list", 9).await.unwrap();
        count(6, &mut lost);
        let ids: Vec<_> = results.iter().map(|result| result.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"], "after {after} answers");
        lossy.swallow(-1);
        assert_eq!(store.depth("q").await.unwrap(), Depth { dead: 1, ..Depth::default() });
        assert_eq!(store.list_dead_letters("q", None, 9).await.unwrap()[0].failures, 2);
        assert_eq!(redis.call(&["FLUSHALL"]), Reply::Text("OK".into()));
    }
    assert!(lost.iter().all(|lost| *lost > 0), "an answer of every verb was lost: {lost:?}");
}

#[tokio::test]
async fn unusable_keys_of_one_message_do_not_affect_the_others() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let messages = ["poison", "good"].map(|id| message(id, NOW));
    store.submit(messages.to_vec(), NOW).await.unwrap();
    redis.call(&["LPUSH", "request-cancel:poison", "x"]);
    let claims = store.claim(want("q", "", 9, NOW), NOW).await.unwrap();
    let ids: Vec<&str> = claims.iter().map(|claim| claim.message.id.as_str()).collect();
    assert_eq!(ids, ["poison", "good"]);
    assert!(claims.iter().all(|claim| !claim.cancelled));
}

/// A list of results in the place of a queue would end the queue. A producer writes the name.
#[tokio::test]
async fn x03_results_that_a_message_sends_to_the_keys_of_a_queue_ruin_no_queue() {
    let of_queue = ["q", "q:claimed", "q:claim-owners", "{q}:dead", "retry-sortedset"];
    for name in of_queue.into_iter().chain(["request-active:next"]) {
        let redis = Redis::start();
        let store = connect(&redis).await;
        let first = Message { route: name.into(), ..message("first", NOW) };
        store.submit(vec![first], NOW).await.unwrap();
        let settled = format!(
            "{{\"internal\":{{\"result_queue_name\":{name:?},\"result_routing_resolved\":true}},\
             \"request_kind\":\"plain\",\"data\":{{\"id\":\"settled\",\"deadline\":9}}}}"
        );
        redis.call(&["ZADD", "q", "1", &settled]);
        let outcome = || Outcome::failed(Outcome::FAILED, "no");
        for claim in store.claim(want("q", "", 9, NOW), NOW).await.unwrap() {
            assert!(store.complete(claim.reference, outcome(), NOW).await.unwrap(), "{name}");
        }
        store.submit(vec![message("next", NOW)], NOW).await.unwrap();
        let next = store.claim(want("q", "", 9, NOW), NOW).await.unwrap().remove(0);
        assert!(store.complete(next.reference, outcome(), NOW).await.unwrap(), "{name}");
        let kept = store.take_results("result-list", 9).await.unwrap();
        assert_eq!(kept.len(), 3, "{name}: {kept:?}");
    }
}

#[tokio::test]
async fn an_unusable_result_list_is_replaced_by_that_of_the_queue() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    redis.call(&["SET", "taken", "x"]);
    let messages = ["ends", "dies"].map(|id| {
        let mut message = message(id, NOW);
        message.route = "taken".into();
        message
    });
    store.submit(messages.to_vec(), NOW).await.unwrap();
    let mut claims = store.claim(want("q", "", 2, NOW), NOW).await.unwrap().into_iter();
    let (ends, dies) = (claims.next().unwrap(), claims.next().unwrap());
    let outcome = || Outcome::failed(Outcome::FAILED, "no");
    assert!(store.complete(ends.reference, outcome(), NOW).await.unwrap());
    assert!(store.dead_letter(dies.reference, outcome(), NOW).await.unwrap());
    let kept = store.take_results("result-list", 9).await.unwrap();
    let ids: Vec<&str> = kept.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, ["ends", "dies"]);
    assert_eq!(
        store.list_dead_letters("q", None, 9).await.unwrap().len(),
        1,
        "it became a dead letter once"
    );
}
