//! The calls, and the JSON of their responses.

use super::*;

fn fault(world: &World, method: &str, path: &str) -> Fault {
    world.call(method, path, &Value::Null).unwrap_err()
}

#[test]
fn d10_a_batch_has_the_fields_of_openais_api() {
    let world = World::new();
    let file = world.upload(&lines(1));
    let made = world.call("POST", "/v1/batches", &wanted(&file)).unwrap();
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("batch_"));
    let shape = json!({"id": id, "object": "batch", "endpoint": CHAT, "model": null,
        "errors": null, "input_file_id": file, "completion_window": "1m", "status": "validating",
        "output_file_id": null, "error_file_id": null, "created_at": 1_000_000,
        "in_progress_at": null, "expires_at": 1_000_060, "finalizing_at": null,
        "completed_at": null, "failed_at": null, "expired_at": null, "cancelling_at": null,
        "cancelled_at": null, "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "metadata": {"a": "b"}});
    assert_eq!(made, shape);
    assert_eq!(world.batch(id), shape);
}

#[test]
fn d10_lists_come_in_pages() {
    let world = World::new();
    let files: Vec<String> = (0..3).map(|_| world.upload(&lines(1))).collect();
    let batch = |file: &String| world.call("POST", "/v1/batches", &wanted(file)).unwrap();
    let batches: Vec<Value> = files.iter().map(|file| batch(file)["id"].clone()).collect();
    for (path, ids) in [
        ("/v1/files", files.iter().map(|id| Value::from(id.as_str())).collect::<Vec<_>>()),
        ("/v1/batches", batches),
    ] {
        let page = world.get(&format!("{path}?limit=2"));
        assert_eq!((&page["object"], &page["has_more"]), (&json!("list"), &json!(true)));
        assert_eq!((&page["first_id"], &page["last_id"]), (&ids[2], &ids[1]));
        assert_eq!(page["data"][0]["id"], ids[2]);
        let rest = format!("{path}?limit=2&after={}", ids[1].as_str().unwrap());
        let rest = world.get(&rest);
        assert_eq!((&rest["data"][0]["id"], &rest["has_more"]), (&ids[0], &json!(false)));
        assert_eq!(rest["data"].as_array().unwrap().len(), 1);
        let unknown = fault(&world, "GET", &format!("{path}?after=file-0"));
        assert!(matches!(unknown, Fault::InvalidField("after", _)));
        let wrong = fault(&world, "GET", &format!("{path}?limit=no"));
        assert!(matches!(wrong, Fault::InvalidField("limit", _)));
    }
    let oldest = world.get("/v1/files?order=asc&limit=1");
    assert_eq!(oldest["data"][0]["id"], files[0].as_str());
    let none = world.get("/v1/files?purpose=batch_output");
    assert_eq!((&none["data"], &none["first_id"]), (&json!([]), &Value::Null));
    assert_eq!(world.get("/v1/batches?limit=1000000")["data"].as_array().unwrap().len(), 3);
}

#[test]
fn d10_a_missing_file_or_batch_is_reported() {
    let world = World::new();
    let file = |fault| matches!(fault, Fault::FileNotFound(id) if id == "file-0");
    let batch = |fault| matches!(fault, Fault::BatchNotFound(id) if id == "batch_0");
    assert!(file(fault(&world, "GET", "/v1/files/file-0")));
    assert!(file(fault(&world, "GET", "/v1/files/file-0/content")));
    assert!(file(fault(&world, "DELETE", "/v1/files/file-0")));
    assert!(batch(fault(&world, "GET", "/v1/batches/batch_0")));
    assert!(batch(fault(&world, "POST", "/v1/batches/batch_0/cancel")));
    assert_eq!(
        fault(&world, "DELETE", "/v1/batches/batch_0"),
        Fault::MethodNotAllowed("GET, HEAD, OPTIONS")
    );
}

#[test]
fn d10_every_error_in_a_new_batch_names_its_field() {
    let world = World::new();
    let file = world.upload(&lines(1));
    let with = |part: &str, value: Value| {
        let mut wanted = wanted(&file);
        wanted[part] = value;
        wanted
    };
    let pairs = |count: usize| -> Value {
        (0..count).map(|number| (number.to_string(), Value::from("v"))).collect()
    };
    let rows = [
        ("input_file_id", json!("file-0")),
        ("input_file_id", json!("")),
        ("input_file_id", json!(7)),
        ("input_file_id", Value::Null),
        ("endpoint", Value::Null),
        ("endpoint", json!("/v1/files")),
        ("endpoint", json!("/v1/batches")),
        ("endpoint", json!("/health")),
        ("endpoint", json!("/api/chat")),
        ("endpoint", json!("/v1/../admin")),
        ("endpoint", json!("/v1/chat/completions?x=1")),
        ("endpoint", json!("/v1/chat completions\r\nX: y")),
        ("endpoint", json!("http://elsewhere/v1/chat/completions")),
        ("completion_window", json!("soon")),
        ("completion_window", json!("999ms")),
        ("completion_window", json!("366d")),
        ("completion_window", json!("NaNs")),
        ("completion_window", json!(24)),
        ("metadata", json!([])),
        ("metadata", json!({"a": 1})),
        ("metadata", json!({"k".repeat(65): "v"})),
        ("metadata", json!({"k": "v".repeat(513)})),
        ("metadata", pairs(17)),
        ("output_expires_after", json!({"anchor": "created_at"})),
        ("output_expires_after", json!({"anchor": "created_at", "seconds": 10})),
        ("output_expires_after", json!({"anchor": "now", "seconds": 3600})),
    ];
    for (part, value) in rows {
        let wanted = with(part, value);
        match world.call("POST", "/v1/batches", &wanted) {
            Err(Fault::InvalidField(named, _)) => assert_eq!(named, part, "{wanted}"),
            other => panic!("{wanted}: {other:?}"),
        }
    }
    for body in [json!([file, CHAT, "24h", null, null]), json!("x"), Value::Null] {
        let refused = world.call("POST", "/v1/batches", &body);
        assert!(matches!(refused, Err(Fault::InvalidRequest(_))), "{body}: {refused:?}");
    }
    assert_eq!(world.get("/v1/batches")["data"], json!([]));
    for (part, value) in [
        ("endpoint", json!("/v1/embeddings")),
        ("endpoint", json!("/v1/rerank")),
        ("completion_window", json!("24h")),
        ("completion_window", json!("30m")),
        ("completion_window", json!("90s")),
        ("completion_window", json!("7d")),
        ("metadata", Value::Null),
        ("metadata", pairs(16)),
        ("metadata", json!({"ü".repeat(64): "ü".repeat(512)})),
        ("output_expires_after", json!({"anchor": "created_at", "seconds": 3600})),
    ] {
        let wanted = with(part, value);
        world.call("POST", "/v1/batches", &wanted).unwrap_or_else(|_| panic!("{wanted}"));
    }
}

#[test]
fn d10_a_file_in_use_by_a_batch_cannot_be_deleted() {
    let world = World::new();
    let id = world.create(&lines(1));
    let file = world.batch(&id)["input_file_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/files/{file}");
    assert_eq!(fault(&world, "DELETE", &path), Fault::FileInUse(id.clone()));
    world.call("POST", &format!("/v1/batches/{id}/cancel"), &Value::Null).unwrap();
    world.run_once(1);
    let deleted = world.call("DELETE", &path, &Value::Null).unwrap();
    assert_eq!(deleted, json!({"id": file, "object": "file", "deleted": true}));
    assert_eq!(world.names("files"), Vec::<String>::new());
    assert_eq!(fault(&world, "DELETE", &path), Fault::FileNotFound(file));
}
