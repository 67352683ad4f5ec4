//! Keywords: types whose values are written as one of a few words.

/// The spellings of a type's values. The first spelling of a value is the one that is shown.
pub(crate) type Keywords<T> = &'static [(&'static str, T)];

/// A type whose values are written as one of a few words.
pub(crate) trait Keyword: Copy + PartialEq + 'static {
    const SPELLINGS: Keywords<Self>;
}

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: &'static str,
    /// The word that is shown for the same value. It differs from the text of an alias.
    pub(crate) shown: &'static str,
}

/// The value that a word stands for. Case, `-` and `_` make no difference.
pub(crate) fn find<T: Keyword>(text: &str) -> Option<T> {
    T::SPELLINGS.iter().find(|(word, _)| alike(word, text)).map(|&(_, value)| value)
}

/// The word for a value.
pub(crate) fn spelling<T: Keyword>(value: T) -> &'static str {
    T::SPELLINGS.iter().find(|&&(_, known)| known == value).map_or("", |&(word, _)| word)
}

/// All words of a type.
pub(crate) fn words<T: Keyword>() -> Vec<Word> {
    let word = |&(text, value)| Word { text, shown: spelling(value) };
    T::SPELLINGS.iter().map(word).collect()
}

/// The texts of words.
pub(crate) fn texts(words: &[Word]) -> Vec<&'static str> {
    words.iter().map(|word| word.text).collect()
}

/// Whether two spellings are the same word.
pub(crate) fn alike(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

/// `"a", "b" or "c"`.
pub(crate) fn list(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.join(""),
    }
}

fn letters(word: &str) -> impl Iterator<Item = u8> {
    let letters = word.bytes().filter(|letter| !matches!(letter, b'-' | b'_'));
    letters.map(|letter| letter.to_ascii_lowercase())
}
