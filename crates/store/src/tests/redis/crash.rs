//! Dispatchers that are killed at any point, and several dispatchers on one queue.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::server::Redis;
use super::{connect, message, want};
use crate::{
    Body, Claim, Message, Moment, Outcome, RedisSettings, RedisStore, Release, Selection, Store,
};

/// The environment variables of the process that is killed.
const URL: &str = "TIDEGATE_CRASH_URL";
const ROUND: &str = "TIDEGATE_CRASH_ROUND";
const SEED: &str = "TIDEGATE_CRASH_SEED";

/// How often a process is killed.
const ROUNDS: u64 = 40;

const HOUR: Duration = Duration::from_secs(3600);

/// A seeded random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The time of a round. Rounds are hours apart, so that the leases of one have expired in the next.
fn moment(round: u64) -> Moment {
    Moment::from_secs(1_800_000_000 + round * HOUR.as_secs())
}

fn outcome() -> Outcome {
    Outcome::Answered { status: 200, body: "{}".into() }
}

/// The process that the test below starts and kills. It never ends by itself.
#[tokio::test]
async fn the_process_that_is_killed() {
    let told = |name: &str| std::env::var(name).ok();
    let (Some(url), Some(round), Some(seed)) = (told(URL), told(ROUND), told(SEED)) else { return };
    let (round, mut dice) = (round.parse().unwrap(), Dice(seed.parse().unwrap()));
    let settings = RedisSettings { urls: vec![url], ..RedisSettings::default() };
    let store = RedisStore::connect(settings).await.unwrap();
    let now = moment(round);
    for number in 0.. {
        let batch: Vec<Message> = (0..1 + dice.below(4))
            .map(|at| some_message(&format!("r{round}-{number}-{at}"), &mut dice, now))
            .collect();
        store.submit(batch.clone(), now).await.unwrap();
        for message in batch {
            writeln!(std::io::stdout(), "accepted {}", message.id).unwrap();
        }
        store.reclaim("q", now).await.unwrap();
        for claim in store.claim(want("q", "", 3, now), now).await.unwrap() {
            end_somehow(&store, claim, &mut dice, now).await;
        }
    }
}

/// A message, sometimes a large one.
fn some_message(id: &str, dice: &mut Dice, now: Moment) -> Message {
    let mut message = message(id, now);
    message.deadline = now.after(HOUR * 1000);
    if dice.below(8) == 0 {
        message.body = Body::Bytes(format!(r#"{{"prompt":"{}"}}"#, "x".repeat(70_000)).into());
    }
    message
}

/// Ends a claim in a random way, or not at all.
async fn end_somehow(store: &RedisStore, claim: Claim, dice: &mut Dice, now: Moment) {
    let due = now.after(Duration::from_secs(dice.below(2) * 10));
    let back = Release { due, failed: true };
    match dice.below(8) {
        0 => false,
        1 => store.dead_letter(claim.reference, outcome(), now).await.unwrap(),
        2 => store.release(claim.reference, back, now).await.unwrap(),
        _ => store.complete(claim.reference, outcome(), now).await.unwrap(),
    };
}

/// Starts a process, kills it after some lines of output and a moment, and returns the ids that it
/// reported as accepted.
fn killed(redis: &Redis, round: u64, dice: &mut Dice) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::redis::crash::the_process_that_is_killed", "--nocapture"])
        .env(URL, redis.url())
        .env(ROUND, round.to_string())
        .env(SEED, (dice.below(u64::MAX) | 1).to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said: Vec<String> =
        lines.by_ref().map_while(Result::ok).take(3 + dice.below(40) as usize).collect();
    // It works in a loop: the pause makes it die anywhere in the loop, not just after a line.
    std::thread::park_timeout(Duration::from_micros(dice.below(6000)));
    child.kill().unwrap();
    child.wait().unwrap();
    // The lines that it wrote before it died count, too.
    said.extend(lines.map_while(Result::ok));
    said.iter().filter_map(|line| line.strip_prefix("accepted ")).map(str::to_owned).collect()
}

#[tokio::test]
async fn d07_wherever_a_dispatcher_is_killed_every_accepted_message_has_one_result() {
    let redis = Redis::start();
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8) | 1);
    let mut dice = Dice(seed);
    let mut accepted = BTreeSet::new();
    for round in 0..ROUNDS {
        accepted.extend(killed(&redis, round, &mut dice));
    }
    assert!(accepted.len() as u64 > ROUNDS, "they have worked");

    let store = connect(&redis).await;
    let now = moment(ROUNDS);
    loop {
        let reclaimed = store.reclaim("q", now).await.unwrap();
        let claims = store.claim(want("q", "", 100, now), now).await.unwrap();
        if claims.is_empty() && reclaimed.next.is_none() {
            break;
        }
        for claim in claims {
            assert!(claim.message.body.length() > 0, "{SEED}={seed}: a body is gone");
            assert!(store.complete(claim.reference, outcome(), now).await.unwrap());
        }
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for text in redis.call(&["LRANGE", "result-list", "0", "-1"]).texts() {
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        *counts.entry(result["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let lost: Vec<_> = accepted.iter().filter(|id| !counts.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{SEED}={seed}: accepted and without a result: {lost:?}");
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{SEED}={seed}: kept twice: {twice:?}");
    store.purge_dead_letters("q", Selection::All).await.unwrap();
    let bodies = redis.call(&["KEYS", "request-payload:*"]).texts();
    // The body of a submission that was interrupted expires by itself.
    assert!(bodies.len() as u64 <= ROUNDS * 4, "{SEED}={seed}: bodies stay: {bodies:?}");
    let left = redis.call(&["KEYS", "q*"]).texts();
    assert_eq!(left, Vec::<String>::new(), "{SEED}={seed}");
}

#[tokio::test]
async fn d08_two_dispatchers_on_one_queue_never_complete_the_same_message() {
    let redis = Redis::start();
    let (producer, now) = (connect(&redis).await, moment(0));
    let messages: Vec<Message> =
        (0..300).map(|number| message(&format!("m{number:03}"), now)).collect();
    producer.submit(messages, now).await.unwrap();
    let dispatchers = [connect(&redis).await, connect(&redis).await];
    let tasks: Vec<_> = (0..4)
        .map(|number| tokio::spawn(work_off(dispatchers[number % 2].clone(), 1 + number * 3)))
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap());
    }
    let shares: Vec<usize> = all.iter().map(Vec::len).collect();
    let mut all: Vec<String> = all.into_iter().flatten().collect();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), shares.iter().sum::<usize>()), (300, 300), "{shares:?}");
    assert_eq!(producer.take_results("result-list", 1000).await.unwrap().len(), 300);
}

/// Claims and completes messages until none is pending, and returns their ids.
async fn work_off(store: Arc<RedisStore>, most: usize) -> Vec<String> {
    let (mut done, now) = (Vec::new(), moment(0));
    loop {
        let claims = store.claim(want("q", "", most, now), now).await.unwrap();
        if claims.is_empty() && store.depth("q").await.unwrap().pending == 0 {
            return done;
        }
        for claim in claims {
            done.push(claim.message.id);
            assert!(store.complete(claim.reference, outcome(), now).await.unwrap());
        }
    }
}
