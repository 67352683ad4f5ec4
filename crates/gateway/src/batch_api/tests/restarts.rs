//! Crashes at every stage: batches continue after a restart.

use super::*;

#[test]
fn d07_a_batch_goes_on_after_a_crash_at_every_stage() {
    let mut world = World::new();
    let id = world.create(&lines(3));
    world.restart();
    assert_eq!(world.status(&id), "validating");
    world.run_once(1);
    world.restart();
    assert_eq!(world.status(&id), "in_progress");
    let claims = world.claim(2);
    world.answer(&claims[0], 200, "{\"n\":1}");
    world.restart();
    assert!(!world.answer(&claims[1], 200, "{}"), "its claim ended with the process");
    for claim in world.claim(10) {
        assert!(world.answer(&claim, 200, "{}"));
    }
    world.restart();
    world.run_once(2);
    world.restart();
    assert_eq!((world.status(&id).as_str(), world.counts(&id)), ("completed", [3, 3, 0]));
    assert_eq!(names_of(&world.lines(&id, "output_file_id")), ["r1", "r2", "r3"]);
}

#[test]
fn d07_lines_that_waited_before_a_crash_are_not_queued_again() {
    let mut world = World::new();
    let id = world.create(&lines(3));
    world.run_once(1);
    // A second batch of which only one message was enqueued.
    let mut messages: Vec<_> = world.claim(3).into_iter().map(|claim| claim.message).collect();
    let other = world.create(&lines(3));
    messages[0].id = store::ledger::message_id(&other, 1);
    messages[0].route.clone_from(&other);
    messages.truncate(1);
    let ledger = &world.batches().ledger;
    assert!(world.run(ledger.accept(&other, 3, None)).unwrap());
    assert!(world.run(ledger.enqueue(&other, 0, messages, at(1))).unwrap());
    let first = world.claim(10);
    assert_eq!(first.len(), 1);
    assert!(world.answer(&first[0], 200, "{}"));
    world.restart();
    assert_eq!(world.status(&other), "validating");
    world.run_once(2);
    assert_eq!((world.status(&other).as_str(), world.counts(&other)), ("in_progress", [3, 1, 0]));
    let mut claimed: Vec<_> = world.claim(10).into_iter().map(|claim| claim.message.id).collect();
    claimed.sort();
    let all = [&id, &id, &id, &other, &other].into_iter().zip([1, 2, 3, 2, 3]);
    let mut all: Vec<_> = all.map(|(id, line)| store::ledger::message_id(id, line)).collect();
    all.sort();
    assert_eq!(claimed, all);
}

/// A batch of two requests that have responses, and that has not ended.
fn with_responses() -> (World, String) {
    let world = World::new();
    let id = world.create(&lines(2));
    world.run_once(1);
    for claim in world.claim(2) {
        world.answer(&claim, 200, "{}");
    }
    (world, id)
}

#[test]
fn d07_files_that_were_written_before_a_crash_are_written_again() {
    let (mut world, id) = with_responses();
    // The process ends after it has written the last file and before it has stored its row.
    let ledger = &world.batches().ledger;
    let ending = store::ledger::Status::Completed;
    assert!(world.run(ledger.begin_ending(&id, ending, at(2))).unwrap());
    let batch = world.run(ledger.batch(&id)).unwrap().unwrap();
    let writer =
        result_writer::ResultWriter::open(Arc::clone(&world.batches().files), &batch, 1000)
            .unwrap();
    writer.finish(at(2)).unwrap();
    std::fs::write(world.folder.join("drafts/file-0000000000000000"), "half").unwrap();
    assert_eq!(world.names("files").len(), 2);
    world.restart();
    assert_eq!(world.names("files").len(), 1, "the ledger has no row for the other one");
    assert_eq!(world.names("drafts"), Vec::<String>::new());
    world.run_once(3);
    assert_eq!((world.status(&id).as_str(), world.counts(&id)), ("completed", [2, 2, 0]));
    assert_eq!(world.names("files").len(), 2);
}

#[test]
fn d07_leftovers_of_an_ended_batch_are_cleared_after_a_crash() {
    let (mut world, id) = with_responses();
    let ledger = &world.batches().ledger;
    world.run(ledger.begin_ending(&id, store::ledger::Status::Completed, at(2))).unwrap();
    world.run(ledger.finish(&id, store::ledger::BatchOutput::default(), at(2))).unwrap();
    world.restart();
    assert_eq!(world.status(&id), "completed");
    world.run_once(3);
    assert_eq!(world.run(world.store().take_results(&id, 9)).unwrap(), []);
    assert_eq!(world.run_once(4), Duration::from_secs(60));
}

#[test]
fn d10_a_batch_whose_file_was_taken_from_the_folder_fails() {
    let world = World::new();
    let (unread, begun) = (world.create(&lines(1)), world.create(&lines(1)));
    let path = |id: &str| {
        world.folder.join("files").join(world.batch(id)["input_file_id"].as_str().unwrap())
    };
    std::fs::remove_file(path(&unread)).unwrap();
    world.run_once(1);
    world.run_once(1);
    let code = |id: &str| world.batch(id)["errors"]["data"][0]["code"].clone();
    assert_eq!(
        (world.status(&unread).as_str(), code(&unread)),
        ("failed", json!("file_unreadable"))
    );
    assert_eq!(world.status(&begun), "in_progress");
    world.answer(&world.claim(1)[0], 200, "{}");
    std::fs::remove_file(path(&begun)).unwrap();
    world.run_once(2);
    assert_eq!((world.status(&begun).as_str(), code(&begun)), ("failed", json!("file_unreadable")));
    assert_eq!(world.run_once(3), Duration::from_secs(60));
}

