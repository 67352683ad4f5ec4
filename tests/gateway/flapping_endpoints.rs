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
