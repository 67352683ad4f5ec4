//! Crashes: a process that uses a queue is killed at random points, many times. The test starts its
//! own binary as that process, which prints each acknowledgement that it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::{QUEUE, claim, message, now};
use crate::tests::sqlite::Folder;
use crate::{Outcome, Receipt, Release, SqliteStore, Store};

/// The environment variable with the round and the path of the queue.
const CHILD: &str = "TIDEGATE_KILLED_CHILD";
const ROUNDS: u64 = 25;

/// A seeded random number generator.
struct Dice(u64);

/// What the processes printed.
#[derive(Default)]
struct Said {
    submitted: BTreeSet<String>,
    ended: BTreeSet<String>,
    claims: usize,
    returned: usize,
}

#[tokio::test]
async fn d07_killed_processes_lose_nothing_and_keep_one_result_each() {
    let seed = std::env::var("STORE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    eprintln!("STORE_SEED={seed}");
    let (folder, mut dice, mut said) = (Folder::on_disk(), Dice(seed), Said::default());
    for round in 0..ROUNDS {
        let lines = 10 + dice.roll(400);
        run_and_kill(&folder, round, lines, dice.roll(300_000), &mut said);
        let store = SqliteStore::open(folder.file()).unwrap();
        check(&store, &said).await;
    }
    let store = SqliteStore::open(folder.file()).unwrap();
    work_off(&store).await;
    let results = results(&store).await;
    for id in &said.submitted {
        assert_eq!(results.get(id), Some(&1), "{id}");
    }
    assert!(results.values().all(|count| *count == 1), "{results:?}");
    let ended = said.ended.len();
    assert!(said.submitted.len() > 100 && ended > 50, "{ended} have ended: too little was done");
    // A message is claimed again after a release, and after a crash while it was claimed.
    let open = ROUNDS as usize * WORKERS * CLAIMS;
    assert!(said.claims <= results.len() + said.returned + open, "{} claims", said.claims);
}

/// Starts a process, kills it after some lines and a moment, and records all that it printed.
fn run_and_kill(folder: &Folder, round: u64, lines: u64, moment: u64, said: &mut Said) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "--test-threads=1"]);
    command.arg("sqlite::tests::crash::the_child_works_until_it_is_killed");
    command.env(CHILD, format!("{round}:{}", folder.file().display()));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = 0;
    for line in output.by_ref() {
        seen += u64::from(said.hear(&line.unwrap()));
        if seen >= lines {
            break;
        }
    }
    for _ in 0..moment {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    for line in output {
        said.hear(&line.unwrap());
    }
    child.wait().unwrap();
    assert!(seen >= lines, "the child ended by itself");
}

/// Checks that all acknowledged writes are there.
async fn check(store: &SqliteStore, said: &Said) {
    let known = |tx: &rusqlite::Transaction<'_>| {
        let mut sql = tx.prepare("SELECT id FROM messages")?;
        sql.query_map([], |row| row.get(0))?.collect::<Result<BTreeSet<String>, _>>()
    };
    let known = store.read(known).await.unwrap();
    let lost: Vec<_> = said.submitted.difference(&known).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let results = results(store).await;
    for id in &said.ended {
        assert_eq!(results.get(id), Some(&1), "{id} was acknowledged as ended");
    }
    assert!(results.values().all(|count| *count == 1), "{results:?}");
    assert_eq!(store.depth(QUEUE).await.unwrap().claimed, 0, "a restart ends all claims");
}

async fn results(store: &SqliteStore) -> BTreeMap<String, i64> {
    let count = |tx: &rusqlite::Transaction<'_>| {
        let mut sql = tx.prepare("SELECT id, count(*) FROM results GROUP BY id")?;
        sql.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()
    };
    store.read(count).await.unwrap()
}

async fn work_off(store: &SqliteStore) {
    let far = now().after(std::time::Duration::from_secs(1_000_000));
    loop {
        let reclaimed = store.reclaim(QUEUE, far).await.unwrap();
        let claims = claim(store, 200).await;
        if claims.is_empty() && reclaimed.due == 0 {
            return;
        }
        for claim in claims {
            assert!(store.complete(claim.reference, good(), now()).await.unwrap());
        }
    }
}

fn good() -> Outcome {
    Outcome::Answered { status: 200, body: "{}".into() }
}

// === impl Said ===

impl Said {
    /// Records one line; returns whether it was an acknowledgement.
    fn hear(&mut self, line: &str) -> bool {
        match line.split_once(' ') {
            Some(("submitted", id)) => self.submitted.insert(id.into()),
            Some(("ended", id)) => {
                assert!(self.ended.insert(id.into()), "{id} has ended twice");
                true
            }
            Some(("claimed", _)) => {
                self.claims += 1;
                true
            }
            Some(("returned", _)) => {
                self.returned += 1;
                true
            }
            _ => false,
        }
    }
}

// === impl Dice ===

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

const WORKERS: usize = 8;
const CLAIMS: usize = 3;

/// The process that the test above starts; otherwise it does nothing.
#[test]
fn the_child_works_until_it_is_killed() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (round, path) = told.split_once(':').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(path).unwrap();
        let work = |number| work(store.clone(), format!("{round}-{number}"));
        let workers: Vec<_> = (0..WORKERS).map(|number| tokio::spawn(work(number))).collect();
        for worker in workers {
            worker.await.unwrap();
        }
    });
}

/// Submits and completes messages for ever, and prints each acknowledgement.
async fn work(store: Arc<SqliteStore>, name: String) {
    let seed = RandomState::new().hash_one(&name);
    let mut dice = Dice(seed);
    for number in 0.. {
        let id = format!("{name}-{number}");
        let receipts = store.submit(vec![message(&id)], now()).await.unwrap();
        assert_eq!(receipts, [Receipt::Accepted]);
        say("submitted", &id);
        for claim in claim(&store, CLAIMS).await {
            let (held, id) = (claim.reference, claim.message.id);
            say("claimed", &id);
            let buried = claim.failures >= 3;
            let outcome = Outcome::failed(Outcome::FAILED, "x");
            match dice.roll(10) {
                _ if buried => assert!(store.dead_letter(held, outcome, now()).await.unwrap()),
                0..7 => assert!(store.complete(held, good(), now()).await.unwrap()),
                _ => {
                    let back = Release { due: now(), failed: dice.roll(2) == 0 };
                    assert!(store.release(held, back, now()).await.unwrap());
                    say("returned", &id);
                    continue;
                }
            }
            say("ended", &id);
        }
    }
}

fn say(what: &str, id: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{what} {id}").and_then(|()| output.flush()).unwrap();
}
