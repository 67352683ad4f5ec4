//! Frames of some statuses, as lines.

use serde_json::json;

use super::*;

fn state(status: Value) -> ViewState {
    let mut state = ViewState::new("http://h:1".into(), String::new());
    state.read(Ok(status));
    state
}

#[test]
fn m03_a_frame_fits_its_terminal_whatever_the_status_says() {
    let flow = |number: u32| json!({"name": format!("team-{number}"), "queue_depth": number});
    let flows: Vec<Value> = (0..1000).map(flow).collect();
    let backends: Vec<Value> = (0..200).map(|id| json!({"id": format!("b{id}")})).collect();
    let finding = json!({"text": "t".repeat(500), "advice": "a", "level": "trouble"});
    let full = json!({
        "sentence": "All is well.", "level": "ok", "findings": vec![finding; 20],
        "flows": flows, "backends": backends, "bands": [{"name": "normal"}],
    });
    for status in [full, json!({}), json!([]), json!(7), json!({"flows": 7, "bands": "x"})] {
        for (width, height) in [(20, 5), (80, 24), (200, 60)] {
            let state = state(status.clone());
            let lines = lines(&state, (width, height), Painter { colours: false });
            assert!(lines.len() <= height, "{} lines in {height}", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() <= width));
        }
    }
}

#[test]
fn m03_the_sentence_comes_first_and_a_lost_connection_is_said() {
    let mut state = state(json!({"sentence": "All is well.", "level": "ok"}));
    let plain = Painter { colours: false };
    assert_eq!(lines(&state, (80, 24), plain)[1], "All is well.");
    state.read(Err("connection refused".into()));
    let lost = &lines(&state, (80, 24), plain)[1];
    assert_eq!(lost, "no status, trying again: connection refused");
    let painted = lines(&state, (80, 24), Painter { colours: true });
    assert!(painted[1].starts_with("\x1b[31m") && painted[2].starts_with("\x1b[32m"));
}

#[test]
fn m03_one_is_singular_a_backend_is_down_and_a_least_time_is_called_so() {
    let status = |in_flight: u32, is_least: bool| {
        json!({
            "queue": {
                "depth": 1, "capacity": 9, "in_flight": in_flight, "late": 1,
                "drains_in_seconds": 4.3, "drain_is_least": is_least,
            },
            "stock": {"now": -0.0, "watermark": -0.0, "unit": "requests", "mode": "auto"},
            "backends": [{"id": "gpu-a", "state": "unready"}, {"id": "b", "state": "on_trial"}],
        })
    };
    let frame =
        |status: Value| lines(&state(status), (100, 30), Painter { colours: false }).join("\n");
    let one = frame(status(1, true));
    assert!(one.contains("1 of 9 waits") && one.contains("1 request in flight"), "{one}");
    assert!(one.contains("stock 0 of 0 requests"), "{one}");
    assert!(one.contains("empty in at least 4.3 s"), "{one}");
    assert!(one.contains("gpu-a    down") && !one.contains("unready"), "{one}");
    assert!(one.contains("on trial"), "{one}");
    let two = frame(status(2, false));
    assert!(two.contains("2 requests in flight") && two.contains("empty in 4.3 s"), "{two}");
}

#[test]
fn m03_a_finding_that_has_ended_is_shown_below_the_others() {
    let ended = |text: &str| json!({"text": text, "ended_seconds_ago": 40.0});
    let state = state(json!({
        "sentence": "All is well.", "level": "ok",
        "recent": [ended("gpu-b is down"), ended("second"), ended("third")],
    }));
    let lines = lines(&state, (80, 24), Painter { colours: false });
    assert_eq!(
        &lines[1..4],
        ["All is well.", "  ended 40 s ago: gpu-b is down", "  ended 40 s ago: second"]
    );
    assert_eq!(lines[4], "", "no more than two");
}

#[test]
fn m03_a_small_terminal_shows_all_findings_and_the_queue() {
    let finding = |text: &str| json!({"text": text, "advice": "a ".repeat(100)});
    let state = state(json!({
        "sentence": "s", "findings": [finding("first"), finding("second"), finding("third")],
        "queue": {"depth": 7, "capacity": 9, "drains_in_seconds": 4.0},
    }));
    let frame = |height: usize| lines(&state, (40, height), Painter { colours: false });
    let small = frame(24);
    for text in ["  first", "  second", "  third", "queue 7 of 9 wait, - late, oldest -; -/s"] {
        assert!(small.iter().any(|line| line == text), "{text}: {small:#?}");
    }
    assert!(small.iter().any(|line| line.ends_with("empty in 4.0 s")), "{small:#?}");
    let advice = |lines: &[String]| lines.iter().filter(|line| line.contains("a a")).count();
    assert!(advice(&small) < advice(&frame(60)), "{small:#?}");
}

#[test]
fn m03_advice_is_wrapped_and_keeps_its_indent() {
    let lines: Vec<String> = wrapped("    give it more room", 12).collect();
    assert_eq!(lines, ["    give it", "    more", "    room"]);
    assert_eq!(wrapped("    ", 12).count(), 0);
}
