//! W01: the workload of a request; an invalid one is never an error.

use proptest::prelude::*;

use super::*;

fn origin(value: &[u8]) -> (WorkloadName, u8) {
    let WorkloadContext { name, criticality } =
        WorkloadContext::of(Some(&HeaderValue::from_bytes(value).unwrap()));
    (name, criticality)
}

fn given(id: &str, criticality: u8) -> (WorkloadName, u8) {
    (WorkloadName::Given(id.into()), criticality)
}

#[test]
fn w01_a_context_gives_an_id_and_a_criticality() {
    let said = br#"{"workload_id": "fraud-detection", "criticality": 5}"#;
    assert_eq!(origin(said), given("fraud-detection", 5));
    assert_eq!(origin(br#"{"Workload_ID": "a", "CRITICALITY": 4}"#), given("a", 4));
    assert_eq!(origin(br#"{"criticality":1,"workload_id":"a","more":[1]}"#), given("a", 1));
    assert_eq!(origin(br#"{"workload_id":"a\/b \u00e9"}"#), given("a/b é", 3));
    assert_eq!(origin("{\"workload_id\":\"größe\"}".as_bytes()), given("größe", 3));
}

#[test]
fn w01_a_criticality_out_of_range_is_three_and_one_of_another_type_is_invalid() {
    for wrong in ["0", "-1", "6", "256", "261", "null"] {
        let said = format!(r#"{{"workload_id":"a","criticality":{wrong}}}"#);
        assert_eq!(origin(said.as_bytes()), given("a", 3), "{wrong}");
    }
    let invalid = (WorkloadName::Generated("invalid-"), 3);
    let types = ["99999999999999999999", "4.5", "4.0", "1e0", "\"5\"", "true", "[5]", "{\"a\":5}"];
    for wrong in types {
        let said = format!(r#"{{"workload_id":"a","criticality":{wrong}}}"#);
        assert_eq!(origin(said.as_bytes()), invalid, "{wrong}");
    }
    for right in 1..=5 {
        let said = format!(r#"{{"workload_id":"a","criticality":{right}}}"#);
        assert_eq!(origin(said.as_bytes()), given("a", right));
    }
}

#[test]
fn w01_a_missing_invalid_or_empty_id_is_generated_as_in_the_source() {
    let missing = WorkloadContext::of(None);
    assert_eq!((missing.name, missing.criticality), (WorkloadName::default(), 3));
    let wrong: [(&[u8], &str, u8); 14] = [
        (b"", "unknown-", 3),
        (b"not json", "invalid-", 3),
        (b"{\"workload_id\":", "invalid-", 3),
        (b"[]", "invalid-", 3),
        (b"[\"a\",5]", "invalid-", 3),
        (b"{\"workload_id\":7,\"criticality\":5}", "invalid-", 3),
        (b"{\"workload_id\":\"a\\u0000b\",\"criticality\":5}", "invalid-", 3),
        (b"{\"workload_id\":\"\xff\"}", "invalid-", 3),
        (b"{}", "empty-", 3),
        (b"null", "empty-", 3),
        (b"{\"criticality\":5}", "empty-", 5),
        (b"{\"workload_id\":\"\",\"criticality\":5}", "empty-", 5),
        (b"{\"workload_id\":null,\"criticality\":1}", "empty-", 1),
        (b"{\"workload_id\":\"\",\"criticality\":6}", "empty-", 3),
    ];
    for (value, prefix, criticality) in wrong {
        let expected = (WorkloadName::Generated(prefix), criticality);
        assert_eq!(origin(value), expected, "{}", String::from_utf8_lossy(value));
    }
}

#[test]
fn w01_lengths_are_bounded() {
    let said = |id: &str| format!(r#"{{"workload_id":"{id}","criticality":4}}"#);
    let (name, criticality) = origin(said(&"é".repeat(200)).as_bytes());
    assert_eq!((name.given().unwrap().len(), criticality), (256, 4));
    let (name, criticality) = origin(said(&"a".repeat(5000)).as_bytes());
    assert_eq!((name, criticality), (WorkloadName::Generated("invalid-"), 3), "it is too long");
}

#[test]
fn w01_a_request_carries_its_workload() {
    let intent = chat(
        &Config::default(),
        &[("x-workload-context", r#"{"workload_id":"etl","criticality":2}"#)],
    );
    assert_eq!((intent.workload.given(), intent.criticality), (Some("etl"), 2));
    let intent = chat(&Config::default(), &[("x-workload-context", "{")]);
    assert_eq!((intent.workload.given(), intent.criticality), (None, 3));
}

proptest! {
    #[test]
    fn w01_no_bytes_are_an_error(bytes in header_bytes(200)) {
        let origin = WorkloadContext::of(Some(&HeaderValue::from_bytes(&bytes).unwrap()));
        prop_assert!((1..=5).contains(&origin.criticality));
    }

    #[test]
    fn w01_no_json_is_an_error(id in ".{0,300}", level in "-?[0-9]{1,25}(\\.[0-9]{1,3})?") {
        // JSON escapes can carry characters that a header cannot.
        let id: String = id.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let said = format!("{{\"workload_id\":\"{id}\",\"criticality\":{level}}}");
        let origin = WorkloadContext::of(Some(&HeaderValue::from_str(&said).unwrap()));
        prop_assert!((1..=5).contains(&origin.criticality));
        prop_assert!(origin.name.given().is_none_or(|id| (1..=256).contains(&id.len())));
    }
}
