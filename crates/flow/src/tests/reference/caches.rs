//! What backends have cached, as lists of blocks, and who goes first for it.

use super::{FlowQueue, Record, Reference};
use crate::{Band, PromptBlocks};

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

    /// The asks of these flow queues that may go, in the order of their turns.
    fn candidates(&self, within: &[usize]) -> Vec<usize> {
        let of_line = |&flow_queue: &usize| {
            let mut line = self.next_asks_of(flow_queue);
            if !self.may_pass(flow_queue) {
                line.truncate(1);
            }
            line
        };
        within.iter().flat_map(of_line).collect()
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
        let mut left = self.candidates(&self.within_slack(turn, able));
        let mut own = Some(self.step_of(first, bound));
        if let Some(delay) = self.delay_of(first) {
            self.put_off(first, delay);
            left.retain(|&ask| ask != first);
            own = None;
        }
        let mut chosen = None;
        while chosen.is_none() {
            let steps: Vec<u64> = left.iter().map(|&ask| self.step_of(ask, bound)).collect();
            let Some(&most) = steps.iter().max().filter(|&&most| most > 0) else { break };
            if own.is_some_and(|own| own + 1 >= most) {
                break;
            }
            let enough = |&step: &u64| step > 0 && step + 1 >= most;
            let at = steps.iter().position(enough).expect("the one with the most has enough");
            let ask = left.remove(at);
            chosen = self.goes_now(ask).then_some(ask);
        }
        let chosen = chosen.or(own.map(|_| first));
        let chosen = chosen.or_else(|| left.into_iter().find(|&ask| !self.is_put_off(ask)));
        let FlowQueue { pool, band, tag, .. } = self.flow_queues[turn];
        let held_since = &mut self.held_since[pool][band.index()];
        let Some(chosen) = chosen else {
            held_since.get_or_insert(self.clock);
            return None;
        };
        *held_since = None;
        self.count_pass(chosen);
        let other = self.asks[chosen].flow_queue != turn;
        Some((chosen, other.then(|| tag.expect("an active flow queue has a tag"))))
    }

    fn goes_now(&mut self, ask: usize) -> bool {
        self.asks[ask].deadline > self.clock && !self.is_put_off(ask)
    }

    /// Whether an ask waits for a cache. If it is the first one of its flow queue, its wait begins.
    fn is_put_off(&mut self, ask: usize) -> bool {
        let Some(delay) = self.delay_of(ask) else { return false };
        if ask == self.first_ask_of(self.asks[ask].flow_queue) {
            self.put_off(ask, delay);
        }
        true
    }

    fn count_pass(&mut self, ask: usize) {
        let flow_queue = self.asks[ask].flow_queue;
        let first = self.first_ask_of(flow_queue);
        if ask != first {
            let [turn, first] = [ask, first].map(|at| self.turn_in_line(at));
            let passed_by = &mut self.flow_queues[flow_queue].passed_by;
            passed_by.retain(|&other| other > first);
            passed_by.push(turn);
        }
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

    /// Whether an ask may go before the first one of its flow queue.
    fn may_pass(&self, flow_queue: usize) -> bool {
        let first = self.turn_in_line(self.first_ask_of(flow_queue));
        let FlowQueue { passed_by, band, .. } = &self.flow_queues[flow_queue];
        let waiting = self.waiting().filter(|&at| self.asks[at].flow_queue == flow_queue).count();
        let most = (waiting / 2).min(self.settings.cache_reorder as usize);
        *band != Band::Critical && passed_by.iter().filter(|&&turn| turn > first).count() < most
    }

    /// How much of an ask's prompt a backend with room has cached: the number of steps of a
    /// sixteenth of a power of two.
    fn step_of(&self, ask: usize, bound: u64) -> u64 {
        let Record { flow_queue, prompt, .. } = &self.asks[ask];
        let usable = self.usable(*flow_queue, bound).into_iter();
        let cached = usable.map(|at| self.cached_at(at, prompt)).max().unwrap_or(0);
        let steps = (0..40).flat_map(|power| (16_u64..32).map(move |part| part << power));
        steps.take_while(|&step| step <= cached << 4).count() as u64
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
