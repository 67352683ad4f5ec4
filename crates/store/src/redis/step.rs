//! What is asked of the server in one go.

use redis::{Cmd, Pipeline, Script, ToRedisArgs};

use super::keys;

/// One command, and the slot of what it touches.
#[derive(Clone, Debug)]
pub(super) struct Step {
    slot: u16,
    command: Cmd,
}

/// Commands that go to one server, one after the other.
#[derive(Clone)]
pub(super) struct Parcel {
    pub(super) slot: u16,
    pub(super) commands: Pipeline,
    /// Which of the steps they are.
    pub(super) places: Vec<usize>,
}

/// Steps as they are sent: all in one parcel, or in a cluster one for each slot.
pub(super) fn parcels(steps: Vec<Step>, cluster: bool) -> Vec<Parcel> {
    let mut parcels: Vec<Parcel> = Vec::new();
    for (place, step) in steps.into_iter().enumerate() {
        let slot = if cluster { step.slot } else { 0 };
        let found = parcels.iter().position(|parcel| parcel.slot == slot);
        let index = found.unwrap_or_else(|| {
            parcels.push(Parcel { slot, commands: Pipeline::new(), places: Vec::new() });
            parcels.len() - 1
        });
        if let Some(parcel) = parcels.get_mut(index) {
            parcel.commands.add_command(step.command);
            parcel.places.push(place);
        }
    }
    parcels
}

// === impl Step ===

impl Step {
    /// A command whose first argument is its key, or a channel.
    pub(super) fn new(name: &str, key: &str) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key);
        Self { slot: keys::slot(key), command }
    }

    /// A script. All keys are in the slot of the first.
    pub(super) fn script(script: &Script, keys: &[&str]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(keys.len()).arg(keys);
        Self { slot: keys.first().map_or(0, |key| keys::slot(key)), command }
    }

    /// With a further argument, or with several.
    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }
}
