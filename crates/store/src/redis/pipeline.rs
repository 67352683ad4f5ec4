//! Commands, and the pipelines in which they are sent.

use redis::{Cmd, Script, ToRedisArgs};

use super::keys;

/// One command, and the slot of its keys.
#[derive(Clone, Debug)]
pub(super) struct Command {
    slot: u16,
    command: Cmd,
}

/// Commands that are sent to one server together.
#[derive(Clone)]
pub(super) struct Pipeline {
    pub(super) slot: u16,
    pub(super) commands: redis::Pipeline,
    /// The positions of the commands among all that were to be sent.
    pub(super) positions: Vec<usize>,
}

/// Divides commands into pipelines: one in all, or in a cluster one for each slot.
pub(super) fn pipelines(commands: Vec<Command>, cluster: bool) -> Vec<Pipeline> {
    let mut pipelines: Vec<Pipeline> = Vec::new();
    for (position, command) in commands.into_iter().enumerate() {
        let slot = if cluster { command.slot } else { 0 };
        let found = pipelines.iter().position(|pipeline| pipeline.slot == slot);
        let index = found.unwrap_or_else(|| {
            let commands = redis::Pipeline::new();
            pipelines.push(Pipeline { slot, commands, positions: Vec::new() });
            pipelines.len() - 1
        });
        if let Some(pipeline) = pipelines.get_mut(index) {
            pipeline.commands.add_command(command.command);
            pipeline.positions.push(position);
        }
    }
    pipelines
}

// === impl Command ===

impl Command {
    /// A command whose first argument is its key or its channel.
    pub(super) fn new(name: &str, key: &str) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key);
        Self { slot: keys::slot(key), command }
    }

    /// Tells the dispatchers of all queues that `queue` may have changed.
    pub(super) fn publish_change(queue: &str) -> Self {
        Self::new("PUBLISH", keys::NUDGE).arg(queue)
    }

    /// A script. All keys must be in the slot of the first.
    pub(super) fn script(script: &Script, keys: &[&str]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(keys.len()).arg(keys);
        Self { slot: keys.first().map_or(0, |key| keys::slot(key)), command }
    }

    /// Adds an argument, or several.
    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }
}
