//! The endpoint picker from outside: behind the real Envoy, and spoken to directly.

mod health;
mod loss;
mod messages;
mod modes;
mod passage;
mod patience;
mod queueing;
mod reflection;
mod refusals;
mod storms;
mod subsets;
mod usage;
mod watching;
mod wrong;

use crate::support::{HttpRequest, chat};

/// A chat whose body has this many bytes, no two stretches of which are alike.
fn chat_of(bytes: usize) -> HttpRequest {
    let (before, after) = ("{\"model\":\"m\",\"prompt\":\"", "\"}");
    let letter = |at: usize| {
        let mixed = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        char::from(b'a' + (mixed % 26) as u8)
    };
    let text: String = (0..bytes - before.len() - after.len()).map(letter).collect();
    let ask = HttpRequest { body: format!("{before}{text}{after}").into_bytes(), ..chat("m") };
    assert_eq!(ask.body.len(), bytes);
    ask
}
