//! N08: an endpoints file that changes all the time.

use std::fs;

use crate::support::gateway::CONFIGURED;
use crate::support::{Backend, Gateway, chat, eventually};

/// How often the file changes. An attack of 3,300 changes once left 1,156 descriptors open.
const CHANGES: usize = 300;

fn descriptors(gateway: &Gateway) -> usize {
    fs::read_dir(format!("/proc/{}/fd", gateway.process.id())).unwrap().count()
}

#[test]
fn n08_an_endpoints_file_that_flaps_fails_no_request_and_leaves_nothing_open() {
    let (stays, flaps) = (Backend::quick(), Backend::quick());
    let gateway = Gateway::start(CONFIGURED);
    gateway.list(&[&stays, &flaps]);
    gateway.await_ready(2);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let before = descriptors(&gateway);
    let changes = std::env::var("FLAPS").ok().and_then(|count| count.parse().ok());
    for number in 0..changes.unwrap_or(CHANGES) {
        match number % 4 {
            0 => gateway.list(&[&stays]),
            1 => gateway.list(&[&flaps]),
            // The model is configured, so its requests wait for the next change.
            2 => gateway.list(&[]),
            _ => gateway.list(&[&flaps, &stays]),
        }
        if number % 4 != 2 {
            assert_eq!(gateway.ask(&chat("m")).status, 200, "change {number}");
        }
    }
    gateway.list(&[&stays, &flaps]);
    gateway.await_ready(2);
    // The connection of this test itself may be one of them.
    eventually("closed", || match descriptors(&gateway) {
        now if now <= before + 8 => Ok(()),
        now => Err(format!("{now} after {before}")),
    });
    gateway.await_idle();
}

/// Endpoints under fresh names once made the page of metrics grow from 18 to 269 KB. The series of
/// an endpoint stay for 30 s, for requests that were sent to it before it left.
#[test]
fn m03_n08_the_series_of_endpoints_end_with_them() {
    let gateway = Gateway::start(CONFIGURED);
    let fresh: Vec<Backend> = (0..20).map(|_| Backend::quick()).collect();
    for backend in &fresh {
        gateway.list(&[backend]);
        eventually("served by the new endpoint", || match gateway.ask(&chat("m")) {
            answer if answer.status == 200 && !backend.seen().is_empty() => Ok(()),
            answer => Err(answer.text()),
        });
    }
    let own = format!("backend=\"e{}\"", fresh[19].address().port());
    eventually("only the series of the last endpoint", || {
        let text = gateway.get("/metrics").text();
        let mut series = text.lines().filter(|line| line.contains("backend=\"e"));
        match series.clone().count() > 0 && series.all(|line| line.contains(&own)) {
            true => Ok(()),
            false => Err(text),
        }
    });
}
