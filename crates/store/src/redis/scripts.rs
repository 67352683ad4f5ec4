//! What the server does in one step. Each script touches keys of one slot alone, so that all of it
//! works in a cluster, too.

use std::sync::LazyLock;

use redis::Script;

/// All scripts.
pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(Scripts::new);

/// The scripts by what they do.
pub(super) struct Scripts {
    pub(super) submit: Script,
    pub(super) claim: Script,
    pub(super) renew: Script,
    pub(super) complete: Script,
    pub(super) push: Script,
    pub(super) release: Script,
    pub(super) dead_letter: Script,
    pub(super) spoil: Script,
    pub(super) reclaim: Script,
    pub(super) promote: Script,
    pub(super) redrive: Script,
    pub(super) purge: Script,
    pub(super) take: Script,
    pub(super) forget: Script,
}

// === impl Scripts ===

impl Scripts {
    fn new() -> Self {
        Self {
            submit: Script::new(include_str!("scripts/submit.lua")),
            claim: Script::new(include_str!("scripts/claim.lua")),
            renew: Script::new(include_str!("scripts/renew.lua")),
            complete: Script::new(include_str!("scripts/complete.lua")),
            push: Script::new(include_str!("scripts/push.lua")),
            release: Script::new(include_str!("scripts/release.lua")),
            dead_letter: Script::new(include_str!("scripts/dead_letter.lua")),
            spoil: Script::new(include_str!("scripts/spoil.lua")),
            reclaim: Script::new(include_str!("scripts/reclaim.lua")),
            promote: Script::new(include_str!("scripts/promote.lua")),
            redrive: Script::new(include_str!("scripts/redrive.lua")),
            purge: Script::new(include_str!("scripts/purge.lua")),
            take: Script::new(include_str!("scripts/take.lua")),
            forget: Script::new(include_str!("scripts/forget.lua")),
        }
    }

    /// Each of them once, for the server to learn.
    pub(super) fn all(&self) -> [&Script; 14] {
        [
            &self.submit,
            &self.claim,
            &self.renew,
            &self.complete,
            &self.push,
            &self.release,
            &self.dead_letter,
            &self.spoil,
            &self.reclaim,
            &self.promote,
            &self.redrive,
            &self.purge,
            &self.take,
            &self.forget,
        ]
    }
}
