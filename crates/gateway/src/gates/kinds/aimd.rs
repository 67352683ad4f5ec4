//! The kind `aimd`: the responses set a window. It grows by one with each round of good responses,
//! and is halved after an overload.

use flow::aimd::{Aimd, AimdSettings};
use flow::budget::Basis;

use super::{GateContext, GateKind, Kind, KindDeclaration, OpenGate, Source};
use crate::clock::span;
use crate::gates::error::SetupError;
use crate::gates::settings::GateSettings;
use crate::schema::{Section, ValueType, Variant, key};

const WINDOW: ValueType = ValueType::Count { min: 1, max: 65_536 };

pub(super) const KIND: KindDeclaration = KindDeclaration {
    variant: Variant {
        name: "aimd",
        aliases: &[],
        doc: "The responses alone: additive increase, and half of it after an overload.",
        keys: &[
            key("min", WINDOW, "The least in flight.").default("1"),
            key("max", WINDOW, "The most in flight.").default("256"),
        ],
    },
    read,
    knows_capacity: true,
    // A window needs no server count: the key is accepted without an effect.
    counts_servers: true,
};

/// The settings of the kind `aimd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AimdGate {
    /// The least number of requests in flight.
    pub min: u32,
    /// The largest number of requests in flight.
    pub max: u32,
}

fn read(section: &Section<'_>) -> Option<GateKind> {
    let (min, max) = (section.get("min"), section.get("max"));
    if max < min {
        section.refuse("max", format!("is {max}, which is less than min"));
    }
    Some(GateKind::Aimd(AimdGate { min, max }))
}

// === impl AimdGate ===

impl Kind for AimdGate {
    fn declaration(&self) -> &'static KindDeclaration {
        &KIND
    }

    fn open(&self, gate: &GateSettings, _: &GateContext) -> Result<OpenGate, SetupError> {
        let Self { min, max } = *self;
        let window = Aimd::new(AimdSettings::new(min, max, span(gate.hold))?);
        let description = format!("responses, {min} to {max} in flight");
        let open = OpenGate::new(Source::Responses, description, Basis::Stated);
        Ok(OpenGate { window: Some(window), ..open })
    }

    fn summary(&self) -> Option<String> {
        Some(format!("{} to {} in flight", self.min, self.max))
    }
}
