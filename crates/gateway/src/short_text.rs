//! Searches the beginning of a text eight bytes at a time: keys are too short for SIMD to pay off.
//!
//! The marks of a word have the highest bit of each byte that was found. Those above the lowest
//! mark may be wrong, the lowest never is.

/// How many words are searched.
const WORDS: usize = 2;
const LOWEST: u64 = repeated(1);
const HIGHEST: u64 = repeated(0x80);

/// Where the first mark is in the first sixteen bytes; `None` if there is none, or if a text ends
/// before them without one.
pub(crate) fn find(bytes: &[u8], marks: impl Fn(u64) -> u64) -> Option<usize> {
    for (at, word) in bytes.chunks_exact(8).take(WORDS).enumerate() {
        let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let found = marks(word);
        if found != 0 {
            return Some(8 * at + found.trailing_zeros() as usize / 8);
        }
    }
    None
}

/// Marks what ends a JSON text or is an escape in it.
pub(crate) fn ends(word: u64) -> u64 {
    zero_bytes(word ^ repeated(b'"')) | zero_bytes(word ^ repeated(b'\\'))
}

/// Marks control characters.
pub(crate) fn controls(word: u64) -> u64 {
    word.wrapping_sub(repeated(b' ')) & !word & HIGHEST
}

fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOWEST) & !word & HIGHEST
}

const fn repeated(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the search with a naive one, on beginnings of the bytes.
    fn check(bytes: &[u8; 20]) {
        let is_end = |byte| matches!(byte, b'"' | b'\\');
        for length in [3, 8, 15, 16, 20] {
            let text = &bytes[..length];
            let searched = &text[..(length / 8 * 8).min(16)];
            let first = |is_one: fn(u8) -> bool| searched.iter().position(|&byte| is_one(byte));
            assert_eq!(find(text, ends), first(is_end), "{text:?}");
            assert_eq!(find(text, controls), first(|byte| byte < b' '), "{text:?}");
        }
    }

    #[test]
    fn x05_the_first_mark_is_found_wherever_it_stands() {
        for first in 0..=u8::MAX {
            for (at, second) in (0..20).flat_map(|at| [(at, 0), (at, b'"'), (at, 0x80)]) {
                let mut bytes = [b'a'; 20];
                bytes[at] = first;
                bytes[(at + 1) % 20] = second;
                check(&bytes);
            }
        }
    }
}
