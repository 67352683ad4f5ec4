//! The calls of Pub/Sub.
//!
//! The engine has no network of its own: its owner gives it the way to the server, with TLS and
//! credentials ([`PubSubCalls`]).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::wire::{
    AcknowledgeRequest, Empty, GetRequest, ModifyAckDeadlineRequest, PublishRequest, PubsubMessage,
    PullRequest, PullResponse, ReceivedMessage, Subscription,
};
use crate::error::{ErrorKind, StoreError};

/// How long a call may take, and a pull, for which the server waits until a message comes.
const LIMIT: Duration = Duration::from_secs(20);
const PULL_LIMIT: Duration = Duration::from_secs(90);
/// The most messages in one call. A request has at most 512 KiB, and an id of a delivery has some
/// hundred bytes.
const IDS_MAX: usize = 500;

const PULL: &str = "/google.pubsub.v1.Subscriber/Pull";
const ACKNOWLEDGE: &str = "/google.pubsub.v1.Subscriber/Acknowledge";
const MODIFY_ACK_DEADLINE: &str = "/google.pubsub.v1.Subscriber/ModifyAckDeadline";
const GET_SUBSCRIPTION: &str = "/google.pubsub.v1.Subscriber/GetSubscription";
const PUBLISH: &str = "/google.pubsub.v1.Publisher/Publish";
const GET_TOPIC: &str = "/google.pubsub.v1.Publisher/GetTopic";

/// The codes of gRPC that matter here.
const CANCELLED: u32 = 1;
const UNKNOWN: u32 = 2;
const INVALID_ARGUMENT: u32 = 3;
const DEADLINE_EXCEEDED: u32 = 4;
const NOT_FOUND: u32 = 5;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const FAILED_PRECONDITION: u32 = 9;
const ABORTED: u32 = 10;
const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

