//! Clients and streams with random actions: afterwards no request stays counted.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use serde_json::json;

use super::chat_of;
use crate::support::envoy::FREE;
use crate::support::ext_proc::Stream;
use crate::support::gateway::{TWO, config};
use crate::support::{Backend, Call, ExtProcStream, Gateway, Picker, ScriptedResponse, chat};

/// Chance, from a seed that a failure shows.
struct Dice(u64);

// === impl Dice ===

impl Dice {
    fn seeded() -> Self {
        let seed = RandomState::new().build_hasher().finish() | 1;
        eprintln!("seed {seed}");
        Self(seed)
    }

    /// A number below this one.
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

/// Says something on a stream, mostly what comes next there.
fn say(talk: &mut ExtProcStream, stream: Stream, step: usize, dice: &mut Dice) {
    let wild = dice.below(12) == 0;
    match if wild { dice.below(10) } else { step } {
        0 => talk.head(stream, &chat("m").priority("high"), json!({})),
        1 => talk.body(stream, &chat("m").body, false),
        2 => talk.body(stream, &[], true),
        3 => talk.answer_head(stream, 200, "text/event-stream", json!({})),
        4 => talk.answer_body(stream, b"data: {\"usage\":{\"completion_tokens\":3}}\n\n", false),
        5 => talk.answer_body(stream, b"data: [DONE]\n\n", true),
        6 => talk.end(stream),
        7 => talk.cancel(stream),
        8 => talk.trailers(stream),
        _ => talk.raw(stream, &[0xff; 3]),
    }
}

#[test]
fn x02_streams_that_end_anywhere_leave_nothing_behind() {
    let backend = Backend::quick();
    let picker = Gateway::picker(&config(TWO, &[("one", backend.address())]), FREE);
    picker.await_ready(1);
    let mut talk = ExtProcStream::with(picker.process.address());
    let mut dice = Dice::seeded();
    let mut streams: Vec<(Stream, usize)> = (0..60).map(|_| (talk.stream(), 0)).collect();
    for _ in 0..400 {
        let (stream, step) = &mut streams[dice.below(60)];
        say(&mut talk, *stream, *step, &mut dice);
        *step = (*step + 1).min(6);
    }
    for &(stream, _) in &streams {
        match dice.below(2) {
            0 => talk.end(stream),
            _ => talk.cancel(stream),
        }
    }
    for (stream, _) in streams {
        talk.until_ended(stream);
    }
    picker.await_idle();
    let stream = talk.request(&chat("m"), 1_000);
    talk.choice(stream);
    assert_eq!(talk.serve(stream, "application/json", &[b"{}"]), b"{}");
    picker.await_idle();
}

#[test]
fn x02_q09_clients_that_leave_anywhere_leave_nothing_behind() {
    let backend = Backend::start(|seen| match seen.number % 3 {
        0 => ScriptedResponse::ok().held(),
        1 => ScriptedResponse::stream_held(&["the ", "tide"]),
        _ => ScriptedResponse::ok(),
    });
    let picker = Picker::before(TWO, &backend);
    let mut dice = Dice::seeded();
    let mut calls = Vec::new();
    for _ in 0..150 {
        let bytes = chat_of(1_000 + dice.below(100_000)).bytes();
        let sent = if dice.below(3) == 0 { dice.below(bytes.len()) } else { bytes.len() };
        calls.push(Call::open(picker.address(), &bytes[..sent]));
        if dice.below(2) == 0 {
            drop(calls.swap_remove(dice.below(calls.len())));
        }
        if dice.below(4) == 0 {
            backend.release(1);
        }
    }
    drop(calls);
    backend.open();
    picker.await_idle();
    assert_eq!(picker.ask(&chat("m")).status, 200);
    picker.await_idle();
}
