//! The messages of Pub/Sub's gRPC interface (`google/pubsub/v1/pubsub.proto`) that this engine
//! exchanges, with the fields that it uses.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A moment.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

/// A message as its publisher gave it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PubsubMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) data: Bytes,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) attributes: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub(super) message_id: String,
    #[prost(message, optional, tag = "4")]
    pub(super) publish_time: Option<Timestamp>,
    #[prost(string, tag = "5")]
    pub(super) ordering_key: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PublishRequest {
    #[prost(string, tag = "1")]
    pub(super) topic: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) messages: Vec<PubsubMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PullRequest {
    #[prost(string, tag = "1")]
    pub(super) subscription: String,
    #[prost(bool, tag = "2")]
    pub(super) return_immediately: bool,
    #[prost(int32, tag = "3")]
    pub(super) max_messages: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PullResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) received_messages: Vec<ReceivedMessage>,
}

/// A message on loan. Each delivery has an `ack_id` of its own.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReceivedMessage {
    #[prost(string, tag = "1")]
    pub(super) ack_id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) message: Option<PubsubMessage>,
    /// How often it was delivered, this time included; 0 without a dead-letter policy.
    #[prost(int32, tag = "3")]
    pub(super) delivery_attempt: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModifyAckDeadlineRequest {
    #[prost(string, tag = "1")]
    pub(super) subscription: String,
    #[prost(int32, tag = "3")]
    pub(super) ack_deadline_seconds: i32,
    #[prost(string, repeated, tag = "4")]
    pub(super) ack_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AcknowledgeRequest {
    #[prost(string, tag = "1")]
    pub(super) subscription: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) ack_ids: Vec<String>,
}

/// A request for one resource by its name: a topic or a subscription.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Subscription {
    #[prost(message, optional, tag = "13")]
    pub(super) dead_letter_policy: Option<DeadLetterPolicy>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeadLetterPolicy {
    #[prost(string, tag = "1")]
    pub(super) dead_letter_topic: String,
}

/// A response of which nothing is read.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Empty {}
