//! The engine on Pub/Sub, tested on Google's own fake server.
//!
//! The suite runs as a producer, a dispatcher and a consumer would: the producer publishes, the
//! engine under test claims and ends, and the consumer reads the topics of results. What Pub/Sub
//! has no place for (receipts, cancellations, redriving) is not in the list below.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use serde_json::json;

use self::connection::{Connection, Refusing};
use self::server::PubSub;
use super::conformance::{Fixture, LEASE, tests_of};
use crate::llm_d_async::result_record;
use crate::{
    Body, Claim, ClaimRef, ClaimRequest, DeadLetter, Depth, Lane, Membership, Message, Moment,
    Outcome, PubSubCalls, PubSubQueue, PubSubSettings, PubSubStore, Receipt, Reclaimed, Redriven,
    Release, Selection, Standing, Store, StoreFuture, StoredResult,
};

mod connection;
mod deliveries;
mod ends;
#[path = "../../../../tests/support/pubsub.rs"]
mod server;

/// The queues of the suite.
const QUEUES: [&str; 4] = ["work", "elsewhere", "day", "night"];
/// More messages than a test has.
const ALL: usize = 1000;

mod suite {
    super::tests_of!(super::OnPubSub,
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
        ],
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
            reclaim_returns_when_the_next_lease_expires,
            d08_concurrent_claims_never_get_the_same_message,
        ],
        order: [
            the_earliest_deadline_goes_first_and_the_first_submitted_among_equals,
            lanes_have_tenant_count_and_earliest_deadline,
            d08_a_claim_takes_messages_of_one_lane_only,
            a_claim_takes_at_most_its_limit,
            a_message_is_claimed_as_it_was_submitted,
            a_large_body_is_returned_whole,
            odd_ids_are_kept_unchanged,
        ],
        restarts: [d07_accepted_messages_survive_a_restart],
        retries: [
            a_released_message_keeps_its_place,
            only_a_failure_counts_as_one,
            a_message_released_for_later_is_pending_when_it_is_due,
            reclaim_returns_when_the_next_message_is_due,
            reclaim_affects_one_queue_only,
            changed_resolves_at_a_release,
        ],
        submitting: [changed_resolves_at_a_submission]
    );
}

/// An engine with its server, its producer and its consumer.
struct OnPubSub {
    server: Arc<PubSub>,
    whole: Arc<Whole>,
}

/// A producer, the engine under test and a consumer as one store.
#[derive(Debug)]
struct Whole {
    server: Arc<PubSub>,
    store: Arc<PubSubStore>,
    /// The latest moment that a verb was called with: the clock of the server follows it.
    now: Mutex<Option<Moment>>,
    /// How many results of each topic were taken.
    taken: Mutex<BTreeMap<String, usize>>,
}

/// A server with the topics and queues of these tests.
fn server() -> PubSub {
    let server = PubSub::start();
    for id in ["forwarded", "results", "other", "dead"] {
        server.create_topic(id);
    }
    for queue in QUEUES {
        server.create_queue(queue);
    }
    server
}

/// The engine on a server.
fn store(server: &PubSub) -> Arc<PubSubStore> {
    store_on(Arc::new(Connection::to(server.address())))
}

/// The engine on a server where one call fails about one topic or subscription.
fn refused(
    server: &PubSub,
    (method, about, code): (&'static str, &'static str, u32),
) -> Arc<PubSubStore> {
    let connection = Connection::to(server.address());
    store_on(Arc::new(Refusing { connection, method, about, code }))
}

fn store_on(calls: Arc<dyn PubSubCalls>) -> Arc<PubSubStore> {
    let queue = |name: &str| PubSubQueue { name: name.into(), results: None };
    let settings = PubSubSettings {
        project: server::PROJECT.into(),
        results: "results".into(),
        dead_letters: Some("dead".into()),
        lease: LEASE,
        queues: QUEUES.map(queue).into(),
    };
    PubSubStore::new(settings, calls)
}

/// A message as a producer of llm-d-async publishes it.
fn published(message: &Message) -> String {
    let Body::Bytes(body) = &message.body else { panic!("{message:?}") };
    let mut metadata = message.metadata.clone();
    if !message.tenant.is_empty() {
        metadata.insert("userid".into(), message.tenant.clone());
    }
    let fields = json!({
        "id": message.id, "created": message.created.secs(), "deadline": message.deadline.secs(),
        "metadata": metadata, "headers": message.headers, "endpoint": message.endpoint,
        "model": message.model, "result_queue_name": message.route,
    });
    // The payload byte for byte.
    let fields = fields.to_string();
    let body = std::str::from_utf8(body).unwrap();
    format!("{},\"payload\":{body}}}", fields.strip_suffix('}').unwrap())
}