/// The future of a call: the encoded response.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// The way to the server: calls of gRPC that have one message and one response.
pub trait PubSubCalls: fmt::Debug + Send + Sync {
    /// Calls a method, such as `/google.pubsub.v1.Subscriber/Pull`, with an encoded message. The
    /// server may take as long as `limit`.
    fn call(&self, method: &'static str, message: Bytes, limit: Duration) -> CallFuture<'_>;
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The code of gRPC.
    pub code: u32,
    /// The description.
    pub text: String,
}

/// The calls, with their messages.
#[derive(Clone, Debug)]
pub(super) struct Calls(pub(super) Arc<dyn PubSubCalls>);

// === impl Calls ===

impl Calls {
    /// Receives at most this many messages. The server waits until it has one, or for a while.
    pub(super) async fn pull(
        &self,
        subscription: &str,
        max: usize,
        return_immediately: bool,
    ) -> Result<Vec<ReceivedMessage>, CallError> {
        let request = PullRequest {
            subscription: subscription.to_owned(),
            return_immediately,
            max_messages: i32::try_from(max).unwrap_or(i32::MAX),
        };
        match self.call::<PullResponse>(PULL, &request, PULL_LIMIT).await {
            Ok(response) => Ok(response.received_messages),
            // No message came in that time.
            Err(error) if error.code == DEADLINE_EXCEEDED => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Keeps deliveries for this many seconds from now; 0 gives them back. Returns the ids of those
    /// that the server no longer knows. Only a subscription with exactly-once delivery says so.
    pub(super) async fn modify_ack_deadline(
        &self,
        subscription: &str,
        ack_ids: &[String],
        seconds: i32,
    ) -> Result<Vec<String>, CallError> {
        let mut gone = Vec::new();
        for some in ack_ids.chunks(IDS_MAX) {
            match self.modify(subscription, some.to_vec(), seconds).await {
                // One id that is gone fails the call of all.
                Err(error) if error.is_about_ids() => {
                    gone.extend(self.modify_each(subscription, some, seconds).await?);
                }
                modified => modified?,
            }
        }
        Ok(gone)
    }

    async fn modify_each(
        &self,
        subscription: &str,
        ack_ids: &[String],
        seconds: i32,
    ) -> Result<Vec<String>, CallError> {
        let mut gone = Vec::new();
        for id in ack_ids {
            match self.modify(subscription, vec![id.clone()], seconds).await {
                Err(error) if error.is_about_ids() => gone.push(id.clone()),
                modified => modified?,
            }
        }
        Ok(gone)
    }

    async fn modify(
        &self,
        subscription: &str,
        ack_ids: Vec<String>,
        seconds: i32,
    ) -> Result<(), CallError> {
        let request = ModifyAckDeadlineRequest {
            subscription: subscription.to_owned(),
            ack_deadline_seconds: seconds,
            ack_ids,
        };
        self.call::<Empty>(MODIFY_ACK_DEADLINE, &request, LIMIT).await.map(|_| ())
    }

    /// Ends messages. Those that the server no longer knows by these ids are delivered again.
    pub(super) async fn acknowledge(
        &self,
        subscription: &str,
        ack_ids: &[String],
    ) -> Result<(), CallError> {
        for some in ack_ids.chunks(IDS_MAX) {
            let request = AcknowledgeRequest {
                subscription: subscription.to_owned(),
                ack_ids: some.to_vec(),
            };
            match self.call::<Empty>(ACKNOWLEDGE, &request, LIMIT).await {
                Err(error) if !error.is_about_ids() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Publishes a message. The server has it when this resolves.
    pub(super) async fn publish(
        &self,
        topic: &str,
        message: PubsubMessage,
    ) -> Result<(), CallError> {
        let request = PublishRequest { topic: topic.to_owned(), messages: vec![message] };
        self.call::<Empty>(PUBLISH, &request, LIMIT).await.map(|_| ())
    }

    /// A subscription; `None` if the caller may not read it, although it may receive from it.
    pub(super) async fn subscription(&self, name: &str) -> Result<Option<Subscription>, CallError> {
        let request = GetRequest { name: name.to_owned() };
        if_allowed(self.call(GET_SUBSCRIPTION, &request, LIMIT).await)
    }

    /// Fails if a topic does not exist.
    pub(super) async fn topic(&self, name: &str) -> Result<(), CallError> {
        let request = GetRequest { name: name.to_owned() };
        if_allowed(self.call::<Empty>(GET_TOPIC, &request, LIMIT).await).map(|_| ())
    }

    async fn call<R: prost::Message + Default>(
        &self,
        method: &'static str,
        request: &impl prost::Message,
        limit: Duration,
    ) -> Result<R, CallError> {
        let response = self.0.call(method, request.encode_to_vec().into(), limit).await?;
        R::decode(response).map_err(|error| CallError {
            code: CallError::INTERNAL,
            text: format!("the response to {method} cannot be decoded: {error}"),
        })
    }
}

/// The right to receive or to publish does not include that to read the settings.
fn if_allowed<R>(read: Result<R, CallError>) -> Result<Option<R>, CallError> {
    match read {
        Err(error) if error.code == PERMISSION_DENIED => Ok(None),
        read => read.map(Some),
    }
}

// === impl CallError ===

impl CallError {
    /// The code of a server that breaks the protocol.
    pub const INTERNAL: u32 = 13;
    /// The code of a server that cannot be reached.
    pub const UNAVAILABLE: u32 = 14;

    /// Whether the server does not know the ids of deliveries.
    fn is_about_ids(&self) -> bool {
        matches!(self.code, INVALID_ARGUMENT | FAILED_PRECONDITION)
    }

    /// Whether the same call may succeed soon: the codes after which Google's clients publish
    /// again. After any other, the topic is the reason.
    pub(super) fn is_transient(&self) -> bool {
        matches!(
            self.code,
            CANCELLED
                | UNKNOWN
                | DEADLINE_EXCEEDED
                | RESOURCE_EXHAUSTED
                | ABORTED
                | Self::INTERNAL
                | Self::UNAVAILABLE
        )
    }

    /// The error as callers of the store see it, about a topic or a subscription.
    pub(super) fn about(self, resource: &str) -> StoreError {
        let kind = match self.code {
            // A detached subscription fails a precondition.
            INVALID_ARGUMENT | NOT_FOUND | PERMISSION_DENIED | FAILED_PRECONDITION
            | UNIMPLEMENTED | UNAUTHENTICATED => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        let remedy = match self.code {
            NOT_FOUND => " (create it, or correct its name)",
            PERMISSION_DENIED => {
                " (the account needs the roles pubsub.subscriber and \
                                  pubsub.publisher)"
            }
            _ => "",
        };
        StoreError::new(kind, format!("{resource}: {}{remedy}", self.text)).caused_by(self)
    }

    /// The same for a call that a later retry repeats, whatever the reason: an operator may create
    /// a topic or give a right meanwhile.
    pub(super) fn retried(self, resource: &str) -> StoreError {
        let mut error = self.about(resource);
        error.kind = ErrorKind::Unavailable;
        error
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CallError {}
