//! One delivery: sends a claimed message and stores its result.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use store::{
    Body, Claim, ClaimRef, ErrorKind, Message, Moment, Outcome, Release, StoreError, StoreFuture,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::outgoing_request::{model, outgoing_request};
use super::verdict::{Verdict, judge};
use super::{ClaimState, Dispatcher, ServedQueue, StopReason};
use crate::clock::moment;
use crate::gates::GatePermit;
use crate::ingress::dispatch_headers::OWN_KEY;
use crate::ingress::prompt_tokens;
use crate::jitter;
use crate::observe::dispatch::MessageEnd;
use crate::task;
use crate::upstream::client::ClientError;

/// The pause between two tries to store a result while the store is unavailable.
const STORE_PAUSE: Duration = Duration::from_millis(500);

/// Failures of a message whose target answers other messages for its model, until it is given up.
const OWN_FAILURES: u32 = 20;

/// The least time before the deadline in which another attempt makes sense.
const ATTEMPT_MIN: Duration = Duration::from_millis(200);

/// How an attempt ended.
enum AttemptEnd {
    /// With a verdict, on a request for this model.
    Response(Verdict, String),
    Stopped(StopReason),
}

/// A failed attempt.
struct Failure {
    /// The failures before it.
    failures: u32,
    outcome: Outcome,
    /// The pause that the target asked for.
    asked: Option<Duration>,
    /// Whether it counts as one of the message.
    counts: bool,
}

/// An entry among the claims, removed when dropped.
struct ClaimGuard {
    dispatcher: Arc<Dispatcher>,
    held: ClaimRef,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Records a claim, so that it is renewed.
    pub(super) fn track(&self, held: &ClaimRef) {
        self.claims().insert(held.clone(), ClaimState::WaitingAtGate(None));
    }

    /// Sends a claimed message in a task of its own.
    pub(super) fn start(self: &Arc<Self>, served: usize, claim: Claim, permit: Option<GatePermit>) {
        let (stop, stopped) = oneshot::channel();
        self.claims().insert(claim.reference.clone(), ClaimState::InFlight(Some(stop)));
        let guard = ClaimGuard { dispatcher: Arc::clone(self), held: claim.reference.clone() };
        task::spawn(async move {
            let served = &guard.dispatcher.queues[served];
            guard.dispatcher.deliver(served, claim, (permit, stopped)).await;
        });
    }

    /// Removes a claim that another dispatcher has.
    pub(super) fn untrack(&self, held: &ClaimRef) {
        self.claims().remove(held);
    }

    /// Releases a message at once, as if it had not been claimed.
    pub(super) async fn release_unsent(self: &Arc<Self>, held: ClaimRef) {
        let guard = ClaimGuard { dispatcher: Arc::clone(self), held: held.clone() };
        let release = Release { due: moment(), failed: false };
        if let Err(error) = self.store.release(held, release, moment()).await {
            tracing::warn!(%error, "a message was not released; it waits for the end of its lease");
        }
        drop(guard);
    }

    /// Releases all claims, so that other dispatchers can have the messages at once.
    pub(super) async fn release_all(self: &Arc<Self>) {
        let all: Vec<ClaimRef> = self.claims().keys().cloned().collect();
        for held in &all {
            self.stop(held, StopReason::Release);
        }
        self.deliveries_ended().await;
        // Messages that wait for a gate have no task that could release them.
        let left: Vec<ClaimRef> = self.claims().keys().cloned().collect();
        for held in left {
            self.release_unsent(held).await;
        }
    }

    /// Resolves when no delivery is in flight.
    async fn deliveries_ended(&self) {
        let in_flight = |state: &ClaimState| matches!(state, ClaimState::InFlight(_));
        loop {
            let freed = self.freed.notified();
            if !self.claims().values().any(in_flight) {
                return;
            }
            freed.await;
        }
    }