/// Another program has cut the file after its lines were queued. Their responses are not lost.
#[test]
fn d10_a_batch_whose_file_was_cut_has_a_line_for_each_request() {
    let world = World::new();
    let id = world.create(&lines(5));
    world.run_once(1);
    for claim in world.claim(4) {
        assert!(world.answer(&claim, 200, "{}"));
    }
    let file = world.folder.join("files").join(world.batch(&id)["input_file_id"].as_str().unwrap());
    let whole = std::fs::read_to_string(&file).unwrap();
    let end = whole.lines().take(2).map(|line| line.len() + 1).sum::<usize>();
    std::fs::write(&file, &whole[..end + 9]).unwrap();
    assert!(world.answer(&world.claim(1)[0], 500, "{}"));
    world.run_once(2);
    assert_eq!((world.status(&id).as_str(), world.counts(&id)), ("completed", [5, 4, 1]));
    let good = ["r1", "r2", "line 3", "line 4"];
    assert_eq!(names_of(&world.lines(&id, "output_file_id")), good);
    assert_eq!(names_of(&world.lines(&id, "error_file_id")), ["line 5"]);
}

/// The lines that had no response are lines of the file of errors, also without the input.
#[test]
fn d10_a_cancelled_batch_whose_file_was_cut_has_a_line_for_each_request() {
    let world = World::new();
    let id = world.create(&lines(4));
    world.run_once(1);
    assert!(world.answer(&world.claim(1)[0], 200, "{}"));
    world.call("POST", &format!("/v1/batches/{id}/cancel"), &Value::Null).unwrap();
    let file = world.folder.join("files").join(world.batch(&id)["input_file_id"].as_str().unwrap());
    std::fs::write(&file, "").unwrap();
    world.run_once(2);
    assert_eq!((world.status(&id).as_str(), world.counts(&id)), ("cancelled", [4, 1, 3]));
    assert_eq!(names_of(&world.lines(&id, "output_file_id")), ["line 1"]);
    let rest = ["line 2", "line 3", "line 4"];
    assert_eq!(names_of(&world.lines(&id, "error_file_id")), rest);
}

#[test]
fn d10_an_input_that_cannot_be_read_now_is_read_later() {
    let world = World::new();
    let id = world.create(&lines(1));
    let file = world.folder.join("files").join(world.batch(&id)["input_file_id"].as_str().unwrap());
    let aside = world.folder.join("aside");
    std::fs::rename(&file, &aside).unwrap();
    // A folder can be opened, and every read of it fails.
    std::fs::create_dir(&file).unwrap();
    assert_eq!(world.run_once(1), Duration::from_secs(5), "the batch is tried again");
    assert_eq!(world.status(&id), "validating");
    std::fs::remove_dir(&file).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    world.run_once(2);
    assert_eq!(world.status(&id), "in_progress");
}

#[test]
fn d10_many_batches_are_read_one_after_the_other_while_others_go_on() {
    let world = World::new();
    let ids: Vec<String> = (0..3).map(|_| world.create(&lines(1))).collect();
    assert_eq!(world.run_once(1), Duration::ZERO, "more input files are to be read");
    assert_eq!(world.status(&ids[0]), "in_progress");
    assert_eq!(world.status(&ids[1]), "validating");
    world.answer(&world.claim(1)[0], 200, "{}");
    world.run_once(2);
    assert_eq!(world.status(&ids[0]), "completed");
    assert_eq!(world.status(&ids[1]), "in_progress");
    world.run_once(3);
    assert_eq!(world.status(&ids[2]), "in_progress");
}

#[test]
fn d10_thousands_of_lines_wait_in_steps() {
    let world = World::new();
    let id = world.create(&lines(2500));
    world.run_once(1);
    assert_eq!((world.status(&id).as_str(), world.counts(&id)), ("in_progress", [2500, 0, 0]));
    let mut sum = 0;
    loop {
        let claims = world.claim(256);
        if claims.is_empty() {
            break;
        }
        sum += claims.len();
        // All calls run at once, so that one flush of the disk serves them.
        let complete = |claim: Claim| {
            let store = Arc::clone(world.store.as_ref().unwrap());
            let outcome = Outcome::Answered { status: 200, body: "{}".into() };
            task::detached(async move { store.complete(claim.reference, outcome, at(2)).await })
        };
        world.run(async {
            let tasks: Vec<_> = claims.into_iter().map(complete).collect();
            for task in tasks {
                assert_eq!(task.await.unwrap(), Ok(true));
            }
        });
    }
    assert_eq!(sum, 2500);
    world.run_once(3);
    let rows = world.lines(&id, "output_file_id");
    let names: Vec<String> = (1..=2500).map(|number| format!("r{number}")).collect();
    assert_eq!(names_of(&rows), names);
}

#[test]
fn files_of_other_programs_in_the_folder_stay() {
    let mut world = World::new();
    let left = "file-0123456789abcdef";
    for folder in ["files", "drafts"] {
        let folder = world.folder.join(folder);
        std::fs::write(folder.join("thesis.tex"), "precious").unwrap();
        std::fs::write(folder.join(left), "left by a crash").unwrap();
        std::fs::create_dir(folder.join("file-fedcba9876543210")).unwrap();
    }
    world.restart();
    for folder in ["files", "drafts"] {
        let folder = world.folder.join(folder);
        assert!(folder.join("thesis.tex").exists(), "another program wrote it");
        assert!(folder.join("file-fedcba9876543210").exists(), "no folder is deleted");
        assert!(!folder.join(left).exists(), "it has the name of an upload");
    }
}
