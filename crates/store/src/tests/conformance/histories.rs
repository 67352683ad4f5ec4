//! Random histories of calls, compared with the reference after each call. They include calls with
//! lost claims and calls about unknown messages. In the end all messages are completed, and every
//! accepted message has exactly one result for each of its lives.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::reference::{Reference, State};
use super::{Fixture, LEASE, QUEUE, Trial, good};
use crate::{ClaimRef, Message, Outcome, Release, Selection, StoredResult};

const TENANTS: [&str; 3] = ["", "ann", "bob"];

/// One call. The number of a claim is taken modulo the number of claims.
#[derive(Clone, Debug)]
enum Op {
    Submit { slot: u8, tenant: u8, model: bool, hours: u8 },
    Claim { tenant: u8, most: usize },
    Renew(usize),
    Standing(usize),
    Complete(usize, bool),
    Release { claim: usize, delay: u64, failed: bool },
    DeadLetter(usize),
    Cancel(u8),
    Reclaim,
    Pass(u64),
    JumpBack(u64),
    Redrive,
    Purge(u8),
    Take(usize),
    Restart,
}

/// An engine, the reference, and the claims of the dispatchers.
struct Run<F: Fixture> {
    trial: Trial<F>,
    reference: Reference,
    claims: Vec<ClaimRef>,
    purged: BTreeSet<String>,
    taken: BTreeMap<String, usize>,
}

fn op() -> impl Strategy<Value = Op> {
    let claim = any::<usize>;
    prop_oneof![
        6 => (0..12_u8, 0..3_u8, prop::bool::weighted(0.1), 1..4_u8).prop_map(
            |(slot, tenant, model, hours)| Op::Submit { slot, tenant, model, hours }),
        6 => (0..3_u8, 0..4_usize).prop_map(|(tenant, most)| Op::Claim { tenant, most }),
        1 => claim().prop_map(Op::Renew),
        1 => claim().prop_map(Op::Standing),
        4 => (claim(), any::<bool>()).prop_map(|(claim, good)| Op::Complete(claim, good)),
        3 => (claim(), 0..90_u64, any::<bool>()).prop_map(
            |(claim, delay, failed)| Op::Release { claim, delay, failed }),
        2 => claim().prop_map(Op::DeadLetter),
        2 => (0..12_u8).prop_map(Op::Cancel),
        3 => Just(Op::Reclaim),
        3 => (1..90_u64).prop_map(Op::Pass),
        1 => (1..90_u64).prop_map(Op::JumpBack),
        1 => Just(Op::Redrive),
        1 => (0..12_u8).prop_map(Op::Purge),
        1 => (0..4_usize).prop_map(Op::Take),
        1 => Just(Op::Restart),
    ]
}

pub(crate) async fn d07_random_histories_agree_with_the_reference<F: Fixture>() {
    let seed = std::env::var("STORE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    let play = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config = Config {
            cases: 96,
            max_shrink_iters: 1000,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(seed),
            ..Config::default()
        };
        let history = prop::collection::vec(op(), 1..120);
        let outcome = TestRunner::new(config).run(&history, |history| {
            runtime.block_on(play::<F>(history));
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("STORE_SEED={seed}: {error}"));
    };
    tokio::task::spawn_blocking(play).await.unwrap();
}

async fn play<F: Fixture>(history: Vec<Op>) {
    let mut run = Run::<F> {
        trial: Trial::new().await,
        reference: Reference::default(),
        claims: Vec::new(),
        purged: BTreeSet::new(),
        taken: BTreeMap::new(),
    };
    for op in history {
        run = run.step(op).await;
        run.compare().await;
    }
    run.work_off().await;
}

fn id(slot: u8) -> String {
    format!("m{slot:02}")
}

/// The status or the error code of a result.
fn word(stored: &StoredResult) -> String {
    let status = stored.status.map(|status| status.to_string());
    status.or_else(|| stored.error.clone()).unwrap_or_default()
}

// === impl Run ===

impl<F: Fixture> Run<F> {
    async fn step(mut self, op: Op) -> Self {
        match op {
            Op::Submit { slot, tenant, model, hours } => {
                self.submit(&id(slot), tenant, model, hours).await;
            }
            Op::Claim { tenant, most } => self.claim(TENANTS[usize::from(tenant)], most).await,
            Op::Pass(secs) => self.trial.pass(Duration::from_secs(secs)),
            Op::JumpBack(secs) => {
                self.trial.now = crate::Moment::from_secs(self.trial.now.secs() - secs);
            }
            Op::Restart => {
                self.trial = self.trial.reopened().await;
                if F::OWNED {
                    self.reference.restart();
                }
            }
            Op::Reclaim => self.reclaim().await,
            Op::Cancel(slot) => self.cancel(&id(slot)).await,
            Op::Redrive => {
                let now = self.trial.now;
                let store = &self.trial.store;
                let redriven = store.redrive_dead_letters(QUEUE, Selection::All, now).await;
                assert_eq!(redriven.unwrap().requeued, self.reference.redrive_dead_letters(now));
            }
            Op::Purge(slot) => {
                let which = Selection::Ids(vec![id(slot)]);
                let count = self.trial.store.purge_dead_letters(QUEUE, which).await.unwrap();
                let purged = self.reference.purge_dead_letters(&id(slot));
                assert_eq!(count, u64::from(purged));
                if purged {
                    self.purged.insert(id(slot));
                }
            }
            Op::Take(most) => self.take(most).await,
            _ if self.claims.is_empty() => {}
            Op::Renew(claim) => self.standing(claim, true).await,
            Op::Standing(claim) => self.standing(claim, false).await,
            Op::Complete(claim, good) => self.complete(claim, good).await,
            Op::Release { claim, delay, failed } => self.release(claim, delay, failed).await,
            Op::DeadLetter(claim) => {
                let claim = claim % self.claims.len();
                let done = self.trial.dead_letter(&self.claims[claim]).await;
                assert_eq!(done, self.reference.dead_letter(claim, Outcome::FAILED));
            }
        }
        self
    }

