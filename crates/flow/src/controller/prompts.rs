//! The prompts of asks at their backends: which prompts are believed to be in a prefix cache, and
//! how much a backend still has to compute before it can start another prompt.
//!
//! It decides among backends; the order of the queue follows it only within `cache_slack` and
//! `cache_reorder`. Nothing of it is kept while `cache_tokens` is 0.

use super::Controller;
use super::delays::CacheWait;
use crate::ask::{Ask, COST_MAX, Ticket};
use crate::outcome::{Misuse, Verdict};
use crate::prompt_blocks::PromptBlocks;
use crate::route::RoutePreference;
use crate::settings::Bounds;
use crate::time::Time;

/// The tokens of one block of a prompt.
const BLOCK_TOKENS: u64 = 64;
/// The most tokens that an engine is believed to hold, whatever it reports: no engine of today has
/// so many, and the index of one backend must not take all memory.
const CACHE_TOKENS_MAX: u64 = 1_000_000_000;

/// The prompt of a live ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskPrompt {
    pub(super) blocks: PromptBlocks,
    /// Its tokens and blocks that were expected to be cached when it was granted.
    pub(crate) cached_tokens: u32,
    cached_blocks: u32,
    /// Its tokens that count as not yet computed at its backend.
    pub(crate) uncomputed: u32,
    /// The tokens of other asks that the backend had to compute before it.
    ahead: u32,
    /// While it waits for a cache, and could go elsewhere.
    pub(crate) awaits: Option<CacheWait>,
}

/// What routing knows about an ask.
pub(super) struct RouteInput<'a> {
    pub(super) preference: RoutePreference,
    pub(super) blocks: &'a PromptBlocks,
    /// The tokens of its prompt.
    pub(super) tokens: u64,
}

/// The prompt of an ask whose text is unknown.
static UNKNOWN: PromptBlocks = PromptBlocks::UNKNOWN;

fn capped(tokens: u64) -> u32 {
    tokens.min(COST_MAX) as u32
}

// === impl RouteInput ===

impl<'a> RouteInput<'a> {
    pub(super) fn of(ask: &Ask, blocks: &'a PromptBlocks) -> Self {
        Self { preference: ask.preference(), blocks, tokens: ask.prompt }
    }
}

// === impl Controller ===

impl Controller {
    /// Like [`Controller::offer`], with the blocks of the ask's prompt: a backend that has computed
    /// them before may have them in its cache.
    pub fn offer_prompt(&mut self, ask: Ask, blocks: PromptBlocks, now: Time) -> Verdict {
        let known = self.settings.cache_tokens > 0;
        self.offer_blocks(ask, if known { blocks } else { PromptBlocks::UNKNOWN }, now)
    }

    /// The response says that the backend found `cached` of the prompt's `prompt` tokens in its
    /// cache. Report it before the ask is settled.
    pub fn cached(
        &mut self,
        ticket: Ticket,
        cached: u64,
        prompt: u64,
        now: Time,
    ) -> Result<(), Misuse> {
        self.advance(now);
        let slot = self.find_in_flight(ticket)?;
        let Some(kept) = self.prompts.get(slot as usize) else { return Ok(()) };
        let found = kept.blocks.blocks_of(cached, prompt);
        let expected = kept.cached_blocks as usize;
        let backend = self.asks[slot].backend;
        self.supply.backends[backend as usize].prefixes.correct(expected, found);
        Ok(())
    }

    /// What routing knows about an ask that waits.
    pub(super) fn route_input_of(&self, slot: u32) -> RouteInput<'_> {
        let blocks = self.prompts.get(slot as usize).map_or(&UNKNOWN, |kept| &kept.blocks);
        let tokens = self.asks[slot].prompt();
        RouteInput { preference: self.preference_of(slot), blocks, tokens }
    }

    /// The tokens of a prompt that were expected to be cached when its ask was granted.
    pub(super) fn expected_cached(&self, slot: u32) -> u32 {
        self.prompts.get(slot as usize).map_or(0, |kept| kept.cached_tokens)
    }

    /// Keeps the prompt of an ask that was admitted.
    pub(super) fn keep_prompt(&mut self, slot: u32, blocks: &PromptBlocks) {
        if self.settings.cache_tokens == 0 {
            return;
        }
        let slot = slot as usize;
        if self.prompts.len() <= slot {
            self.prompts.resize_with(slot + 1, AskPrompt::default);
        }
        self.prompts[slot] = AskPrompt { blocks: blocks.clone(), ..AskPrompt::default() };
    }

    /// Forgets the prompt of an ask that has ended.
    pub(super) fn forget_prompt(&mut self, slot: u32) {
        self.end_cache_wait(slot, 0);
        if let Some(kept) = self.prompts.get_mut(slot as usize) {
            *kept = AskPrompt::default();
        }
    }

    /// Counts the prompt of an ask that was granted: its backend will have computed it.
    pub(super) fn send_prompt(&mut self, slot: u32) {
        let Some(kept) = self.prompts.get_mut(slot as usize) else { return };
        let record = &self.asks[slot];
        let backend = &mut self.supply.backends[record.backend as usize];
        let held = backend.prefixes.held_of(kept.blocks.hashes());
        let cached = kept.blocks.tokens_of(held, record.prompt());
        (kept.cached_blocks, kept.cached_tokens) = (held as u32, capped(cached));
        kept.ahead = capped(backend.uncomputed);
        let mut begun = Vec::new();
        let tell = |block| begun.extend(self.warm.awaits(block).then_some(block));
        backend.prefixes.enter_telling(kept.blocks.hashes(), tell);
        // Without a report of the first token it would count until the ask ends.
        let seen = record.streamed || self.settings.bounds == Bounds::Auto;
        kept.uncomputed = if seen { capped(record.prompt() - cached) } else { 0 };
        backend.uncomputed += u64::from(kept.uncomputed);
        let backend = record.backend;
        self.end_cache_wait(slot, cached);
        self.look_again_for(&begun, backend);
    }

    /// Takes the prompt of an ask out of the count of its backend: it has been computed, or the ask
    /// is no longer there. Returns the tokens that it counted as, and those ahead of it.
    pub(super) fn prompt_left(&mut self, slot: u32) -> (u64, u64) {
        let Some(kept) = self.prompts.get_mut(slot as usize) else { return (0, 0) };
        let own = u64::from(std::mem::take(&mut kept.uncomputed));
        self.supply.backends[self.asks[slot].backend as usize].uncomputed -= own;
        (own, u64::from(kept.ahead))
    }

    /// The backend of an ask in flight has not computed its prompt: it failed the ask, or another
    /// backend served it.
    pub(super) fn prompt_failed(&mut self, slot: u32) {
        let Some(kept) = self.prompts.get(slot as usize) else { return };
        let prefixes = &mut self.supply.backends[self.asks[slot].backend as usize].prefixes;
        prefixes.withdraw(kept.blocks.hashes(), kept.cached_blocks as usize);
    }

    /// Forgets all prompts, or lets backends hold as many blocks as the settings and the engines
    /// say, because either has changed.
    pub(super) fn fit_prefix_indexes(&mut self) {
        let usual = self.settings.cache_tokens;
        for backend in &mut self.supply.backends {
            let tokens = if usual == 0 { 0 } else { backend.kv_tokens.unwrap_or(usual) };
            backend.prefixes.resize((tokens.min(CACHE_TOKENS_MAX) / BLOCK_TOKENS) as u32);
            if usual == 0 {
                backend.uncomputed = 0;
            }
        }
        if usual == 0 {
            self.prompts.clear();
        }
    }
}
