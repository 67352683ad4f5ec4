//! The names and numbers that stand for a band, in the configuration and in each request header.
//!
//! An unknown name is ignored in a header and refused in the configuration.

use flow::Band;

use crate::schema::{Keyword, Keywords, find};

/// The values of `X-Nexus-Priority`. In Nexus every other value means normal.
const NEXUS_PRIORITY: Keywords<Band> = &[("high", Band::High), ("normal", Band::Normal)];

/// The values of `X-Media-Type` that imply a band.
const MEDIA_TYPE: Keywords<Band> = &[("realtime", Band::Critical), ("audio", Band::High)];

/// The values of OpenAI's `service_tier` that imply a band; `auto` leaves it to the gateway.
const SERVICE_TIER: Keywords<Band> =
    &[("default", Band::Normal), ("flex", Band::BestEffort), ("priority", Band::High)];

/// The band of a name, in `X-Priority` and in the configuration.
pub(crate) fn band(name: &str) -> Option<Band> {
    find(name)
}

/// The band of a priority number, as the Gateway API counts priorities: a request below 0 may be
/// shed, and 0 is the priority of a request that states none.
pub(crate) fn numbered_band(priority: i64) -> Band {
    match priority {
        ..0 => Band::BestEffort,
        0 => Band::Normal,
        1..10 => Band::High,
        10.. => Band::Critical,
    }
}

/// The band of a value of `X-Nexus-Priority`.
pub(crate) fn nexus_priority(name: &str) -> Option<Band> {
    among(NEXUS_PRIORITY, name)
}

/// The band of a value of `X-Media-Type`.
pub(crate) fn media_type(name: &str) -> Option<Band> {
    among(MEDIA_TYPE, name)
}

/// The band of a value of `service_tier`.
pub(crate) fn service_tier(name: &str) -> Option<Band> {
    among(SERVICE_TIER, name)
}

fn among(names: Keywords<Band>, name: &str) -> Option<Band> {
    names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, band)| band)
}

// === impl Keyword ===

impl Keyword for Band {
    /// With the names that other projects give to bands.
    const SPELLINGS: Keywords<Self> = &[
        ("critical", Self::Critical),
        ("high", Self::High),
        ("normal", Self::Normal),
        ("best-effort", Self::BestEffort),
        ("default", Self::Normal),
        ("standard", Self::Normal),
        ("sheddable", Self::BestEffort),
        ("low", Self::BestEffort),
        ("realtime", Self::Critical),
    ];
}