    async fn submit(&mut self, id: &str, tenant: u8, model: bool, hours: u8) {
        // How long a receipt outlives a purge is not specified.
        if self.purged.contains(id) {
            return;
        }
        let known = self.reference.entries.get(id).map(|entry| entry.message.deadline);
        let deadline = self.trial.now.after(Duration::from_secs(3600 * u64::from(hours)));
        let message = Message {
            tenant: TENANTS[usize::from(tenant)].into(),
            model: if model { "n" } else { "m" }.into(),
            deadline: known.unwrap_or(deadline),
            ..self.trial.message(id)
        };
        // Redriving moves the deadline; whether that changes the content is not specified.
        if self.reference.entries.get(id).is_some_and(|entry| entry.lives > 1) {
            return;
        }
        let receipts = self.trial.submit(std::slice::from_ref(&message)).await;
        assert_eq!(receipts, [self.reference.submit(message)]);
    }

    async fn claim(&mut self, tenant: &str, most: usize) {
        let claims = self.trial.claim_of(QUEUE, tenant, most).await;
        let until = self.trial.now.after(LEASE);
        let expected = self.reference.claim(tenant, most, self.claims.len(), until);
        let seen: Vec<_> =
            claims.iter().map(|claim| (&claim.message, claim.failures, claim.cancelled)).collect();
        let known: Vec<_> = expected
            .iter()
            .map(|entry| (&entry.message, entry.failures, entry.cancelled))
            .collect();
        assert_eq!(seen, known);
        self.claims.extend(claims.into_iter().map(|claim| claim.reference));
    }

    async fn standing(&mut self, claim: usize, renew: bool) {
        let claim = claim % self.claims.len();
        let (held, until) = (vec![self.claims[claim].clone()], self.trial.now.after(LEASE));
        let store = &self.trial.store;
        let seen = if renew { store.renew(held, until) } else { store.standing(held) };
        let known = self.reference.standing(claim, renew.then_some(until));
        assert_eq!(seen.await.unwrap(), [known]);
    }

    async fn complete(&mut self, claim: usize, well: bool) {
        let claim = claim % self.claims.len();
        let bad = || Outcome::failed(Outcome::DEADLINE, "late");
        let (outcome, says) = if well { (good(), "200") } else { (bad(), Outcome::DEADLINE) };
        let held = self.claims[claim].clone();
        let done = self.trial.store.complete(held, outcome, self.trial.now).await.unwrap();
        assert_eq!(done, self.reference.complete(claim, says));
    }

    async fn release(&mut self, claim: usize, delay: u64, failed: bool) {
        let claim = claim % self.claims.len();
        // Whether a cancelled message waits until it is due is not specified.
        let delay = if self.reference.is_cancelled(claim) { 0 } else { delay };
        let delay = Duration::from_secs(delay);
        let done = self.trial.release(&self.claims[claim], delay, failed).await;
        let back = Release { due: self.trial.now.after(delay), failed };
        assert_eq!(done, self.reference.release(claim, back, self.trial.now));
    }

    async fn cancel(&mut self, id: &str) {
        let state = self.reference.entries.get(id).map(|entry| entry.state);
        // The same.
        if matches!(state, Some(State::Retry(_))) && !F::CANCELS_AT_ONCE {
            return;
        }
        let done = self.trial.cancel(id).await;
        assert_eq!(done, self.reference.cancel(id, F::CANCELS_AT_ONCE));
    }

    async fn reclaim(&mut self) {
        let reclaimed = self.trial.store.reclaim(QUEUE, self.trial.now).await.unwrap();
        assert_eq!((reclaimed.lost, reclaimed.due), self.reference.reclaim(self.trial.now));
    }

    async fn take(&mut self, most: usize) {
        let taken = self.trial.store.take_results(super::ROUTE, most).await.unwrap();
        let seen: Vec<_> = taken.iter().map(|stored| (stored.id.clone(), word(stored))).collect();
        let most = most.min(self.reference.results.len());
        assert_eq!(seen, self.reference.results.drain(..most).collect::<Vec<_>>());
        for (id, _) in seen {
            *self.taken.entry(id).or_default() += 1;
        }
    }

    /// Compares depth, lanes and dead letters with the reference.
    async fn compare(&self) {
        let store = &self.trial.store;
        assert_eq!(store.depth(QUEUE).await.unwrap(), self.reference.depth());
        let mut lanes = store.lanes(QUEUE, self.trial.now).await.unwrap();
        lanes.sort_by(|left, right| left.tenant.cmp(&right.tenant));
        assert_eq!(lanes, self.reference.lanes());
        let dead = store.list_dead_letters(QUEUE, None, 100).await.unwrap();
        let dead: Vec<_> = dead.into_iter().map(|dead| (dead.id, dead.failures)).collect();
        assert_eq!(dead, self.reference.dead());
    }

    /// Completes all messages.
    async fn work_off(&mut self) {
        self.trial.pass(LEASE * 10);
        self.reclaim().await;
        for tenant in TENANTS {
            let first = self.claims.len();
            self.claim(tenant, 100).await;
            for claim in first..self.claims.len() {
                self.complete(claim, true).await;
            }
        }
        self.take(1000).await;
        self.compare().await;
        for (id, entry) in &self.reference.entries {
            let count = self.taken.get(id).copied().unwrap_or_default();
            assert_eq!(count, entry.lives, "{id} has {count} results");
        }
    }
}
