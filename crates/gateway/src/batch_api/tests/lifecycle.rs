//! The life of a batch, from its input file to its output files.

use super::*;

#[test]
fn d10_the_output_of_a_batch_is_in_the_order_of_its_lines() {
    let world = World::new();
    let id = world.create(&lines(5));
    world.run_once(1);
    let batch = world.batch(&id);
    assert_eq!((&batch["status"], &batch["model"]), (&json!("in_progress"), &json!("m")));
    assert_eq!(batch["in_progress_at"], 1_000_001);
    let mut claims = world.claim(10);
    assert_eq!(claims.len(), 5);
    for (number, claim) in claims.iter().enumerate() {
        let message = &claim.message;
        assert_eq!(body_of(claim)["messages"], json!([format!("r{}", number + 1)]));
        assert_eq!((message.endpoint.as_str(), message.model.as_str()), (CHAT, "m"));
        assert_eq!((message.route.as_str(), message.tenant.as_str()), (id.as_str(), "alice"));
        assert_eq!((message.created, message.deadline), (at(0), at(60)));
    }
    claims.reverse();
    for claim in &claims[..4] {
        assert!(world.answer(claim, 200, &format!("{{\"of\":{}}}", body_of(claim))));
    }
    assert_eq!(world.counts(&id), [5, 4, 0]);
    assert_eq!(world.run_once(2), Duration::from_millis(500), "one request is in flight");
    assert_eq!(world.status(&id), "in_progress");
    world.answer(&claims[4], 200, "{}");
    world.run_once(3);
    let batch = world.batch(&id);
    assert_eq!(batch["status"], "completed");
    assert_eq!(
        (&batch["finalizing_at"], &batch["completed_at"]),
        (&1_000_003.into(), &1_000_003.into())
    );
    assert_eq!((&batch["error_file_id"], &batch["errors"]), (&Value::Null, &Value::Null));
    let rows = world.lines(&id, "output_file_id");
    assert_eq!(names_of(&rows), ["r1", "r2", "r3", "r4", "r5"]);
    let name = id.trim_start_matches("batch_");
    let second = json!({"id": format!("batch_req_{name}_2"), "custom_id": "r2", "error": null,
        "response": {"status_code": 200, "request_id": format!("{id}/2"),
            "body": {"of": {"model": "m", "messages": ["r2"]}}}});
    assert_eq!(rows[1], second);
    let file = batch["output_file_id"].as_str().unwrap();
    let file = world.get(&format!("/v1/files/{file}"));
    assert_eq!(file["purpose"], "batch_output");
    assert_eq!(file["filename"], format!("{id}_output.jsonl"));
    // The row and the two files stay, and no step is due.
    assert_eq!(world.run(world.store().take_results(&id, 10)).unwrap(), []);
    assert_eq!(world.names("files").len(), 2);
    assert_eq!(world.run_once(4), Duration::from_secs(60));
}

