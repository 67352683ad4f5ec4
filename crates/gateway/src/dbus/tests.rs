//! Tests of the conversion to D-Bus types. `tests/gateway` tests the services with a real bus.

use std::time::Duration;

use serde_json::json;
use zbus::Variant;

use super::variant::dictionary;
use super::{Backoff, WAIT_MAX, WAIT_MIN, int};

#[test]
fn r08_pages_become_dictionaries_without_null() {
    let page = json!({
        "id": "gpu-a", "ready": true, "stock": 7, "watts": 3.3, "latency_ms": null,
        "models": ["m", "n"], "none": [], "limits": {"now": 1, "most": null},
    });
    let found = dictionary(&page).unwrap();
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["id", "limits", "models", "none", "ready", "stock", "watts"]);
    assert_eq!(found["id"], Variant::from("gpu-a"));
    assert_eq!(found["ready"], Variant::from(true));
    assert_eq!(found["stock"], Variant::from(7_u64));
    assert_eq!(found["watts"], Variant::from(3.3));
    assert_eq!(found["models"], Variant::from(vec!["m", "n"]));
    let kinds = ["models", "none", "limits"].map(|name| found[name].value_signature().to_string());
    assert_eq!(kinds, ["as", "as", "a{sv}"]);
}

#[test]
fn numbers_that_do_not_fit_are_the_largest() {
    assert_eq!((int(7_u32), int(u32::MAX), int(usize::MAX)), (7, i32::MAX, i32::MAX));
}

#[test]
fn r08_a_bus_that_fails_is_asked_ever_less_often_up_to_a_bound() {
    let mut backoff = Backoff(WAIT_MIN);
    let first: Vec<Duration> = (0..20).map(|_| backoff.next(Duration::ZERO)).collect();
    assert_eq!(first[0], WAIT_MIN);
    assert!(first.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(WAIT_MAX)), "{first:?}");
    assert_eq!(first[19], WAIT_MAX);
    assert_eq!(backoff.next(WAIT_MAX), WAIT_MIN, "it was good for a while");
    assert_eq!(backoff.next(Duration::ZERO), WAIT_MIN * 2);
}
