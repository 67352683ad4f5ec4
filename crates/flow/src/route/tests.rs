//! R01 to R05, R07 and R10: the source's chart and scenarios, every term by itself, properties.

mod affinity;
mod chart;
mod limits;
mod model_names;
mod properties;
mod terms;
mod weights;

use super::*;
use crate::ask::{BANDS, BackendId, Band};

/// The source's three backends, the fastest first.
const NVIDIA: u32 = 0;
const IGPU: u32 = 1;
const NPU: u32 = 2;

fn backend(at: u32, power_watts: f32, latency_ms: f32) -> Candidate {
    let traits = BackendTraits { power_watts, latency_ms };
    Candidate { traits, ..Candidate::new(at, BackendId(at)) }
}

fn nvidia() -> Candidate {
    backend(NVIDIA, 55.0, 150.0)
}

fn igpu() -> Candidate {
    backend(IGPU, 12.0, 400.0)
}

fn npu() -> Candidate {
    backend(NPU, 3.0, 800.0)
}

fn trio() -> [Candidate; 3] {
    [nvidia(), igpu(), npu()]
}

/// Equal backends with these asks in flight each, from best-effort to critical.
fn equals<const N: usize>(pending: [[u32; BANDS]; N]) -> [Candidate; N] {
    let mut at = 0;
    pending.map(|pending| {
        at += 1;
        Candidate { pending, ..Candidate::new(at - 1, BackendId(at - 1)) }
    })
}

fn preference(band: Band) -> RoutePreference {
    RoutePreference { band, ..RoutePreference::default() }
}

fn weights(change: impl FnOnce(&mut RouteTerms)) -> RouteWeights {
    let mut terms = RouteTerms::default();
    change(&mut terms);
    RouteWeights::new(terms).unwrap()
}

fn pick(preference: &RoutePreference, candidates: &[Candidate]) -> RouteChoice {
    pick_by(&RouteWeights::default(), preference, candidates)
}

fn pick_by(
    weights: &RouteWeights,
    preference: &RoutePreference,
    candidates: &[Candidate],
) -> RouteChoice {
    choose(preference, weights, candidates.iter().copied()).expect("there is a candidate")
}
