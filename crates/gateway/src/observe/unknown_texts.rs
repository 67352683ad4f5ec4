//! What clients name as a priority and is none. A priority that is no band has no effect, by
//! promise; without a word about it, a client that writes `urgent` waits among all others and does
//! not know why. Anybody can send such texts, so that few are kept.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// How many texts are remembered, and up to which length.
const TEXTS_MAX: usize = 32;
const TEXT_MAX: usize = 64;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct UnknownTexts {
    total: AtomicU64,
    texts: Mutex<Texts>,
}

#[derive(Debug, Default)]
struct Texts {
    told: Vec<String>,
    last: String,
}

// === impl UnknownTexts ===

impl UnknownTexts {
    /// Counts a request. Returns whether its text is new and is to be told: beyond the bound no
    /// text is, since a client may invent one for each request.
    pub(super) fn add(&self, text: &str) -> bool {
        self.total.fetch_add(1, Relaxed);
        let text = &text[..text.floor_char_boundary(TEXT_MAX)];
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.last.clear();
        texts.last.push_str(text);
        let told = &mut texts.told;
        let is_new = told.len() < TEXTS_MAX && !told.iter().any(|known| known == text);
        if is_new {
            told.push(text.to_owned());
        }
        is_new
    }

    /// The last text, and the number of requests.
    pub(super) fn read(&self) -> (String, u64) {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        (texts.last.clone(), self.total.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m03_each_unknown_text_is_told_once_and_a_bounded_number() {
        let unknown = UnknownTexts::default();
        assert!(unknown.add("urgent") && !unknown.add("urgent") && unknown.add("asap"));
        let told = (0..1000).filter(|number| unknown.add(&format!("p{number}"))).count();
        assert_eq!(told, TEXTS_MAX - 2);
        assert!(!unknown.add("urgent"));
        assert_eq!(unknown.read(), ("urgent".to_owned(), 1004));
    }
}
