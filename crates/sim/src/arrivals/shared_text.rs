//! Prompts that begin like earlier ones: a set of long beginnings, or the turns of conversations.

use std::sync::Arc;

use super::Request;
use crate::random::Random;
use crate::trace::{SEGMENT_TOKENS, TOKENS_MAX};

/// What the prompts of one stream share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedText {
    /// Each prompt has one of these beginnings in front of its own text.
    Beginnings {
        /// How many beginnings there are.
        count: u32,
        /// The length of each, in segments of [`SEGMENT_TOKENS`].
        segments: u32,
    },
    /// Each request is the next turn of one of these conversations: its prompt is all that was said
    /// before, and its own text.
    Conversations {
        /// How many conversations go on at a time.
        count: u32,
        /// After so many turns another conversation begins in its place.
        turns: u32,
    },
}

/// Gives requests their text.
#[derive(Clone, Debug)]
pub struct PromptWriter {
    shared: SharedText,
    random: Random,
    /// The ids of the shared segments begin here.
    base: u64,
    /// How many segments are of one request alone.
    unshared: u64,
    conversations: Vec<Conversation>,
}

#[derive(Clone, Copy, Debug)]
struct Conversation {
    id: u64,
    turns: u32,
    /// What was said so far.
    tokens: u32,
}

/// The ids of a conversation's segments stand in a range of their own.
const CONVERSATION_IDS: u64 = 1 << 24;

// === impl PromptWriter ===

impl PromptWriter {
    /// A writer whose prompts share nothing with those of another generator.
    pub fn new(shared: SharedText, random: &Random) -> Self {
        let mut random = random.fork("shared text");
        let base = random.bits();
        let count = match shared {
            SharedText::Beginnings { .. } => 0,
            SharedText::Conversations { count, .. } => u64::from(count),
        };
        let begin = |id| Conversation { id, turns: 0, tokens: 0 };
        let conversations = (0..count).map(begin).collect();
        Self { shared, random, base, unshared: 0, conversations }
    }

    /// The same request with its text: its drawn prompt comes after what is shared.
    pub fn write(&mut self, request: Request) -> Request {
        match self.shared {
            SharedText::Beginnings { count, segments } => {
                let beginning = self.random.below(u64::from(count)) * u64::from(segments);
                let first = self.base.wrapping_add(beginning);
                self.extend(request, first, segments * SEGMENT_TOKENS, segments)
            }
            SharedText::Conversations { turns, .. } => self.next_turn(request, turns),
        }
    }

    fn next_turn(&mut self, request: Request, turns_max: u32) -> Request {
        let at = self.random.below(self.conversations.len() as u64) as usize;
        let Conversation { id, turns, tokens } = self.conversations[at];
        let first = self.base.wrapping_add(id * CONVERSATION_IDS);
        let whole = (tokens + request.prompt) / SEGMENT_TOKENS;
        let said = tokens.saturating_add(request.prompt).saturating_add(request.output);
        self.conversations[at] = match turns + 1 < turns_max {
            true => Conversation { id, turns: turns + 1, tokens: said.min(TOKENS_MAX) },
            false => {
                let id = id + self.conversations.len() as u64;
                Conversation { id, turns: 0, tokens: 0 }
            }
        };
        self.extend(request, first, tokens, whole)
    }

    /// Puts text in front of a request's own, with `named` segments whose ids begin with `first`.
    fn extend(&mut self, request: Request, first: u64, before: u32, named: u32) -> Request {
        let prompt = before.saturating_add(request.prompt).min(TOKENS_MAX);
        let ids = (0..u64::from(named)).map(|at| first.wrapping_add(at));
        let mut prefix: Vec<u64> = ids.collect();
        for _ in named..prompt.div_ceil(SEGMENT_TOKENS) {
            self.unshared += 1;
            prefix.push(self.base.wrapping_sub(self.unshared));
        }
        Request { prompt, prefix: Arc::from(prefix), ..request }
    }
}

#[cfg(test)]
mod tests {
    use flow::Time;

    use super::*;

    fn request(prompt: u32) -> Request {
        Request { at: Time::ZERO, client: 0, prompt, output: 100, prefix: Arc::default() }
    }

    fn common(one: &Request, other: &Request) -> usize {
        one.prefix.iter().zip(other.prefix.iter()).take_while(|(one, other)| one == other).count()
    }

    #[test]
    fn k02_prompts_have_one_of_the_beginnings_and_text_of_their_own() {
        let shared = SharedText::Beginnings { count: 3, segments: 4 };
        let mut writer = PromptWriter::new(shared, &Random::new(1));
        let written: Vec<Request> = (0..60).map(|_| writer.write(request(600))).collect();
        assert!(written.iter().all(|one| one.prompt == 4 * 512 + 600 && one.prefix.len() == 6));
        for (at, one) in written.iter().enumerate() {
            let same: Vec<usize> = written[..at].iter().map(|other| common(one, other)).collect();
            assert!(same.iter().all(|&count| count == 0 || count == 4), "{same:?}");
        }
        let firsts: std::collections::BTreeSet<u64> =
            written.iter().map(|one| one.prefix[0]).collect();
        assert_eq!(firsts.len(), 3);
    }

    #[test]
    fn k02_a_turn_repeats_what_was_said_until_the_conversation_ends() {
        let shared = SharedText::Conversations { count: 1, turns: 3 };
        let mut writer = PromptWriter::new(shared, &Random::new(1));
        let turns: Vec<Request> = (0..4).map(|_| writer.write(request(1000))).collect();
        let prompts: Vec<u32> = turns.iter().map(|turn| turn.prompt).collect();
        assert_eq!(prompts, [1000, 2100, 3200, 1000]);
        assert_eq!(common(&turns[0], &turns[1]), 1, "a whole segment of 512 tokens");
        assert_eq!(common(&turns[1], &turns[2]), 4);
        assert_eq!(common(&turns[2], &turns[3]), 0);
    }

    #[test]
    fn k02_streams_share_nothing() {
        let shared = SharedText::Beginnings { count: 1, segments: 2 };
        let [one, other] =
            [1, 2].map(|seed| PromptWriter::new(shared, &Random::new(seed)).write(request(1)));
        assert_eq!(common(&one, &other), 0);
    }
}
