//! Tests of the metrics and of the access log.

mod access_line;
mod access_log;
mod exposition;
mod histogram;
mod label_bounds;
mod llm_d;
mod snapshot;

use std::collections::BTreeMap;

use flow::{BackendId, Band, ModelId, Span};
use http::{HeaderValue, Method};

use super::{ChargedTokens, IdNames, Record};

/// A request that a backend served at once.
pub(crate) fn served(model: &str, target: &str) -> Record {
    Record {
        request_id: HeaderValue::from_static("r-1"),
        method: Method::POST,
        path: "/v1/chat/completions".into(),
        client: String::new(),
        model: Some(model.into()),
        target: Some(target.into()),
        tenant: None,
        key: None,
        band_clamped: false,
        flow: "team-a".into(),
        band: Some(Band::Normal),
        workload: "etl".into(),
        workload_prefix: "",
        urgency: None,
        criticality: 4,
        backend: "gpu-a".into(),
        reason: "normal-balanced",
        boost: 200.0,
        score: 1450.5,
        queue_penalty: -50.0,
        attempts: 1,
        waits: false,
        status: 200,
        outcome: "ok",
        bypassed: true,
        waited: Some(Span::ZERO),
        slo_ttft: None,
        first_byte: Some(Span::from_millis(150)),
        stood_still: false,
        total: Span::from_millis(900),
        backend_first_byte: Some(Span::from_millis(140)),
        at_backend: Span::from_millis(900),
        prompt_tokens: Some(12),
        cached_tokens: None,
        cached_expected: 0,
        output_tokens: Some(300),
        usage_estimated: false,
        charged: ChargedTokens::default(),
        bytes_in: 1000,
        bytes_out: 20_000,
    }
}

/// A request that no backend served.
pub(super) fn refused(model: &str, outcome: &'static str, status: u16) -> Record {
    Record {
        backend: String::new(),
        attempts: 0,
        waits: false,
        status,
        outcome,
        bypassed: false,
        waited: None,
        first_byte: None,
        backend_first_byte: None,
        ..served(model, model)
    }
}

/// Names of backends and models, with ids in their order.
pub(super) fn named<'a>(backends: &[&'a str], models: &[&'a str]) -> IdNames<'a> {
    IdNames {
        backends: (0..).zip(backends).map(|(id, name)| (BackendId(id), *name)).collect(),
        models: (0..).zip(models).map(|(id, name)| (ModelId(id), *name)).collect(),
        subsets: BTreeMap::new(),
    }
}

/// Samples by name and labels.
pub(super) fn parsed(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    let mut all = BTreeMap::new();
    for (series, value) in samples {
        assert!(all.insert(series.clone(), value).is_none(), "{series} is there twice");
    }
    all
}

/// The sum over all series of a family whose labels contain these words.
pub(super) fn sum(samples: &BTreeMap<String, f64>, family: &str, words: &[&str]) -> f64 {
    let of_family = samples.iter().filter(|(series, _)| {
        let rest = series.strip_prefix(family);
        rest.is_some_and(|rest| {
            (rest.is_empty() || rest.starts_with('{')) && words.iter().all(|w| rest.contains(w))
        })
    });
    of_family.map(|(_, value)| value).sum()
}
