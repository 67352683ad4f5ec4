//! What an engine says: one piece for each token.

use sim::random::Random;

use super::api_request::{ApiRequest, Tool};
use super::settings::Text;

const WORDS: [&str; 32] = [
    "the", "tide", "comes", "in", "and", "goes", "out", "again", "a", "gate", "opens", "while",
    "water", "is", "low", "shuts", "before", "it", "floods", "harbour", "moon", "boat", "wind",
    "slow", "quiet", "river", "sand", "between", "two", "shores", "at", "dawn",
];

/// Bytes of a tool's arguments that come as one token.
const ARGUMENT_BYTES: usize = 4;

/// The pieces of an answer, each with the space that precedes it.
pub(super) fn pieces(request: &ApiRequest, text: Text, random: &mut Random) -> Vec<String> {
    if let Some(Tool { arguments, .. }) = &request.tool {
        return split(arguments);
    }
    let output = request.output() as usize;
    let mut pieces: Vec<String> = match text {
        Text::Echo => request.prompt.split_whitespace().take(output).map(str::to_owned).collect(),
        Text::Random => (0..output).map(|_| draw(random).to_owned()).collect(),
    };
    if pieces.is_empty() {
        pieces.push("…".to_owned());
    }
    pieces.iter_mut().skip(1).for_each(|piece| piece.insert(0, ' '));
    pieces
}

fn draw(random: &mut Random) -> &'static str {
    WORDS[random.below(WORDS.len() as u64) as usize]
}

fn split(arguments: &str) -> Vec<String> {
    let letters: Vec<char> = arguments.chars().collect();
    letters.chunks(ARGUMENT_BYTES).map(|letters| letters.iter().collect()).collect()
}
