//! Clients over HTTP/1.1: patient ones, and ones that stall, leave, reset, half-close or never send
//! the end of their body.

use std::io;

use socket2::SockRef;

use super::engines::pause;
use super::ledger::{ClientOutcome, Entry};
use super::traffic::{Fresh, Traffic};
use crate::support::{Call, Random};

/// The longest stay of a client that leaves.
const STAY_MILLIS: u64 = 150;
/// The stall of a client that stops to read, longer than `write_timeout`.
const STALL_MILLIS: u64 = 1500;
/// Requests on one kept connection.
const KEPT_MAX: u64 = 5;

/// Sends requests of every manner until the traffic ends.
pub(super) fn run(traffic: &Traffic, mut random: Random) {
    while !traffic.is_over() {
        match random.below(20) {
            0 => leave(traffic, &mut random, false),
            1 => leave(traffic, &mut random, true),
            2 => half_close(traffic, &mut random),
            3 => stall(traffic, &mut random),
            4 => cut_body(traffic, &mut random),
            5 => slow_body(traffic, &mut random),
            _ => patient(traffic, &mut random),
        }
    }
}

/// Several requests on one connection, each after the response to the one before.
fn patient(traffic: &Traffic, random: &mut Random) {
    let mut kept: Option<Call> = None;
    for _ in 0..=random.below(KEPT_MAX) {
        let fresh = traffic.fresh(random);
        let (bytes, reused) = (fresh.request.bytes_kept(), kept.is_some());
        let sent = match kept.take() {
            Some(mut call) => call.send(&bytes).map(|()| call),
            None => Call::try_open(traffic.address, &bytes),
        };
        let Ok(mut call) = sent else {
            // The gateway may close a kept connection at any time, before it reads a request.
            traffic.record(Entry::of(&fresh, ClientOutcome::Left));
            return;
        };
        let mut entry = finish(&mut call, &fresh);
        if reused && entry.outcome == ClientOutcome::Silent {
            entry.outcome = ClientOutcome::Left;
        }
        let whole = matches!(entry.outcome, ClientOutcome::Answered(200));
        traffic.record(entry);
        if !whole {
            // The gateway may close the connection after an error.
            return;
        }
        kept = Some(call);
    }
}

/// Reads the response of a request that was sent completely.
fn finish(call: &mut Call, fresh: &Fresh) -> Entry {
    if call.try_head().is_err() {
        return Entry::of(fresh, ClientOutcome::Silent);
    }
    match call.answer() {
        Ok(response) => Entry::answered(fresh, response.status, &response.body),
        Err(_) => Entry::of(fresh, ClientOutcome::Cut),
    }
}

/// Leaves after a while, by closing or by resetting the connection.
fn leave(traffic: &Traffic, random: &mut Random, reset: bool) {
    let fresh = traffic.fresh(random);
    if let Ok(call) = Call::try_open(traffic.address, &fresh.request.bytes_kept()) {
        pause(random.below(STAY_MILLIS));
        if reset {
            // The gateway may have closed it already.
            let _ = SockRef::from(call.stream()).set_linger(Some(std::time::Duration::ZERO));
        }
    }
    traffic.record(Entry::of(&fresh, ClientOutcome::Left));
}

/// Closes its sending direction and waits for the response, which the gateway need not send.
fn half_close(traffic: &Traffic, random: &mut Random) {
    let fresh = traffic.fresh(random);
    let entry = match Call::try_open(traffic.address, &fresh.request.bytes()) {
        Ok(mut call) => {
            call.end();
            finish(&mut call, &fresh)
        }
        Err(_) => Entry::of(&fresh, ClientOutcome::Left),
    };
    let answered = matches!(entry.outcome, ClientOutcome::Answered(_));
    traffic.record(if answered { entry } else { Entry::of(&fresh, ClientOutcome::Left) });
}

/// Reads nothing for a while. The gateway may cut the response meanwhile, visibly.
fn stall(traffic: &Traffic, random: &mut Random) {
    let fresh = traffic.fresh(random);
    let Ok(mut call) = Call::try_open(traffic.address, &fresh.request.bytes()) else {
        return traffic.record(Entry::of(&fresh, ClientOutcome::Left));
    };
    pause(random.below(STALL_MILLIS));
    traffic.record(finish(&mut call, &fresh));
}

/// Sends a part of its request, then leaves.
fn cut_body(traffic: &Traffic, random: &mut Random) {
    let fresh = traffic.fresh(random);
    let bytes = fresh.request.bytes();
    let part = random.below(bytes.len() as u64) as usize;
    if let Ok(call) = Call::try_open(traffic.address, &bytes[..part]) {
        pause(random.below(STAY_MILLIS));
        drop(call);
    }
    traffic.record(Entry::of(&fresh, ClientOutcome::Left));
}

/// Sends its request in two parts, the second sometimes too late.
fn slow_body(traffic: &Traffic, random: &mut Random) {
    let fresh = traffic.fresh(random);
    let bytes = fresh.request.bytes();
    let part = bytes.len() - 1 - random.below(60) as usize;
    let late = random.below(STALL_MILLIS);
    let entry = match send_in_parts(traffic, bytes.split_at(part), late) {
        Ok(mut call) => finish(&mut call, &fresh),
        Err(_) => Entry::of(&fresh, ClientOutcome::Left),
    };
    // A request that came too late may be answered before it was sent.
    let answered = matches!(entry.outcome, ClientOutcome::Answered(_));
    traffic.record(if answered { entry } else { Entry::of(&fresh, ClientOutcome::Left) });
}

fn send_in_parts(
    traffic: &Traffic,
    (first, second): (&[u8], &[u8]),
    late_millis: u64,
) -> io::Result<Call> {
    let mut call = Call::try_open(traffic.address, first)?;
    pause(late_millis);
    call.send(second)?;
    Ok(call)
}
