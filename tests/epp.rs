//! The endpoint picker as a process: behind the real Envoy, and in direct sessions.

mod existing_picker;
mod failures;
mod forwarding;
mod health;
mod hold;
mod malformed;
mod messages;
mod modes;
mod observability;
mod page_access;
mod queueing;
mod random_clients;
mod reflection;
mod refusals;
mod subsets;
mod tenants;
mod timeouts;
mod tls;
mod unannounced_modes;
mod unpaid;
mod usage;

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
