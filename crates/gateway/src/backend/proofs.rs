//! What a backend has done for others than a request that it failed: its responses and failures by
//! model, and its last responses by caller.
//!
//! An engine may fail all requests for one model and answer those for another, and the requests of
//! one caller may fail wherever they go. Requests update this without a lock. Models whose numbers
//! are equal modulo [`MODELS`] share an entry: a proof for one then counts for the other, and ends
//! the wait of a request early.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use flow::{ModelId, Time};

use super::BegunRequest;

const MODELS: usize = 32;

/// Who sends requests: the hash of a tenant's name, or of a flow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallerHash(pub(crate) u64);

#[derive(Debug, Default)]
pub(super) struct Proofs {
    models: [ModelProof; MODELS],
    /// The caller of the last response, when it began, and when the last one to anybody else did.
    caller: AtomicU64,
    caller_at: AtomicU64,
    others_at: AtomicU64,
}

#[derive(Debug, Default)]
struct ModelProof {
    /// When the request was sent that was answered last.
    answered: AtomicU64,
    /// The requests that have failed since.
    failures: AtomicU32,
}

// === impl Proofs ===

impl Proofs {
    pub(super) fn answered(&self, request: BegunRequest) {
        let proof = self.of(request.model);
        proof.answered.store(request.sent.nanos(), Ordering::Relaxed);
        if proof.failures.load(Ordering::Relaxed) > 0 {
            proof.failures.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn failed(&self, model: ModelId) {
        self.of(model).failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back a failure of which the request was the cause.
    pub(super) fn forgive(&self, model: ModelId) {
        let less = |failures: u32| failures.checked_sub(1);
        let failures = &self.of(model).failures;
        // None is left if another request was answered meanwhile.
        let _ = failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Whether it has answered a request for this model that was sent after this moment. Of two
    /// answers at the same time the earlier request may count; there will be others.
    pub(super) fn has_answered_since(&self, model: ModelId, moment: Time) -> bool {
        self.of(model).answered.load(Ordering::Relaxed) > moment.nanos()
    }

    /// Whether more requests for this model than `own` have failed since the last answer to one.
    pub(super) fn fails_others(&self, model: ModelId, own: u32) -> bool {
        self.of(model).failures.load(Ordering::Relaxed) > own
    }

    /// Records that a response to a caller began. Concurrent updates may lose one of them, after
    /// which there will be others.
    pub(super) fn served(&self, CallerHash(caller): CallerHash, at: Time) {
        if self.caller.load(Ordering::Relaxed) != caller {
            let before = self.caller_at.load(Ordering::Relaxed);
            self.others_at.store(before, Ordering::Relaxed);
            self.caller.store(caller, Ordering::Relaxed);
        }
        self.caller_at.store(at.nanos(), Ordering::Relaxed);
    }

    /// When a response last began; `None` if none did.
    pub(super) fn served_at(&self) -> Option<Time> {
        known(&self.caller_at)
    }

    /// When a response last began to anybody else.
    pub(super) fn served_others_at(&self, CallerHash(caller): CallerHash) -> Option<Time> {
        let is_last = self.caller.load(Ordering::Relaxed) == caller;
        known(if is_last { &self.others_at } else { &self.caller_at })
    }

    fn of(&self, model: ModelId) -> &ModelProof {
        &self.models[model.0 as usize % MODELS]
    }
}

fn known(at: &AtomicU64) -> Option<Time> {
    let at = at.load(Ordering::Relaxed);
    (at > 0).then(|| Time::from_nanos(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n05_the_answers_for_one_model_prove_nothing_for_another() {
        let proofs = Proofs::default();
        let [bad, good] = [2, 3].map(ModelId);
        proofs.failed(bad);
        proofs.answered(BegunRequest { model: good, sent: Time::from_millis(5) });
        assert!(proofs.fails_others(bad, 0) && !proofs.fails_others(bad, 1));
        assert!(!proofs.fails_others(good, 0));
        let since = Time::from_millis(4);
        assert!(!proofs.has_answered_since(bad, since) && proofs.has_answered_since(good, since));
        proofs.answered(BegunRequest { model: bad, sent: Time::from_millis(6) });
        assert!(!proofs.fails_others(bad, 0) && proofs.has_answered_since(bad, since));
        proofs.failed(bad);
        proofs.forgive(bad);
        proofs.forgive(bad);
        assert!(!proofs.fails_others(bad, 0));
    }

    #[test]
    fn n05_the_last_response_to_anybody_else_is_known() {
        let proofs = Proofs::default();
        let [one, other, third] = [1, 2, 3].map(CallerHash);
        assert_eq!((proofs.served_at(), proofs.served_others_at(one)), (None, None));
        let at = Time::from_millis;
        for (caller, millis) in [(one, 10), (other, 20), (other, 30), (one, 40), (one, 50)] {
            proofs.served(caller, at(millis));
        }
        assert_eq!(proofs.served_at(), Some(at(50)));
        assert_eq!(proofs.served_others_at(one), Some(at(30)));
        assert_eq!(proofs.served_others_at(other), Some(at(50)));
        assert_eq!(proofs.served_others_at(third), Some(at(50)));
    }
}