    async fn deliver(
        &self,
        served: &ServedQueue,
        claim: Claim,
        (permit, stopped): (Option<GatePermit>, oneshot::Receiver<StopReason>),
    ) {
        let lane = served.lanes.started(&claim.message.tenant);
        let ended = tokio::select! {
            (verdict, model) = self.attempt(served, &claim, permit.as_ref()) => {
                AttemptEnd::Response(verdict, model)
            }
            reason = stopped => AttemptEnd::Stopped(reason.unwrap_or(StopReason::Release)),
        };
        lane.ended(match &ended {
            AttemptEnd::Response(Verdict::Final(Outcome::Answered { .. }), _) => Some(true),
            AttemptEnd::Response(Verdict::Failed(..) | Verdict::KeptInVain(..), _) => Some(false),
            _ => None,
        });
        let Claim { reference: held, message, failures, .. } = claim;
        match ended {
            AttemptEnd::Stopped(StopReason::Lost) => served.metrics.ended(MessageEnd::Lost),
            AttemptEnd::Stopped(StopReason::Cancelled) => {
                self.finish(served, held, Outcome::cancelled()).await
            }
            AttemptEnd::Stopped(StopReason::Release) => {
                self.release(served, held, Release { due: moment(), failed: false }).await
            }
            AttemptEnd::Response(Verdict::Unanswered, _) => {
                served.metrics.unanswered();
                self.end(served, held, Outcome::expired()).await;
            }
            AttemptEnd::Response(Verdict::Final(outcome), model) => {
                if let Outcome::Answered { .. } = outcome {
                    // Only an answer shows that the target has room.
                    permit.iter().for_each(GatePermit::succeeded);
                    served.accepted();
                    self.answers.note(&served.target.place, &model);
                    served.note_output(&outcome);
                }
                self.finish(served, held, outcome).await;
            }
            AttemptEnd::Response(Verdict::Congested(asked, why), _) => {
                served.metrics.ended(MessageEnd::Congested);
                served.refused(why);
                if let Some(permit) = &permit {
                    // The message waits as long as the target asks. The gate is shared, so its wait
                    // is bounded.
                    permit.congested(asked.map(|asked| asked.min(self.settings.backoff_max)));
                }
                let due = self.backoff().due(
                    (1, asked),
                    (moment(), message.deadline),
                    jitter::fraction(),
                );
                self.release(served, held, Release { due, failed: false }).await;
            }
            AttemptEnd::Response(Verdict::Failed(outcome, asked), model) => {
                let failure = Failure { failures, outcome, asked, counts: true };
                self.failed(served, (held, &message, &model), failure).await;
            }
            AttemptEnd::Response(Verdict::KeptInVain(outcome, asked), model) => {
                let message_id = (served.queue.name.as_str(), message.id.as_str());
                let target = (served.target.place.as_str(), model.as_str());
                let counts = self.answers.fails_alone(target, message_id);
                let failure = Failure { failures, outcome, asked, counts };
                self.failed(served, (held, &message, &model), failure).await;
            }
        }
    }

    /// Releases a failed message with a backoff, or makes it a dead letter.
    async fn failed(
        &self,
        served: &ServedQueue,
        (held, message, model): (ClaimRef, &Message, &str),
        failure: Failure,
    ) {
        let Failure { failures: before, outcome, asked, counts } = failure;
        served.metrics.judged(&outcome);
        let failures = before.saturating_add(1);
        let too_often = counts && self.is_given_up(served, model, failures);
        if too_often || message.deadline.since(moment()) < ATTEMPT_MIN {
            tracing::warn!(
                id = message.id,
                queue = served.queue.name,
                failures,
                "a message failed too often and is a dead letter now"
            );
            return self.dead_letter(served, held, outcome).await;
        }
        served.metrics.ended(MessageEnd::Failed);
        let due =
            self.backoff().due((failures, asked), (moment(), message.deadline), jitter::fraction());
        self.release(served, held, Release { due, failed: counts }).await;
    }

    async fn dead_letter(&self, served: &ServedQueue, held: ClaimRef, outcome: Outcome) {
        let dead = || self.store.dead_letter(held.clone(), outcome.clone(), moment());
        let kept = self.persist(served, dead).await;
        served.metrics.ended(if kept { MessageEnd::DeadLetter } else { MessageEnd::Lost });
    }

    /// Whether a message has failed too often. An outage of the target fails all messages and must
    /// not end any of them, so without a configured number a message is given up only if its target
    /// answers others for the same model meanwhile.
    fn is_given_up(&self, served: &ServedQueue, model: &str, failures: u32) -> bool {
        let within = self.settings.backoff_max;
        match self.settings.attempts_max {
            Some(most) => failures >= most,
            None => {
                let is_often = failures >= OWN_FAILURES;
                is_often && self.answers.has(&served.target.place, model, within)
            }
        }
    }

    async fn finish(&self, served: &ServedQueue, held: ClaimRef, outcome: Outcome) {
        served.metrics.judged(&outcome);
        self.end(served, held, outcome).await;
    }

    /// Stores the outcome of a message as its result.
    async fn end(&self, served: &ServedQueue, held: ClaimRef, outcome: Outcome) {
        let end = match &outcome {
            Outcome::Answered { .. } => MessageEnd::Answered,
            Outcome::Failed { code, .. } if *code == Outcome::CANCELLED => MessageEnd::Cancelled,
            Outcome::Failed { code, .. } if *code == Outcome::DEADLINE => MessageEnd::Expired,
            Outcome::Failed { .. } => MessageEnd::Unsendable,
        };
        let kept =
            self.persist(served, || self.store.complete(held.clone(), outcome.clone(), moment()));
        served.metrics.ended(if kept.await { end } else { MessageEnd::Lost });
    }

