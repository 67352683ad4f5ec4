//! Durations, sizes and suggestions.

use std::time::Duration;

use super::quantity::{duration, show_duration, show_size, size};
use super::tree::Value;

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

#[test]
fn durations_have_units_or_are_seconds() {
    let millis = |text_: &str| duration(&text(text_)).map(|duration| duration.as_millis());
    let cases = [
        ("30s", 30_000),
        ("500ms", 500),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("1m30s", 90_000),
        ("1.5s", 1500),
        (" 2 s ", 2000),
        ("0s", 0),
    ];
    for (written, meant) in cases {
        assert_eq!(millis(written), Some(meant), "{written}");
    }
    for wrong in ["", "30", "s", "-1s", "1x", "1..5s", "1s2", "inf", "nans", "9e9s", "１s"] {
        assert_eq!(millis(wrong), None, "{wrong}");
    }
    assert_eq!(duration(&Value::Integer(3)), Some(Duration::from_secs(3)));
    assert_eq!(duration(&Value::Float(0.25)), Some(Duration::from_millis(250)));
    for wrong in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
        assert_eq!(duration(&Value::Float(wrong)), None);
    }
    assert_eq!(duration(&Value::Bool(true)), None);
}

#[test]
fn sizes_have_units_or_are_bytes() {
    let cases = [
        ("32MiB", 32 << 20),
        ("1MB", 1_000_000),
        ("1.5KiB", 1536),
        ("2 kb", 2000),
        ("7B", 7),
        ("1GiB", 1 << 30),
        ("1gb", 1_000_000_000),
        ("2TB", 2_000_000_000_000),
    ];
    for (written, meant) in cases {
        assert_eq!(size(&text(written)), Some(meant), "{written}");
    }
    for wrong in ["", "32", "MiB", "1 MiB 2", "-1B", "1e9B", "99999999999999999999GiB"] {
        assert_eq!(size(&text(wrong)), None, "{wrong}");
    }
    assert_eq!(size(&Value::Integer(5)), Some(5));
    assert_eq!(size(&Value::Integer(-5)), None);
    assert_eq!(size(&Value::Float(5.0)), None);
}

#[test]
fn quantities_are_shown_as_they_can_be_written() {
    for shown in ["30s", "500ms", "5m", "1h", "2d", "1.5ms", "90s"] {
        assert_eq!(show_duration(duration(&text(shown)).unwrap()), shown);
    }
    for shown in ["32MiB", "3GiB", "8KiB", "1000B", "1TiB", "1PiB"] {
        assert_eq!(show_size(size(&text(shown)).unwrap()), shown);
    }
}
