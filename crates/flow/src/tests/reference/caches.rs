//! What backends have cached, as lists of blocks, and who goes first for it.

use super::{FlowQueue, Record, Reference};
use crate::PromptBlocks;

/// One backend's cache and the tokens that it has to compute.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    /// From the block used longest ago to the one used last.
    blocks: Vec<u64>,
    uncomputed: u64,
}

/// The prompt of an ask.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompt {
    pub(super) blocks: PromptBlocks,
    pub(super) tokens: u64,
    /// How many later asks of its flow queue went before it.
    passed: u32,
    /// At its backend: the blocks that were held, and the tokens to compute.
    held: usize,
    uncomputed: u64,
    /// Its tokens that were expected to be cached.
    expected: u64,
    /// Since when it waits for a cache, while it could go elsewhere.
    pub(super) awaits: Option<super::waits::CacheWait>,
}

// === impl Cache ===

impl Cache {
    pub(super) fn held_of(&self, prompt: &PromptBlocks) -> usize {
        // A search by halves. After a failure there may be gaps, and this may step over them.
        let holds = |hash: &u64| self.blocks.contains(hash);
        if prompt.hashes().first().is_some_and(holds) {
            return prompt.hashes().partition_point(holds);
        }
        0
    }

    fn enter(&mut self, prompt: &PromptBlocks, capacity: usize) {
        for hash in prompt.hashes()[..prompt.hashes().len().min(capacity)].iter().rev() {
            self.blocks.retain(|held| held != hash);
            self.blocks.push(*hash);
        }
        self.blocks.drain(..self.blocks.len().saturating_sub(capacity));
    }

    /// The engine is a new one.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
    }
}

// === impl Reference ===

impl Reference {
    /// The prompt of the ask that is offered, if prompts are kept at all.
    pub(super) fn offered_prompt(&self) -> Prompt {
        let (blocks, tokens) = self.offered.clone();
        let known = self.settings.cache_tokens > 0;
        let blocks = if known { blocks } else { PromptBlocks::UNKNOWN };
        Prompt { blocks, tokens, ..Prompt::default() }
    }

    pub(super) fn cached_at(&self, backend: usize, prompt: &Prompt) -> u64 {
        let held = self.places.backends[backend].cache.held_of(&prompt.blocks);
        prompt.blocks.tokens_of(held, prompt.tokens)
    }

    /// Whether one of these backends has a part of a prompt.
    pub(super) fn is_shared(&self, among: &[usize], prompt: &Prompt) -> bool {
        among.iter().any(|&at| self.places.backends[at].cache.held_of(&prompt.blocks) > 0)
    }

    /// The price of each of these backends for a prompt, in tokens; 0 if none has a part of it.
    pub(super) fn cache_price(&self, backend: usize, among: &[usize], prompt: &Prompt) -> i64 {
        if !self.is_shared(among, prompt) {
            return 0;
        }
        let uncomputed = self.places.backends[backend].cache.uncomputed;
        let in_flight = |at: &usize| self.places.backends[*at].in_flight.iter().sum::<u32>();
        let delayed = i64::from(among.iter().map(in_flight).min().unwrap_or(0));
        uncomputed as i64 - self.cached_at(backend, prompt) as i64 * (1 + delayed)
    }

    /// The asks of these flow queues that may go, each with those of its flow queue that it passes.
    fn candidates(&self, within: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let lines = within
            .iter()
            .map(|&flow_queue| self.next_asks_of(flow_queue, (256 / within.len()).max(1)));
        let of_line = |line: Vec<usize>| {
            let allowed = (0..line.len()).filter(|&at| self.may_pass(&line[..at]));
            allowed.map(|at| (line[at], line[..at].to_vec())).collect::<Vec<_>>()
        };
        lines.flat_map(of_line).collect()
    }

    /// The ask that goes, and the tag of the flow queue whose turn it is, if that is another one.
    /// There is none if all wait for a cache.
    pub(super) fn next_ask(
        &mut self,
        turn: usize,
        able: &[usize],
        bound: u64,
    ) -> Option<(usize, Option<i128>)> {
        let first = self.first_ask_of(turn);
        if self.settings.cache_slack == 0 && self.settings.cache_reorder == 0 {
            return Some((first, None));
        }
        let within = self.within_slack(turn, able);
        let mut best = (first, Vec::new());
        let mut known = Some(self.most_cached(first, bound, None));
        if let Some(delay) = self.delay_of(first) {
            self.put_off(first, delay);
            known = None;
        }
        for (ask, passed) in self.candidates(&within) {
            let enough = known.map(|known| known + known / 16);
            let cached = self.most_cached(ask, bound, enough);
            if enough.is_some_and(|enough| cached <= enough) {
                continue;
            }
            match self.delay_of(ask) {
                None => (best, known) = ((ask, passed), Some(cached)),
                Some(delay) if passed.is_empty() => self.put_off(ask, delay),
                Some(_) => {}
            }
        }
        let FlowQueue { pool, band, tag, .. } = self.flow_queues[turn];
        let held_since = &mut self.held_since[pool][band.index()];
        if known.is_none() {
            held_since.get_or_insert(self.clock);
            return None;
        }
        *held_since = None;
        let (best, passed) = best;
        for ask in passed {
            self.asks[ask].prompt.passed += 1;
        }
        let other = self.asks[best].flow_queue != turn;
        Some((best, other.then(|| tag.expect("an active flow queue has a tag"))))
    }