    async fn release(&self, served: &ServedQueue, held: ClaimRef, release: Release) {
        self.persist(served, || self.store.release(held.clone(), release, moment())).await;
        // The claim loop is notified when this claim ends.
        self.next_due.fetch_min(release.due.millis(), Ordering::Relaxed);
    }

    /// Calls the store until it succeeds. While the store is unavailable or full, results wait
    /// here, and occupy their workers.
    async fn persist<'a>(
        &self,
        served: &ServedQueue,
        mut verb: impl FnMut() -> StoreFuture<'a, bool>,
    ) -> bool {
        let mut logged = false;
        loop {
            let error = match verb().await {
                Ok(kept) => return kept,
                Err(error) => error,
            };
            if !can_wait(&error) {
                tracing::error!(%error, "the result of a message cannot be stored");
                // No further message of the queue is claimed, if its keys are the cause.
                let _ = self.of_queue::<()>(served, Err(error)).await;
                return false;
            }
            if !std::mem::replace(&mut logged, true) {
                tracing::warn!(%error, "a result waits for the store");
            }
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    /// Sends a message once; returns also the model that it asks for, if it was sent.
    async fn attempt(
        &self,
        served: &ServedQueue,
        claim: &Claim,
        permit: Option<&GatePermit>,
    ) -> (Verdict, String) {
        let message = &claim.message;
        let body = match sendable(claim).await {
            Ok(body) => body,
            Err(verdict) => return (verdict, String::new()),
        };
        if let Some(permit) = permit {
            permit.prompt_size(prompt_tokens(&body));
        }
        let model = model(message, &body);
        let mut request = match outgoing_request(&served.queue, message, body) {
            Ok(request) => request,
            Err(verdict) => return (verdict, model),
        };
        if let Some(key) = &served.own_key {
            request.headers_mut().insert(OWN_KEY, key.clone());
        }
        served.metrics.sent();
        let limit = message.deadline.since(moment()).min(self.settings.request_timeout);
        let sent = self.client.send(&served.target, request, self.settings.answer_limit);
        let verdict = match timeout(limit, sent).await {
            Ok(ended) => judge(ended, moment()),
            Err(_) if message.deadline <= moment() => Verdict::Unanswered,
            Err(_) => judge(Err(ClientError::TimedOut(limit)), moment()),
        };
        (verdict, model)
    }
}

/// The body of a claimed message; the verdict if it is not to be sent.
async fn sendable(claim: &Claim) -> Result<Bytes, Verdict> {
    let message = &claim.message;
    if claim.cancelled {
        return Err(Verdict::Final(Outcome::cancelled()));
    }
    if message.deadline == Moment::default() {
        let text = "its `deadline` is missing or not a time: give whole seconds since 1970";
        return Err(Verdict::Final(Outcome::failed(Outcome::INVALID, text)));
    }
    if message.deadline <= moment() {
        return Err(Verdict::Final(Outcome::expired()));
    }
    read(&message.body).await.map_err(|error| {
        let text = format!("the body cannot be read: {error}");
        let outcome = Outcome::failed(Outcome::BODY_GONE, text);
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => Verdict::Final(outcome),
            // Other errors of the disk or the process may be temporary.
            _ => Verdict::Failed(outcome, None),
        }
    })
}

/// Whether an error is one of the whole store, which may be over soon.
pub(super) fn can_wait(error: &StoreError) -> bool {
    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Full)
}

/// The body of a message.
pub(super) async fn read(body: &Body) -> io::Result<Bytes> {
    match body {
        Body::Bytes(bytes) => Ok(bytes.clone()),
        Body::Gone => Err(io::ErrorKind::NotFound.into()),
        Body::Slice { file, offset, length } => {
            let (file, offset, length) = (file.clone(), *offset, *length);
            let read = task::blocking(move || slice(&file, offset, length));
            read.await.unwrap_or_else(|error| Err(io::Error::other(error)))
        }
    }
}

fn slice(file: &Path, offset: u64, length: u64) -> io::Result<Bytes> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    File::open(file)?.read_exact_at(&mut bytes, offset)?;
    Ok(bytes.into())
}

// === impl ClaimGuard ===

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.dispatcher.claims().remove(&self.held);
        self.dispatcher.freed.notify_one();
    }
}
