//! The cost of a durable queue against bare writes: submitted, claimed and completed, each step
//! safe on disk before the next.
//!
//! The floor writes the bytes that a group of such messages has, and waits for the disk: three
//! times for each group, into a file that does not grow, and keeps no order, no leases, nothing
//! that could be read back. Both take turns, since disks are shared, too.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use store::{Body, ClaimRequest, Message, Moment, Outcome, Receipt, SqliteStore, Store as _};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::report::{Table, median};
use crate::runner::Bench;

const AT_ONCE: [usize; 3] = [1, 64, 256];
const ROUNDS: usize = 6;
const ROUND: f64 = 1.5;
/// At most so long for each message: 2000 a second.
const MICROS_MAX: f64 = 500.0;

const QUEUE: &str = "bench";
const BODY: usize = 2 << 10;
const ANSWER: usize = 512;
/// What a claim writes at least: who holds the message, and until when.
const CLAIM: usize = 64;
/// The floor's file; it begins again when it is full.
const FILE: usize = 16 << 20;
const NOW: Moment = Moment::from_secs(1_800_000_000);
const LEASE: Duration = Duration::from_secs(3600);

/// Submits, claims and completes one message after the other.
#[derive(Clone, Debug)]
struct Worker {
    store: Arc<SqliteStore>,
    name: usize,
    body: bytes::Bytes,
    over: Rc<Cell<bool>>,
    done: Rc<Cell<usize>>,
}

/// The bare writes.
#[derive(Debug)]
struct Floor {
    file: File,
    at: usize,
    bytes: Vec<u8>,
}

/// Messages per second of the store beside the floor.
pub(super) async fn measure(bench: &mut Bench) -> Result<Table> {
    let title = "The embedded queue: submit, claim, complete, each durable; 2 KiB";
    let columns = [("messages/s", 0), ("bare writes/s", 0), ("of that %", 0), ("µs each", 0)];
    let mut table = Table::new(title, &columns);
    for at_once in AT_ONCE {
        let store = SqliteStore::open(bench.fixture.file("db"))?;
        let mut floor = Floor::new(&bench.fixture.file("floor"), at_once)?;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for round in 0..bench.count(ROUNDS) {
            bare.push(floor.rate(at_once, bench.seconds(ROUND / 3.0))?);
            ours.push(rate(&store, (at_once, round), bench.seconds(ROUND)).await?);
        }
        let (ours, bare) = (median(&ours), median(&bare));
        table.push_all(format!("{at_once} at once"), [ours, bare, 100.0 * ours / bare, 1e6 / ours]);
        if at_once > 1 {
            let what = format!("µs for each message, {at_once} at once");
            table.target(what, MICROS_MAX, 1e6 / ours);
        }
    }
    Ok(table)
}

/// Messages per second of so many workers at once, whose names are of this round.
async fn rate(store: &Arc<SqliteStore>, round: (usize, usize), time: Duration) -> Result<f64> {
    let (at_once, round) = round;
    let (over, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let body = bytes::Bytes::from(vec![b'x'; BODY]);
    let mut workers = JoinSet::new();
    for at in 0..at_once {
        let worker = Worker {
            store: Arc::clone(store),
            name: round * at_once + at,
            body: body.clone(),
            over: Rc::clone(&over),
            done: Rc::clone(&done),
        };
        workers.spawn_local(worker.run());
    }
    let began = Instant::now();
    tokio::time::sleep(time).await;
    over.set(true);
    let rate = done.get() as f64 / began.elapsed().as_secs_f64();
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(rate)
}

// === impl Worker ===

impl Worker {
    async fn run(self) -> Result<()> {
        let mut number = 0;
        while !self.over.get() {
            self.one(number).await?;
            self.done.set(self.done.get() + 1);
            number += 1;
        }
        Ok(())
    }

    async fn one(&self, number: usize) -> Result<()> {
        let message = Message {
            id: format!("{}-{number}", self.name),
            queue: QUEUE.to_owned(),
            created: NOW,
            deadline: NOW.after(LEASE),
            body: Body::Bytes(self.body.clone()),
            ..Message::default()
        };
        if self.store.submit(vec![message], NOW).await? != [Receipt::Accepted] {
            bail!("a new message is known");
        }
        let want = ClaimRequest {
            queue: QUEUE.to_owned(),
            tenant: String::new(),
            limit: 1,
            until: NOW.after(LEASE),
        };
        let claimed = self.store.claim(want, NOW).await?;
        // Perhaps the message of another worker; as many wait as are about to claim.
        let claim = claimed.into_iter().next().context("nothing to claim")?;
        let outcome = Outcome::Answered { status: 200, body: self.body.slice(..ANSWER) };
        if !self.store.complete(claim.reference, outcome, NOW).await? {
            bail!("a claim was lost");
        }
        Ok(())
    }
}

// === impl Floor ===

impl Floor {
    fn new(path: &Path, at_once: usize) -> Result<Self> {
        let file = File::options().create(true).truncate(true).write(true).open(path)?;
        file.write_all_at(&vec![0; FILE], 0)?;
        file.sync_all()?;
        Ok(Self { file, at: 0, bytes: vec![b'x'; at_once * BODY] })
    }

    /// Messages per second, so many in a group.
    fn rate(&mut self, at_once: usize, time: Duration) -> Result<f64> {
        let (began, mut groups) = (Instant::now(), 0);
        while began.elapsed() < time {
            for size in [BODY, CLAIM, ANSWER] {
                self.write(at_once * size)?;
            }
            groups += 1;
        }
        Ok((groups * at_once) as f64 / began.elapsed().as_secs_f64())
    }

    fn write(&mut self, length: usize) -> Result<()> {
        if self.at + length > FILE {
            self.at = 0;
        }
        self.file.write_all_at(&self.bytes[..length], self.at as u64)?;
        self.at += length;
        Ok(self.file.sync_data()?)
    }
}