#[test]
fn d10_failed_requests_go_into_the_error_file() {
    let world = World::new();
    let id = world.create(&lines(4));
    world.run_once(1);
    let claims = world.claim(10);
    world.answer(&claims[0], 200, "{\n  \"pretty\": \"a\\nb\",\r\n  \"n\": 1.0e400\n}\n");
    world.answer(&claims[1], 404, "{\"error\":{\"code\":\"model_not_found\"}}");
    let failed = Outcome::failed(Outcome::FAILED, "no backend answered");
    world.run(world.store().dead_letter(claims[2].reference.clone(), failed, at(2))).unwrap();
    world.answer(&claims[3], 201, "plain\ntext \u{fffd}");
    world.run_once(2);
    assert_eq!((world.status(&id).as_str(), world.counts(&id)), ("completed", [4, 2, 2]));
    let batch = world.batch(&id);
    let file = batch["output_file_id"].as_str().unwrap();
    let output = world.get(&format!("/v1/files/{file}/content"));
    assert_eq!(output.as_str().unwrap().lines().count(), 2, "one line each");
    assert!(output.as_str().unwrap().contains(r#""pretty": "a\nb","#), "{output}");
    assert!(output.as_str().unwrap().contains("1.0e400"), "numbers stay as they are");
    assert!(output.as_str().unwrap().contains(r#""body":"plain\ntext �""#), "{output}");
    let rows = world.lines(&id, "error_file_id");
    assert_eq!(names_of(&rows), ["r2", "r3"]);
    assert_eq!(rows[0]["response"]["status_code"], 404);
    assert_eq!(rows[0]["response"]["body"]["error"]["code"], "model_not_found");
    assert_eq!(rows[0]["error"], Value::Null);
    assert_eq!(rows[1]["response"], Value::Null);
    assert_eq!(rows[1]["error"]["code"], "inference_error");
    assert_eq!(rows[1]["error"]["message"], "no backend answered");
}

#[test]
fn d10_a_file_with_errors_fails_with_their_lines() {
    let world = World::new();
    let wrong = format!("{}nonsense\n{}{}", line("a"), line("a"), line("b"));
    let id = world.create(&wrong);
    world.run_once(1);
    let batch = world.batch(&id);
    assert_eq!((&batch["status"], &batch["failed_at"]), (&json!("failed"), &1_000_001.into()));
    assert_eq!(batch["errors"]["object"], "list");
    let data = &batch["errors"]["data"];
    assert_eq!((&data[0]["code"], &data[0]["line"]), (&json!("invalid_json_line"), &2.into()));
    assert_eq!((&data[1]["code"], &data[1]["line"]), (&json!("duplicate_custom_id"), &3.into()));
    assert_eq!(data[1]["param"], "custom_id");
    assert_eq!(data.as_array().unwrap().len(), 2);
    assert_eq!(world.claim(10), [], "none of its requests is sent");
    world.run_once(2);
    assert_eq!(world.run_once(3), Duration::from_secs(60));
    let ended = world.call("POST", &format!("/v1/batches/{id}/cancel"), &Value::Null);
    assert_eq!(ended, Err(Fault::BatchEnded("failed")));
}

#[test]
fn d10_at_its_deadline_a_batch_ends_with_the_responses_so_far() {
    let world = World::new();
    let id = world.create(&lines(5));
    world.run_once(1);
    let claims = world.claim(3);
    world.answer(&claims[0], 200, "{}");
    let late = Outcome::failed(Outcome::DEADLINE, "too late");
    world.complete(&claims[1], late);
    world.run_once(59);
    assert_eq!(world.status(&id), "in_progress");
    assert_eq!(world.run_once(60), Duration::from_millis(500), "one request is in flight");
    assert_eq!(world.status(&id), "finalizing");
    let cancelled = Outcome::failed(Outcome::CANCELLED, "given up");
    assert!(world.complete(&claims[2], cancelled));
    world.run_once(61);
    let batch = world.batch(&id);
    assert_eq!((&batch["status"], &batch["expired_at"]), (&json!("expired"), &1_000_061.into()));
    assert_eq!((&batch["finalizing_at"], world.counts(&id)), (&1_000_060.into(), [5, 1, 4]));
    assert_eq!(names_of(&world.lines(&id, "output_file_id")), ["r1"]);
    let rows = world.lines(&id, "error_file_id");
    assert_eq!(names_of(&rows), ["r2", "r3", "r4", "r5"]);
    for row in rows {
        assert_eq!(row["error"]["code"], "batch_expired", "{row}");
        assert_eq!(row["response"], Value::Null);
    }
}

#[test]
fn d10_a_batch_whose_last_requests_expired_has_expired() {
    let world = World::new();
    let id = world.create(&lines(2));
    world.run_once(1);
    let claims = world.claim(2);
    world.answer(&claims[0], 200, "{}");
    world.complete(&claims[1], Outcome::failed(Outcome::DEADLINE, "too late"));
    world.run_once(60);
    assert_eq!((world.status(&id).as_str(), world.counts(&id)), ("expired", [2, 1, 1]));
}

#[test]
fn d10_a_cancelled_batch_keeps_the_responses_so_far() {
    let world = World::new();
    let id = world.create(&lines(5));
    world.run_once(1);
    let claims = world.claim(3);
    world.answer(&claims[0], 200, "{}");
    let path = format!("/v1/batches/{id}/cancel");
    let batch = world.call_at("POST", &path, &Value::Null, at(2)).unwrap();
    assert_eq!(
        (&batch["status"], &batch["cancelling_at"]),
        (&json!("cancelling"), &1_000_002.into())
    );
    let again = world.call_at("POST", &path, &Value::Null, at(3)).unwrap();
    assert_eq!(again, batch, "a second call changes nothing");
    assert_eq!(world.run_once(3), Duration::from_millis(500));
    assert_eq!(world.claim(10), [], "pending requests are not sent");
    let held = claims[1..].iter().map(|claim| claim.reference.clone()).collect();
    let standing = world.run(world.store().standing(held)).unwrap();
    assert_eq!(standing, [store::Standing::Cancelled; 2]);
    // One request ends as cancelled, the other has a response.
    world.complete(&claims[1], Outcome::failed(Outcome::CANCELLED, "aborted"));
    world.answer(&claims[2], 200, "{}");
    world.run_once(4);
    let batch = world.batch(&id);
    assert_eq!(
        (&batch["status"], &batch["cancelled_at"]),
        (&json!("cancelled"), &1_000_004.into())
    );
    assert_eq!(world.counts(&id), [5, 2, 3]);
    assert_eq!(names_of(&world.lines(&id, "output_file_id")), ["r1", "r3"]);
    let rows = world.lines(&id, "error_file_id");
    assert_eq!(names_of(&rows), ["r2", "r4", "r5"]);
    assert!(rows.iter().all(|row| row["error"]["code"] == "batch_cancelled"));
    let ended = world.call("POST", &path, &Value::Null).unwrap();
    assert_eq!(ended["status"], "cancelled");
}

#[test]
fn d10_a_cancelled_batch_does_not_wait_for_a_silent_dispatcher() {
    let world = World::new();
    let id = world.create(&lines(2));
    world.run_once(1);
    let claims = world.claim(1);
    let path = format!("/v1/batches/{id}/cancel");
    world.call_at("POST", &path, &Value::Null, at(2)).unwrap();
    world.run_once(31);
    assert_eq!(world.status(&id), "cancelling");
    world.run_once(32);
    assert_eq!((world.status(&id).as_str(), world.counts(&id)), ("cancelled", [2, 0, 2]));
    assert!(!world.answer(&claims[0], 200, "{}"), "the batch has ended");
    assert_eq!(names_of(&world.lines(&id, "error_file_id")), ["r1", "r2"]);
}

#[test]
fn d10_a_batch_that_was_never_read_ends_without_files() {
    let world = World::new();
    let (cancelled, expired) = (world.create(&lines(2)), world.create(&lines(2)));
    world.call("POST", &format!("/v1/batches/{cancelled}/cancel"), &Value::Null).unwrap();
    world.run_once(60);
    for (id, status) in [(cancelled, "cancelled"), (expired, "expired")] {
        let batch = world.batch(&id);
        assert_eq!(batch["status"], status);
        assert_eq!(
            (&batch["output_file_id"], &batch["error_file_id"]),
            (&Value::Null, &Value::Null)
        );
    }
    assert_eq!(world.claim(10), []);
}

#[test]
fn d10_old_batches_and_files_are_deleted() {
    let keep = Duration::from_secs(100);
    let world = World::with(dispatch::Batch { keep, ..dispatch::Batch::default() });
    let id = world.create(&lines(1));
    world.run_once(1);
    world.answer(&world.claim(1)[0], 200, "{}");
    world.run_once(50);
    assert_eq!((world.status(&id).as_str(), world.names("files").len()), ("completed", 2));
    world.run_once(99);
    assert_eq!(world.names("files").len(), 2);
    world.run_once(100);
    assert_eq!(world.names("files").len(), 1, "the input file is older");
    world.run_once(149);
    assert_eq!((world.status(&id).as_str(), world.names("files").len()), ("completed", 1));
    world.run_once(150);
    assert_eq!(world.names("files"), Vec::<String>::new());
    world.run_once(151);
    let gone = world.call("GET", &format!("/v1/batches/{id}"), &Value::Null).unwrap_err();
    assert_eq!(gone, Fault::BatchNotFound(id));
    assert_eq!(world.batches().files.used(), 0);
}

#[test]
fn d10_output_files_may_expire_earlier() {
    let world = World::new();
    let mut wanted = wanted(&world.upload(&lines(1)));
    wanted["output_expires_after"] = json!({"anchor": "created_at", "seconds": 3600});
    let made = world.call("POST", "/v1/batches", &wanted).unwrap();
    let id = made["id"].as_str().unwrap();
    world.run_once(1);
    world.answer(&world.claim(1)[0], 200, "{}");
    world.run_once(10);
    world.run_once(3609);
    assert_eq!(world.names("files").len(), 2);
    world.run_once(3610);
    assert_eq!(world.names("files").len(), 1);
    assert_eq!(world.status(id), "completed", "its row stays");
}
