//! The kind `constant`: always the same free share.

use flow::budget::Basis;

use super::{GateContext, GateKind, Kind, KindDeclaration, OpenGate, Source};
use crate::gates::error::SetupError;
use crate::gates::reading::capacity;
use crate::gates::settings::GateSettings;
use crate::schema::{Range, Section, ValueType, Variant, key};

pub(super) const KIND: KindDeclaration = KindDeclaration {
    variant: Variant {
        name: "constant",
        aliases: &[],
        doc: "Always the same share.",
        keys: &[key("value", ValueType::Number(Range::closed(0.0, 1.0)), "The free share.")
            .default("1")],
    },
    read,
    knows_capacity: false,
    counts_servers: false,
};

/// The settings of the kind `constant`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantGate {
    /// The free share, from 0 to 1.
    pub free: f64,
}

fn read(section: &Section<'_>) -> Option<GateKind> {
    Some(GateKind::Constant(ConstantGate { free: section.get("value") }))
}

// === impl ConstantGate ===

impl Kind for ConstantGate {
    fn declaration(&self) -> &'static KindDeclaration {
        &KIND
    }

    fn open(&self, gate: &GateSettings, _: &GateContext) -> Result<OpenGate, SetupError> {
        let free = self.free;
        if !(0.0..=1.0).contains(&free) {
            return Err(SetupError::FreeShare(free));
        }
        let capacity = capacity(&gate.capacity, None, None).map_err(|_| SetupError::NoCapacity)?;
        let source = Source::Fixed { free, capacity };
        Ok(OpenGate::new(source, format!("always {free}"), Basis::Stated))
    }
}
