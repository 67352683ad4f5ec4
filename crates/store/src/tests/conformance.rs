//! The conformance suite: each sentence of the documentation of `Store` is a test.
//!
//! An engine implements [`Fixture`] and runs the suite with `conformance!(ItsFixture)`. Times are
//! whole seconds and bodies are JSON, because the Redis engine stores no more.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Claim, ClaimRef, ClaimRequest, Message, Moment, Outcome, Receipt, Release, Store, StoredResult,
};

pub(crate) mod cancelling;
pub(crate) mod dead_letters;
pub(crate) mod ending;
pub(crate) mod histories;
pub(crate) mod leases;
pub(crate) mod order;
pub(crate) mod reference;
pub(crate) mod restarts;
pub(crate) mod retries;
pub(crate) mod submitting;

/// The queue, the route and the lease of most tests.
pub(crate) const QUEUE: &str = "work";
pub(crate) const ROUTE: &str = "results";
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// An empty engine, for one test.
pub(crate) trait Fixture: Sized + 'static {
    /// Whether one process owns the queues: then a restart ends all claims.
    const OWNED: bool;

    /// Whether cancelling a pending message stores its result at once. If not, the dispatcher that
    /// claims it sees that it is cancelled.
    const CANCELS_AT_ONCE: bool;

    /// Creates an empty engine.
    async fn fresh() -> Self;

    /// The engine.
    fn store(&self) -> Arc<dyn Store>;

    /// Restarts the process that uses the queues.
    async fn reopen(self) -> Self;
}

/// An engine and a clock.
pub(crate) struct Trial<F> {
    pub(crate) fixture: F,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) now: Moment,
}

/// Every test of the suite, for one engine.
macro_rules! conformance {
    ($fixture:ty) => {
        $crate::tests::conformance::conformance!($fixture, tests_of);
    };
    ($fixture:ty, $how:ident) => {
        $crate::tests::conformance::$how!($fixture,
            cancelling: [
                a_pending_message_ends_cancelled_once,
                a_released_message_ends_cancelled_without_being_sent,
                the_holder_of_a_message_learns_that_it_is_cancelled,
                the_result_from_the_holder_of_a_cancelled_message_counts,
                a_cancelled_message_that_is_released_is_not_sent_again,
                d07_a_cancelled_message_whose_owner_died_ends_once,
                ended_and_unknown_messages_are_not_cancelled,
                changed_resolves_at_a_cancellation,
            ],
            ending: [
                d07_the_result_is_stored_and_the_message_ends_in_one_step,
                d07_a_claim_ends_once,
                results_are_taken_oldest_first_and_once,
                results_go_to_the_route_of_the_message,
                a_result_has_the_outcome_of_its_message,
                depth_counts_messages_by_state,
            ],
            dead_letters: [
                d07_a_dead_letter_has_a_result_and_is_listed,
                dead_letters_are_listed_oldest_first_and_page_by_page,
                redriven_messages_are_pending_as_if_just_submitted,
                a_redriven_message_ends_with_a_result_of_its_own,
                only_selected_dead_letters_are_redriven_or_purged,
                dead_letters_of_a_batch_are_not_redriven,
                two_concurrent_purges_count_each_dead_letter_once,
                purged_dead_letters_are_deleted,
            ],
            histories: [d07_random_histories_agree_with_the_reference],
            leases: [
                d07_a_claimed_message_cannot_be_claimed_again,
                d07_a_message_is_reclaimed_when_its_lease_has_expired,
                d07_a_renewed_claim_stays_held,
                d07_a_late_renewal_counts_until_the_message_is_reclaimed,
                d07_every_claim_has_a_token_of_its_own,
                d07_a_lost_claim_can_change_nothing,
                d07_no_claim_can_change_an_ended_message,
                a_made_up_claim_can_change_nothing,
                standing_does_not_extend_the_lease,
                each_claim_has_its_own_standing,
                reclaim_returns_when_the_next_lease_expires,
                a_clock_that_jumps_ahead_costs_an_attempt_and_no_message,
                a_clock_that_jumps_back_costs_nothing,
                d08_concurrent_claims_never_get_the_same_message,
            ],
            order: [
                the_earliest_deadline_goes_first_and_the_first_submitted_among_equals,
                lanes_have_tenant_count_and_earliest_deadline,
                d08_a_claim_takes_messages_of_one_lane_only,
                a_claim_takes_at_most_its_limit,
                d07_an_expired_message_can_be_claimed,
                a_message_is_claimed_as_it_was_submitted,
                a_large_body_is_returned_whole,
                odd_ids_are_kept_unchanged,
            ],
            restarts: [
                d07_accepted_messages_survive_a_restart,
                d07_messages_claimed_at_a_crash_are_pending_with_one_more_failure,
                d07_receipts_and_dead_letters_survive_a_restart,
            ],
            retries: [
                a_released_message_keeps_its_place,
                only_a_failure_counts_as_one,
                a_message_released_for_later_is_pending_when_it_is_due,
                reclaim_returns_when_the_next_message_is_due,
                reclaim_affects_one_queue_only,
                changed_resolves_at_a_release,
            ],
            submitting: [
                d07_a_message_submitted_twice_is_stored_once,
                an_id_with_other_content_is_a_conflict,
                a_message_is_known_in_every_state,
                a_message_is_known_for_a_while_after_it_has_ended,
                a_later_submission_is_the_same_message,
                an_id_that_cannot_be_stored_is_refused,
                changed_resolves_at_a_submission,
            ]
        );
    };
}

