//! One message under way: it is sent, and what comes of it is kept.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use store::{
    Body, Claim, ClaimRef, ErrorKind, Message, Moment, Outcome, Release, StoreError, StoreFuture,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::gates::Pass;
use super::verdict::{Verdict, judge};
use super::{Dispatcher, Line, Whereabouts, Word};
use crate::clock::moment;
use crate::ingress::dispatch_headers::DispatchHeaders;
use crate::ingress::path::is_work;
use crate::ingress::prompt_tokens;
use crate::observe::BAND_NAMES;
use crate::observe::dispatch::End;
use crate::task;
use crate::upstream::client::ClientError;

/// Between tries to keep a result while the store is away.
const KEEP_PAUSE: Duration = Duration::from_millis(500);

/// What ended an attempt.
enum Ended {
    By(Verdict),
    Told(Word),
}

/// A place among the held, given up when dropped.
struct Place {
    dispatcher: Arc<Dispatcher>,
    held: ClaimRef,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Notes that a message is ours, so that its claim is renewed.
    pub(super) fn hold(&self, held: &ClaimRef) {
        self.held().insert(held.clone(), Whereabouts::AtGate(None));
    }

    /// Sends a message that is held, beside all others.
    pub(super) fn start(self: &Arc<Self>, line: usize, claim: Claim, pass: Option<Pass>) {
        let (tell, told) = oneshot::channel();
        self.held().insert(claim.reference.clone(), Whereabouts::UnderWay(Some(tell)));
        let place = Place { dispatcher: Arc::clone(self), held: claim.reference.clone() };
        task::spawn(async move {
            let line = &place.dispatcher.lines[line];
            place.dispatcher.fly(line, claim, (pass, told)).await;
        });
    }

    /// A message is somebody else's.
    pub(super) fn let_go(&self, held: &ClaimRef) {
        self.held().remove(held);
    }

    /// A message goes back at once, as if it had not been claimed.
    pub(super) async fn give_back(self: &Arc<Self>, held: ClaimRef) {
        let place = Place { dispatcher: Arc::clone(self), held: held.clone() };
        let back = Release { due: moment(), failed: false };
        if let Err(error) = self.store.release(held, back, moment()).await {
            tracing::warn!(%error, "a message could not be handed back; its lease will run out");
        }
        drop(place);
    }

    /// Hands back all that is under way, so that others can have it at once.
    pub(super) async fn hand_back(self: &Arc<Self>) {
        let all: Vec<ClaimRef> = self.held().keys().cloned().collect();
        for held in &all {
            self.tell(held, Word::HandBack);
        }
        self.landed().await;
        // Those that stood before a gate have nobody who could hear.
        let left: Vec<ClaimRef> = self.held().keys().cloned().collect();
        for held in left {
            self.give_back(held).await;
        }
    }

    /// Resolves when nothing is under way any more.
    async fn landed(&self) {
        let under_way = |place: &Whereabouts| matches!(place, Whereabouts::UnderWay(_));
        loop {
            let freed = self.freed.notified();
            if !self.held().values().any(under_way) {
                return;
            }
            freed.await;
        }
    }

    async fn fly(
        &self,
        line: &Line,
        claim: Claim,
        (pass, told): (Option<Pass>, oneshot::Receiver<Word>),
    ) {
        let ended = tokio::select! {
            verdict = self.attempt(line, &claim, pass.as_ref()) => Ended::By(verdict),
            word = told => Ended::Told(word.unwrap_or(Word::HandBack)),
        };
        let Claim { reference: held, message, failures, .. } = claim;
        match ended {
            Ended::Told(Word::Lost) => line.row.ended(End::Lost),
            Ended::Told(Word::Cancelled) => self.finish(line, held, cancelled()).await,
            Ended::Told(Word::HandBack) => {
                self.release(held, Release { due: moment(), failed: false }).await
            }
            Ended::By(Verdict::Final(outcome)) => {
                if let Some(pass) = &pass {
                    pass.good();
                }
                if let Outcome::Answered { .. } = outcome {
                    line.took();
                }
                self.finish(line, held, outcome).await;
            }
            Ended::By(Verdict::Congested(asked, why)) => {
                line.row.ended(End::Congested);
                line.refused(why);
                if let Some(pass) = &pass {
                    // A message may wait for as long as it was told. The gate is everybody's.
                    pass.congested(asked.map(|asked| asked.min(self.settings.backoff_max)));
                }
                let due = self.backoff().due((1, asked), (moment(), message.deadline), chance());
                self.release(held, Release { due, failed: false }).await;
            }
            Ended::By(Verdict::Failed(outcome, asked)) => {
                self.failed(line, (held, &message), (failures.saturating_add(1), outcome, asked))
                    .await;
            }
        }
    }

    async fn failed(
        &self,
        line: &Line,
        (held, message): (ClaimRef, &Message),
        (failures, outcome, asked): (u32, Outcome, Option<Duration>),
    ) {
        if failures >= self.settings.attempts_max {
            tracing::warn!(id = message.id, queue = line.queue.name, failures, "failed too often");
            let kept = self
                .persist(|| self.store.dead_letter(held.clone(), outcome.clone(), moment()))
                .await;
            line.row.ended(if kept { End::Dead } else { End::Lost });
            return;
        }
        line.row.ended(End::Failed);
        let due = self.backoff().due((failures, asked), (moment(), message.deadline), chance());
        self.release(held, Release { due, failed: true }).await;
    }

