//! What every engine is held to: each sentence of the trait is a test.
//!
//! An engine gives a [`Fixture`] and says `conformance!(ItsFixture)` in a module of its own.
//! Moments are whole seconds here and bodies are JSON, because not every engine can do more.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Claim, ClaimRef, ClaimRequest, Message, Moment, Outcome, Receipt, Release, Store, StoredResult,
};

pub(crate) mod cancelling;
pub(crate) mod ending;
pub(crate) mod graveyard;
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

/// An engine with nothing in it, for one test.
pub(crate) trait Fixture: Sized + 'static {
    /// Whether one process owns the queues: then nobody holds anything after a restart.
    const OWNED: bool;

    /// Whether a message that waits gets its result in the step that cancels it. If not, whoever
    /// claims it sees that it is cancelled.
    const CANCELS_AT_ONCE: bool;

    /// One with nothing in it.
    async fn fresh() -> Self;

    /// The engine.
    fn store(&self) -> Arc<dyn Store>;

    /// Starts whoever uses the queues anew.
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
                a_message_that_waits_ends_cancelled_once,
                a_message_that_waits_for_a_retry_ends_cancelled_without_being_sent,
                whoever_holds_a_message_hears_that_it_is_cancelled,
                what_the_owner_says_of_a_cancelled_message_counts,
                a_cancelled_message_that_is_put_back_is_not_sent_again,
                d07_a_cancelled_message_whose_owner_died_ends_once,
                nothing_else_is_cancelled,
                whoever_waits_for_changes_hears_of_a_cancellation,
            ],
            ending: [
                d07_the_result_is_kept_and_the_message_gone_in_one_step,
                d07_a_claim_ends_once,
                results_are_taken_oldest_first_and_once,
                results_go_where_the_message_says,
                a_result_says_what_became_of_the_message,
                depth_counts_what_waits_what_is_held_and_what_is_dead,
            ],
            graveyard: [
                d07_a_buried_message_has_its_result_and_is_among_the_dead,
                the_dead_are_listed_oldest_first_and_page_by_page,
                the_redriven_wait_as_if_they_had_just_been_submitted,
                a_redriven_message_ends_with_a_result_of_its_own,
                only_the_named_are_redriven_or_purged,
                the_dead_of_a_batch_are_not_redriven,
                what_two_purge_at_once_is_counted_once,
                the_purged_are_forgotten,
            ],
            histories: [d07_random_histories_go_as_the_reference_says],
            leases: [
                d07_a_claimed_message_is_nobody_elses,
                d07_a_message_comes_back_when_its_lease_has_run_out,
                d07_a_renewed_claim_is_kept,
                d07_a_late_renewal_counts_while_nobody_looked,
                d07_every_claim_has_a_token_of_its_own,
                d07_whoever_lost_a_claim_has_no_say,
                d07_nobody_has_a_say_after_the_end,
                a_made_up_claim_has_no_say,
                how_a_claim_stands_can_be_asked_without_holding_it_longer,
                it_is_told_of_each_claim_how_it_stands,
                it_is_known_when_the_next_lease_runs_out,
                a_clock_that_jumps_ahead_costs_a_try_and_no_message,
                a_clock_that_jumps_back_costs_nothing,
                d08_those_who_claim_at_once_never_get_the_same_message,
            ],
            order: [
                the_earliest_deadline_goes_first_and_the_first_submitted_among_equals,
                lanes_tell_who_waits_how_many_and_the_earliest_deadline,
                d08_a_claim_takes_from_one_lane_alone,
                a_claim_takes_no_more_than_it_wants,
                d07_one_whose_deadline_has_passed_can_be_claimed,
                a_message_is_claimed_as_it_was_submitted,
                a_large_body_comes_back_whole,
                odd_names_are_kept_as_they_are,
            ],
            restarts: [
                d07_what_was_accepted_outlives_a_restart,
                d07_what_was_claimed_at_a_crash_waits_again_with_one_failure_more,
                d07_the_ended_stay_known_and_the_dead_dead_after_a_restart,
            ],
            retries: [
                a_message_put_back_waits_again_at_its_place,
                only_a_failure_counts_as_one,
                a_message_put_back_for_later_waits_until_it_is_due,
                it_is_known_when_the_next_message_is_due,
                only_the_queue_that_is_asked_for_is_revived,
                whoever_waits_for_changes_hears_of_a_message_put_back,
            ],
            submitting: [
                d07_a_message_submitted_twice_is_kept_once,
                an_id_with_another_content_is_a_conflict,
                a_message_is_known_in_every_state,
                a_message_is_known_for_a_while_after_it_has_ended,
                a_later_try_to_submit_is_the_same_message,
                an_id_that_cannot_be_kept_is_refused,
                whoever_waits_for_changes_hears_of_a_new_message,
            ]
        );
    };
}

/// One test of the suite after another.
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

/// The whole suite as one test, for an engine that takes long to start and can be emptied.
macro_rules! one_test_of {
    ($fixture:ty, $($room:ident: [$($name:ident),+ $(,)?]),+) => {
        #[tokio::test]
        async fn it_does_all_that_is_asked_of_an_engine() {
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

    /// After a restart.
    pub(crate) async fn reopened(self) -> Self {
        let Self { fixture, store, now } = self;
        drop(store);
        let fixture = fixture.reopen().await;
        let store = fixture.store();
        Self { fixture, store, now }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    /// A message that has an hour.
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

    /// Submits messages that are nothing special, by their ids.
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

    /// Claims the only message that there is.
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

    /// Takes all results and gives the ids.
    pub(crate) async fn result_ids(&self) -> Vec<String> {
        self.results().await.into_iter().map(|stored| stored.id).collect()
    }

    /// Waits for word of a change, but not for ever.
    pub(crate) async fn told(change: impl Future<Output = ()>) {
        let patience = Duration::from_secs(60);
        tokio::time::timeout(patience, change).await.expect("nobody told of a change");
    }
}

/// A good answer.
pub(crate) fn good() -> Outcome {
    Outcome::Answered { status: 200, body: r#"{"answer":42}"#.into() }
}

/// The ids of claims, in their order.
pub(crate) fn ids(claims: &[Claim]) -> Vec<&str> {
    claims.iter().map(|claim| claim.message.id.as_str()).collect()
}