/// Each test of the suite as a test.
macro_rules! tests_of {
    ($fixture:ty, $($room:ident: [$($name:ident),+ $(,)?]),+) => {
        $($(
            #[tokio::test]
            async fn $name() {
                $crate::tests::conformance::$room::$name::<$fixture>().await;
            }
        )+)+
    };
}

/// The whole suite as one test, for an engine that is slow to start and can be emptied.
macro_rules! one_test_of {
    ($fixture:ty, $($room:ident: [$($name:ident),+ $(,)?]),+) => {
        #[tokio::test]
        async fn the_engine_passes_the_whole_suite() {
            $($(
                eprintln!("{}", stringify!($name));
                $crate::tests::conformance::$room::$name::<$fixture>().await;
            )+)+
        }
    };
}

pub(crate) use {conformance, one_test_of, tests_of};

// === impl Trial ===

impl<F: Fixture> Trial<F> {
    pub(crate) async fn new() -> Self {
        let fixture = F::fresh().await;
        let store = fixture.store();
        Self { fixture, store, now: Moment::from_secs(1_800_000_000) }
    }

    /// Restarts the process.
    pub(crate) async fn reopened(self) -> Self {
        let Self { fixture, store, now } = self;
        drop(store);
        let fixture = fixture.reopen().await;
        let store = fixture.store();
        Self { fixture, store, now }
    }

    /// Advances the clock.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    /// A message whose deadline is in an hour.
    pub(crate) fn message(&self, id: &str) -> Message {
        Message {
            id: id.into(),
            queue: QUEUE.into(),
            created: self.now,
            deadline: self.now.after(Duration::from_secs(3600)),
            endpoint: "/v1/chat/completions".into(),
            model: "m".into(),
            route: ROUTE.into(),
            body: crate::Body::Bytes(format!(r#"{{"prompt":"{}"}}"#, id.len()).into()),
            ..Message::default()
        }
    }

    pub(crate) async fn submit(&self, messages: &[Message]) -> Vec<Receipt> {
        self.store.submit(messages.to_vec(), self.now).await.unwrap()
    }

    /// Submits messages that must be new.
    pub(crate) async fn accept(&self, messages: &[Message]) {
        let receipts = self.submit(messages).await;
        assert!(receipts.iter().all(|receipt| *receipt == Receipt::Accepted), "{receipts:?}");
    }

    /// Submits ordinary messages with these ids.
    pub(crate) async fn accept_ids(&self, ids: &[&str]) {
        let messages: Vec<Message> = ids.iter().map(|id| self.message(id)).collect();
        self.accept(&messages).await;
    }

    pub(crate) async fn claim(&self, most: usize) -> Vec<Claim> {
        self.claim_of(QUEUE, "", most).await
    }

    pub(crate) async fn claim_of(&self, queue: &str, tenant: &str, most: usize) -> Vec<Claim> {
        let (queue, tenant) = (queue.into(), tenant.into());
        let want = ClaimRequest { queue, tenant, limit: most, until: self.now.after(LEASE) };
        self.store.claim(want, self.now).await.unwrap()
    }

    /// Claims the only pending message.
    pub(crate) async fn claim_one(&self) -> Claim {
        let mut claims = self.claim(10).await;
        assert_eq!(claims.len(), 1, "{claims:?}");
        claims.remove(0)
    }

    pub(crate) async fn complete(&self, held: &ClaimRef) -> bool {
        self.store.complete(held.clone(), good(), self.now).await.unwrap()
    }

    pub(crate) async fn release(&self, held: &ClaimRef, delay: Duration, failed: bool) -> bool {
        let back = Release { due: self.now.after(delay), failed };
        self.store.release(held.clone(), back, self.now).await.unwrap()
    }

    pub(crate) async fn dead_letter(&self, held: &ClaimRef) -> bool {
        let outcome = Outcome::failed(Outcome::FAILED, "it broke");
        self.store.dead_letter(held.clone(), outcome, self.now).await.unwrap()
    }

    pub(crate) async fn cancel(&self, id: &str) -> bool {
        self.store.cancel(id, self.now).await.unwrap()
    }

    /// Takes all results.
    pub(crate) async fn results(&self) -> Vec<StoredResult> {
        self.store.take_results(ROUTE, 1000).await.unwrap()
    }

    /// Takes all results, and returns their ids.
    pub(crate) async fn result_ids(&self) -> Vec<String> {
        self.results().await.into_iter().map(|stored| stored.id).collect()
    }

    /// Waits for a change, with a time limit.
    pub(crate) async fn told(change: impl Future<Output = ()>) {
        let patience = Duration::from_secs(60);
        tokio::time::timeout(patience, change).await.expect("no change was reported");
    }
}

/// A successful response.
pub(crate) fn good() -> Outcome {
    Outcome::Answered { status: 200, body: r#"{"answer":42}"#.into() }
}

/// The ids of claims, in order.
pub(crate) fn ids(claims: &[Claim]) -> Vec<&str> {
    claims.iter().map(|claim| claim.message.id.as_str()).collect()
}
