//! Damaged texts: whatever they hold, the answer is a trace or an error that names a line of it.

use super::super::Trace;
use super::{AZURE, JSONL, TABLE};
use crate::random::Random;

const TURNS: u64 = 20_000;
/// Pieces that parsers stumble over.
const PIECES: &[&str] = &[
    "",
    "\n",
    "\r",
    ",",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ":",
    "-",
    ".",
    "e",
    "0",
    "9999999999",
    "NaN",
    "é",
    "\u{feff}",
    "\u{0}",
    " ",
    "null",
    "1e308",
    "2023-",
    "Z",
    "+00:00",
];

fn check(text: &str, seed: u64) {
    match Trace::parse(text) {
        Ok(trace) => {
            assert!(!trace.rows.is_empty(), "seed {seed}: {text:?}");
            let clients = trace.clients.len();
            assert!(trace.rows.iter().all(|row| (row.client as usize) < clients), "seed {seed}");
            assert!(trace.rows.is_sorted_by_key(|row| row.at), "seed {seed}: {text:?}");
        }
        Err(error) => {
            let lines = text.lines().count().max(1);
            assert!((1..=lines).contains(&error.line), "seed {seed}: {error} in {text:?}");
            assert!(error.to_string().starts_with("line "), "seed {seed}: {error}");
        }
    }
}

/// A random place between two characters.
fn place(text: &str, random: &mut Random) -> usize {
    let mut place = random.below(text.len() as u64 + 1) as usize;
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}

fn mutate(text: &mut String, random: &mut Random) {
    let (one, other) = (place(text, random), place(text, random));
    let piece = PIECES[random.below(PIECES.len() as u64) as usize];
    match random.below(4) {
        0 => text.insert_str(one, piece),
        1 => text.replace_range(one.min(other)..one.max(other), piece),
        2 => text.truncate(one),
        _ => {
            let copy = text[one.min(other)..one.max(other)].to_owned();
            text.insert_str(other, &copy);
        }
    }
}

#[test]
fn damaged_traces_are_read_or_refused_with_a_line() {
    for seed in 0..TURNS {
        let mut random = Random::new(seed);
        let mut text = [TABLE, AZURE, JSONL][random.below(3) as usize].to_owned();
        for _ in 0..=random.below(4) {
            mutate(&mut text, &mut random);
        }
        check(&text, seed);
    }
}

#[test]
fn random_bytes_are_refused_with_a_line() {
    for seed in 0..TURNS {
        let mut random = Random::new(seed);
        let bytes: Vec<u8> = (0..random.below(80)).map(|_| random.bits() as u8).collect();
        let text = String::from_utf8_lossy(&bytes);
        assert!(Trace::parse(&text).is_err(), "seed {seed}: {text:?}");
        check(&text, seed);
        check(&format!("arrived_at_s,input_tokens,output_tokens\n{text}"), seed);
        check(&format!("{{{text}"), seed);
    }
}