    async fn finish(&self, line: &Line, held: ClaimRef, outcome: Outcome) {
        let end = match &outcome {
            Outcome::Answered { .. } => End::Answered,
            Outcome::Failed { code, .. } if *code == Outcome::CANCELLED => End::Cancelled,
            Outcome::Failed { code, .. } if *code == Outcome::DEADLINE => End::Expired,
            Outcome::Failed { .. } => End::Unsendable,
        };
        let kept =
            self.persist(|| self.store.complete(held.clone(), outcome.clone(), moment())).await;
        line.row.ended(if kept { end } else { End::Lost });
    }

    async fn release(&self, held: ClaimRef, back: Release) {
        self.persist(|| self.store.release(held.clone(), back, moment())).await;
    }

    /// Does something with the store until it is done. While the store is away or full, what is to
    /// be kept waits here, in as many places as there are workers.
    async fn persist<'a>(&self, mut verb: impl FnMut() -> StoreFuture<'a, bool>) -> bool {
        let mut told = false;
        loop {
            let error = match verb().await {
                Ok(kept) => return kept,
                Err(error) => error,
            };
            if !can_wait(&error) {
                tracing::error!(%error, "what became of a message cannot be kept");
                return false;
            }
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(%error, "a result waits until the store can take it");
            }
            tokio::time::sleep(KEEP_PAUSE).await;
        }
    }

    /// Sends a message once.
    async fn attempt(&self, line: &Line, claim: &Claim, pass: Option<&Pass>) -> Verdict {
        if claim.cancelled {
            return Verdict::Final(cancelled());
        }
        let message = &claim.message;
        if message.deadline == Moment::default() {
            let text = "its `deadline` is missing or not a time: give whole seconds since 1970";
            return Verdict::Final(Outcome::failed(Outcome::INVALID, text));
        }
        let left = message.deadline.since(moment());
        if left.is_zero() {
            return Verdict::Final(late());
        }
        let body = match read(&message.body).await {
            Ok(body) => body,
            Err(error) => {
                let text = format!("the body cannot be read: {error}");
                let outcome = Outcome::failed(Outcome::BODY_GONE, text);
                return match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
                        Verdict::Final(outcome)
                    }
                    // A disk or a process in trouble now may be well later.
                    _ => Verdict::Failed(outcome, None),
                };
            }
        };
        if let Some(pass) = pass {
            pass.weighs(prompt_tokens(&body));
        }
        let request = match request(line, message, body) {
            Ok(request) => request,
            Err(error) => {
                let text = format!("it cannot be sent: {error}");
                return Verdict::Final(Outcome::failed(Outcome::INVALID, text));
            }
        };
        line.row.sent();
        let limit = left.min(self.settings.request_timeout);
        let sent = self.client.send(&line.target, request, self.settings.answer_limit);
        match timeout(limit, sent).await {
            Ok(ended) => judge(ended, moment()),
            Err(_) if message.deadline <= moment() => Verdict::Final(late()),
            Err(_) => judge(Err(ClientError::Lost(format!("no answer in {limit:?}"))), moment()),
        }
    }
}

fn request(line: &Line, message: &Message, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    let path = if message.endpoint.is_empty() { &line.queue.path } else { &message.endpoint };
    // Whoever may submit work may not do anything else that the server can be asked for.
    if *path != line.queue.path && !is_work(path) {
        return Err(format!("{path:?} is not a path of the API that takes work"));
    }
    let headers = DispatchHeaders {
        id: &message.id,
        priority: BAND_NAMES[line.queue.band as usize],
        objective: line.queue.objective.as_deref(),
        tenant: &message.tenant,
        own: &message.headers,
        metadata: &message.metadata,
    };
    let request = Request::post(path.as_str()).body(Full::new(body));
    let mut request = request.map_err(|error| error.to_string())?;
    *request.headers_mut() = headers.to_header_map();
    Ok(request)
}

fn cancelled() -> Outcome {
    Outcome::failed(Outcome::CANCELLED, "it was cancelled")
}

fn late() -> Outcome {
    Outcome::failed(Outcome::DEADLINE, "its deadline passed before there was an answer")
}

fn can_wait(error: &StoreError) -> bool {
    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Full)
}

/// From 0 to 1, to spread what would happen at once.
fn chance() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = RandomState::new().hash_one(moment().millis()) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

async fn read(body: &Body) -> io::Result<Bytes> {
    match body {
        Body::Bytes(bytes) => Ok(bytes.clone()),
        Body::Gone => Err(io::ErrorKind::NotFound.into()),
        Body::Slice { file, offset, length } => {
            let (file, offset, length) = (file.clone(), *offset, *length);
            let read = tokio::task::spawn_blocking(move || slice(&file, offset, length));
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

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        self.dispatcher.held().remove(&self.held);
        self.dispatcher.freed.notify_one();
    }
}
