//! How much a message counts at the gates of its queue.
//!
//! A gate in tokens counts the prompt and the output, because both fill the memory of an engine.
//! The output is not known before the response. It counts as its limit (`max_tokens`), but at most
//! as twice the longest output of the queue so far; without a limit as the longest one. So a limit
//! that nothing uses does not stop the queue, and the usage of each response corrects the next
//! estimate.

use flow::ModelId;
use serde::Deserialize;
use serde::de::IgnoredAny;
use store::{Message, Outcome};

use super::ServedQueue;
use super::delivery::read;
use super::outgoing_request::path;
use crate::gates::RequestSize;
use crate::ingress::{BYTES_PER_TOKEN, TokenClaim};

/// The queues have histories of their own, which do not tell models apart.
const ANY_MODEL: ModelId = ModelId(0);

/// The size of a message, as far as its body says it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageSize {
    bytes: u64,
    /// `None` if no gate counts tokens, or the body cannot be read.
    claim: Option<TokenClaim>,
}

/// The part of a response that says how long the output was.
#[derive(Deserialize)]
struct Answer {
    usage: Usage,
    #[serde(default)]
    choices: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(alias = "output_tokens")]
    completion_tokens: u64,
}

// === impl ServedQueue ===

impl ServedQueue {
    /// Measures a message. Its body is read only if a gate counts tokens.
    pub(super) async fn measure(&self, message: &Message) -> MessageSize {
        let bytes = message.body.length();
        // A message whose body cannot be read is not sent; its delivery says why.
        let claim = match self.counts_tokens {
            true => read(&message.body).await.ok(),
            false => None,
        };
        let claim = claim.map(|body| TokenClaim::of(path(&self.queue, message, &body), &body));
        MessageSize { bytes, claim }
    }

    /// The size of a message at the gates, by what is known of outputs now.
    pub(super) fn size_at_gates(&self, size: MessageSize) -> RequestSize {
        let MessageSize { bytes, claim } = size;
        let (most, usual) = (self.outputs.bound(ANY_MODEL), self.outputs.longest(ANY_MODEL));
        let tokens = claim.map(|claim| claim.expected(most, usual));
        RequestSize { bytes, tokens: tokens.unwrap_or(bytes.div_ceil(BYTES_PER_TOKEN)) }
    }

    /// Learns how long the output of a response was.
    pub(super) fn note_output(&self, outcome: &Outcome) {
        if let Outcome::Answered { status: 200..300, body } = outcome
            && self.counts_tokens
            && let Ok(answer) = serde_json::from_slice::<Answer>(body)
        {
            let choices = answer.choices.len().max(1) as u64;
            self.outputs.note(ANY_MODEL, answer.usage.completion_tokens.div_ceil(choices));
        }
    }
}