    /// The flow queues that may go, the one whose turn it is first.
    fn within_slack(&self, turn: usize, able: &[usize]) -> Vec<usize> {
        let slack = i128::from(self.settings.cache_slack) << 24;
        let FlowQueue { pool, band, tag, .. } = self.flow_queues[turn];
        let least = tag.expect("an active flow queue has a tag");
        if slack == 0 || self.least_over_share(turn).is_some_and(|held| held < least) {
            return vec![turn];
        }
        let mut within: Vec<usize> = able.to_vec();
        within.retain(|&at| {
            let other = &self.flow_queues[at];
            let near = other.tag.is_some_and(|tag| tag <= least + slack);
            other.pool == pool && other.band == band && near
        });
        within.sort_by_key(|&at| (self.flow_queues[at].tag, self.flow_queues[at].moved));
        within
    }

    /// Whether an ask may go before these asks of its flow queue.
    fn may_pass(&self, before: &[usize]) -> bool {
        before.iter().all(|&at| self.asks[at].prompt.passed < self.settings.cache_reorder)
    }

    /// The most tokens of an ask's prompt that a backend with room has cached. If more than some
    /// are asked for, a backend counts only with the first block that makes them more.
    fn most_cached(&self, ask: usize, bound: u64, than: Option<u64>) -> u64 {
        let Record { flow_queue, prompt, .. } = &self.asks[ask];
        let Prompt { blocks, tokens, .. } = prompt;
        let more = |at: &usize| than.is_none_or(|than| blocks.tokens_of(at + 1, *tokens) > than);
        let Some(decisive) = (0..blocks.hashes().len()).find(more) else { return 0 };
        let mut usable = self.usable(*flow_queue, bound);
        let decisive = blocks.hashes()[decisive];
        let holds = |at: usize| self.places.backends[at].cache.blocks.contains(&decisive);
        usable.retain(|&at| than.is_none() || holds(at));
        usable.into_iter().map(|backend| self.cached_at(backend, prompt)).max().unwrap_or(0)
    }

    /// An ask has been sent to a backend.
    pub(super) fn prompt_sent(&mut self, at: usize, backend: usize) {
        let capacity = self.settings.cache_tokens as usize / 64;
        if capacity == 0 {
            return;
        }
        let cached = self.cached_at(backend, &self.asks[at].prompt);
        let prompt = &mut self.asks[at].prompt;
        let cache = &mut self.places.backends[backend].cache;
        prompt.held = cache.held_of(&prompt.blocks);
        prompt.uncomputed = prompt.tokens - cached;
        prompt.expected = cached;
        cache.enter(&prompt.blocks, capacity);
        cache.uncomputed += prompt.uncomputed;
        self.end_cache_wait(at, cached);
    }

    /// Takes what is expected to be cached out of the charge of an ask that was granted.
    pub(super) fn refund_cached(&mut self, at: usize) {
        let expected = self.asks[at].prompt.expected;
        if expected > 0 && !self.settings.charge_cached {
            let cost = u64::from(self.asks[at].cost).saturating_sub(expected).max(1);
            self.recharge(at, cost as u32);
        }
    }

    /// No response has confirmed what was expected to be cached.
    pub(super) fn take_refund_back(&mut self, at: usize) {
        let ask = &self.asks[at];
        if ask.cost < ask.estimate {
            self.recharge(at, ask.estimate);
        }
    }

    /// An ask has left its backend, after a failure before any work or for another reason.
    pub(super) fn prompt_left(&mut self, at: usize, backend: usize, failed: bool) {
        let prompt = &mut self.asks[at].prompt;
        let cache = &mut self.places.backends[backend].cache;
        cache.uncomputed -= std::mem::take(&mut prompt.uncomputed);
        if failed {
            let lost = &prompt.blocks.hashes()[prompt.held.min(prompt.blocks.hashes().len())..];
            cache.blocks.retain(|held| !lost.contains(held));
        }
    }
}