/// Claims all messages of a queue that are at the server.
async fn claim_all(store: &PubSubStore, queue: &str, now: Moment) -> Vec<Claim> {
    store.fetch(queue, ALL, true, || now).await.unwrap();
    let (queue, tenant) = (queue.to_owned(), String::new());
    let request = ClaimRequest { queue, tenant, limit: ALL, until: now.after(LEASE) };
    store.claim(request, now).await.unwrap()
}

// === impl OnPubSub ===

impl OnPubSub {
    fn on(server: Arc<PubSub>) -> Self {
        let (now, taken) = Default::default();
        let whole =
            Arc::new(Whole { store: store(&server), server: Arc::clone(&server), now, taken });
        Self { server, whole }
    }
}

impl Fixture for OnPubSub {
    const OWNED: bool = false;
    const CANCELS_AT_ONCE: bool = false;

    async fn fresh() -> Self {
        Self::on(Arc::new(server()))
    }

    fn store(&self) -> Arc<dyn Store> {
        self.whole.clone()
    }

    async fn reopen(self) -> Self {
        Self::on(self.server)
    }
}

// === impl Whole ===

impl Whole {
    /// Lets the clock of the server reach this moment.
    fn at(&self, now: Moment) -> Moment {
        let mut latest = self.now.lock().unwrap();
        let jump = latest.map_or(0.0, |latest| now.since(latest).as_secs_f64());
        if jump > 0.0 {
            self.server.advance(jump);
        }
        *latest = Some(latest.map_or(now, |latest| latest.max(now)));
        now
    }

    async fn receive(&self) {
        let now = self.now.lock().unwrap().unwrap_or_default();
        for queue in QUEUES {
            self.store.fetch(queue, ALL, true, || now).await.unwrap();
        }
    }
}

impl Store for Whole {
    fn submit(&self, messages: Vec<Message>, now: Moment) -> StoreFuture<'_, Vec<Receipt>> {
        self.at(now);
        for message in &messages {
            self.server.publish(&message.queue, &published(message), &json!({}));
        }
        Box::pin(async move { Ok(vec![Receipt::Accepted; messages.len()]) })
    }

    fn lanes<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Vec<Lane>> {
        self.at(now);
        Box::pin(async move {
            self.receive().await;
            self.store.lanes(queue, now).await
        })
    }

    fn claim(&self, request: ClaimRequest, now: Moment) -> StoreFuture<'_, Vec<Claim>> {
        self.at(now);
        Box::pin(async move {
            self.receive().await;
            self.store.claim(request, now).await
        })
    }

    fn renew(&self, claims: Vec<ClaimRef>, until: Moment) -> StoreFuture<'_, Vec<Standing>> {
        self.store.renew(claims, until)
    }

    fn standing(&self, claims: Vec<ClaimRef>) -> StoreFuture<'_, Vec<Standing>> {
        self.store.standing(claims)
    }

    fn complete(&self, claim: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool> {
        self.store.complete(claim, outcome, self.at(now))
    }

    fn release(&self, claim: ClaimRef, release: Release, now: Moment) -> StoreFuture<'_, bool> {
        self.store.release(claim, release, self.at(now))
    }

    fn dead_letter(&self, claim: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool> {
        self.store.dead_letter(claim, outcome, self.at(now))
    }

    fn cancel<'a>(&'a self, id: &'a str, now: Moment) -> StoreFuture<'a, bool> {
        self.store.cancel(id, self.at(now))
    }

    fn reclaim<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Reclaimed> {
        self.store.reclaim(queue, self.at(now))
    }

    fn depth<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Depth> {
        self.store.depth(queue)
    }

    fn list_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<DeadLetter>> {
        self.store.list_dead_letters(queue, after, limit)
    }

    fn redrive_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        selection: Selection,
        now: Moment,
    ) -> StoreFuture<'a, Redriven> {
        self.store.redrive_dead_letters(queue, selection, self.at(now))
    }

    fn purge_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        selection: Selection,
    ) -> StoreFuture<'a, u64> {
        self.store.purge_dead_letters(queue, selection)
    }

    fn take_results<'a>(
        &'a self,
        route: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, Vec<StoredResult>> {
        let mut taken = self.taken.lock().unwrap();
        let taken = taken.entry(route.to_owned()).or_default();
        let all = self.server.published(route);
        let new = all.iter().skip(*taken).take(limit);
        let new: Vec<StoredResult> =
            new.map(|result| result_record::decode(result.to_string().as_bytes())).collect();
        *taken += new.len();
        Box::pin(async move { Ok(new) })
    }

    fn join<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        until: Moment,
        now: Moment,
    ) -> StoreFuture<'a, Membership> {
        self.store.join(group, name, until, now)
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let changed = self.store.changed();
        Box::pin(async {
            self.receive().await;
            changed.await;
        })
    }
}
