//! X01: model lists as servers send them.

use std::time::Duration;

use super::super::bounded_get::GetLimits;
use super::super::model_list::{ModelListReply, fetch_model_list, ollama_list, openai_list};
use super::{BackendKind, Fake, endpoint};

const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(10), body: 1000 };

fn names(list: Option<Vec<super::super::model_list::ListedModel>>) -> Vec<String> {
    list.unwrap().into_iter().map(|listed| listed.id).collect()
}

#[test]
fn x01_valid_entries_of_an_openai_list_are_kept() {
    let long = "x".repeat(257);
    let text = format!(
        r#"{{"object":"list","data":[{{"id":"a","name":"A","owned_by":"vllm","created":7}},
        {{"id":""}},{{"id":"{long}"}},{{"id":5}},3,{{"id":"b","owned_by":[],"created":-1.5}}]}}"#
    );
    let list = openai_list(text.as_bytes()).unwrap();
    assert_eq!((list[0].owned_by.as_deref(), list[0].created), (Some("vllm"), Some(7)));
    assert_eq!((list[1].owned_by.as_deref(), list[1].created), (None, None));
    assert_eq!(names(Some(list)), ["a", "b"]);
    let many: Vec<String> = (0..5000).map(|at| format!(r#"{{"id":"m{at}"}}"#)).collect();
    let many = format!(r#"{{"data":[{}]}}"#, many.join(","));
    assert_eq!(names(openai_list(many.as_bytes())).len(), 1024);
}

#[test]
fn x01_ollamas_latest_goes_by_both_names() {
    let text = br#"{"models":[{"name":"llama3:latest","model":"llama3:latest","size":9},
        {"name":"phi:3b"}]}"#;
    let list = ollama_list(text).unwrap();
    assert!(list[0].tag.as_ref().unwrap().get().contains("\"size\":9"));
    assert!(!list[0].alias && list[1].alias);
    assert_eq!(names(Some(list)), ["llama3:latest", "llama3", "phi:3b"]);
}

#[test]
fn x01_an_invalid_list_differs_from_an_empty_one() {
    assert_eq!(names(openai_list(br#"{"data":[]}"#)).len(), 0);
    for text in ["", "{}", "[]", "null", "{\"data\":3}", "<html>", "{\"data\":[{\"id\":\"a\"}"] {
        assert!(openai_list(text.as_bytes()).is_none(), "{text}");
        assert!(ollama_list(text.as_bytes()).is_none(), "{text}");
    }
}

#[tokio::test]
async fn x01_a_server_without_a_list_differs_from_an_absent_one() {
    let fake = Fake::start(&[("/api/tags", 200, r#"{"models":[{"name":"m"}]}"#)]).await;
    let server = endpoint(fake.port, BackendKind::Generic);
    assert!(
        matches!(fetch_model_list(&server, LIMITS).await, ModelListReply::Unsupported(_)),
        "404"
    );
    let long = " ".repeat(2000);
    for (status, body) in [(200, "hello"), (401, "{}"), (302, "{}"), (200, long.as_str())] {
        fake.set("/v1/models", status, body);
        assert!(
            matches!(fetch_model_list(&server, LIMITS).await, ModelListReply::Unsupported(_)),
            "{status} {body}"
        );
    }
    fake.set("/v1/models", 403, "{}");
    assert!(matches!(fetch_model_list(&server, LIMITS).await, ModelListReply::Forbidden(_)));
    for status in [500, 503, 429] {
        fake.set("/v1/models", status, r#"{"data":[]}"#);
        assert!(
            matches!(fetch_model_list(&server, LIMITS).await, ModelListReply::Unavailable(_)),
            "{status}"
        );
    }
    let ollama = endpoint(fake.port, BackendKind::Ollama);
    let reply = fetch_model_list(&ollama, LIMITS).await;
    assert!(matches!(reply, ModelListReply::List(list) if list.len() == 1));
    fake.stop().await;
    assert!(
        matches!(fetch_model_list(&ollama, LIMITS).await, ModelListReply::Unavailable(_)),
        "refused"
    );
}
