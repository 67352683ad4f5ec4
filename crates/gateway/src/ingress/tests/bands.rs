//! P01, P02: the band of a request.

use flow::{BANDS, ModelNameRule, ModelNames};

use super::*;

fn config() -> Config {
    let rule = |name: &str, band| ModelNameRule {
        name: name.into(),
        band: Some(band),
        targets: vec![(name.into(), 1)],
    };
    Config {
        objectives: [("chat-critical", Band::Critical), ("batch", Band::BestEffort)]
            .map(|(name, band)| (name.to_owned(), band))
            .into(),
        names: ModelNames::new(&[rule("llama", Band::BestEffort)]).unwrap(),
        ..Config::default()
    }
}

fn band(config: &Config, headers: &[(&str, &str)]) -> Band {
    chat(config, headers).band
}

#[test]
fn p01_there_are_four_bands_and_normal_is_the_default() {
    assert_eq!(BANDS, 4);
    let numbers = Band::DESCENDING.map(|band| band as u8);
    assert_eq!(numbers, [3, 2, 1, 0], "critical, high, normal, best-effort");
    assert_eq!(band(&Config::default(), &[]), Band::Normal);
}

#[test]
fn p02_every_name_is_known_in_any_case() {
    let words = [
        ("x-priority", "critical", Band::Critical),
        ("x-priority", "CRITICAL", Band::Critical),
        ("x-priority", "high", Band::High),
        ("x-priority", "HiGh", Band::High),
        ("x-priority", "normal", Band::Normal),
        ("x-priority", "Best-Effort", Band::BestEffort),
        ("x-priority", "best_effort", Band::BestEffort),
        ("x-priority", "besteffort", Band::BestEffort),
        ("x-priority", "low", Band::BestEffort),
        ("x-priority", "realtime", Band::Critical),
        ("x-priority", "Critical", Band::Critical),
        ("x-priority", "Default", Band::Normal),
        ("x-priority", "Standard", Band::Normal),
        ("x-priority", "Sheddable", Band::BestEffort),
        ("x-nexus-priority", "HIGH", Band::High),
        ("x-nexus-priority", "normal", Band::Normal),
        ("x-media-type", "Realtime", Band::Critical),
        ("x-media-type", "audio", Band::High),
        ("x-gateway-inference-objective", "chat-critical", Band::Critical),
        ("x-llm-d-inference-objective", "Chat-Critical", Band::Critical),
        ("x-llm-d-inference-objective", "batch", Band::BestEffort),
        ("x-llm-d-inference-objective", "-1", Band::BestEffort),
        ("x-gateway-inference-objective", "-1000000", Band::BestEffort),
        ("x-gateway-inference-objective", "0", Band::Normal),
        ("x-gateway-inference-objective", "1", Band::High),
        ("x-gateway-inference-objective", "9", Band::High),
        ("x-llm-d-inference-objective", "10", Band::Critical),
    ];
    let config = Config { names: ModelNames::default(), ..config() };
    for (name, value, expected) in words {
        assert_eq!(band(&config, &[(name, value)]), expected, "{name}: {value}");
        assert_eq!(band(&config, &[(name, &format!(" {value} "))]), expected, "{name}: {value}");
    }
}

/// The sources in their order, each with a value that it knows. Neighbours differ in their band, so
/// that a wrong order shows.
const SOURCES: [(&str, &str, Band); 5] = [
    ("x-priority", "high", Band::High),
    ("x-nexus-priority", "normal", Band::Normal),
    ("x-llm-d-inference-objective", "chat-critical", Band::Critical),
    ("x-gateway-inference-objective", "batch", Band::BestEffort),
    ("x-media-type", "audio", Band::High),
];

/// Values that a source does not know, although another one may.
const UNKNOWN: [(&str, &str); 5] = [
    ("x-priority", "urgent"),
    ("x-nexus-priority", "critical"),
    ("x-llm-d-inference-objective", "nobody"),
    ("x-gateway-inference-objective", "high"),
    ("x-media-type", "text"),
];

#[test]
fn p02_the_first_known_value_wins() {
    let config = config();
    // Each source is absent, unknown, or known.
    for number in 0..3u32.pow(5) {
        let state = |at: usize| number / 3u32.pow(at as u32) % 3;
        let mut headers = Vec::new();
        let mut expected = None;
        for at in 0..SOURCES.len() {
            let (name, value, band) = SOURCES[at];
            match state(at) {
                0 => continue,
                1 => headers.push(UNKNOWN[at]),
                _ => {
                    headers.push((name, value));
                    expected = expected.or(Some(band));
                }
            }
        }
        // The order of the headers must not matter.
        headers.reverse();
        let expected = expected.unwrap_or(Band::BestEffort);
        assert_eq!(band(&config, &headers), expected, "{headers:?}");
    }
}

#[test]
fn p02_the_models_default_comes_last_and_then_normal() {
    assert_eq!(band(&config(), &[]), Band::BestEffort);
    assert_eq!(band(&config(), &[("x-nexus-priority", "nonsense")]), Band::BestEffort);
    assert_eq!(band(&Config::default(), &[("x-priority", "")]), Band::Normal);
}

#[test]
fn p02_a_value_that_is_no_text_falls_through() {
    let headers: [(&str, &[u8]); 2] = [("x-priority", b"\xff\xfe"), ("x-media-type", b"audio")];
    let parts = parts(Method::POST, CHAT, &headers);
    let body = Bytes::from_static(br#"{"model":"llama"}"#);
    assert_eq!(read(&Config::default(), &parts, body, 0).unwrap().0.band, Band::High);
}
