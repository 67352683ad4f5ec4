//! What came from elsewhere, as it may stand on a terminal: whoever writes an id, a message or
//! metadata must not move the cursor, clear the screen or turn the words of others round.

use serde_json::Value;

/// Letters of a message that are shown where it is an example.
pub(super) const SHOWN_MAX: usize = 300;

/// A text on one line.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|letter| if is_harmless(letter) { letter } else { ' ' }).collect()
}

/// A text with lines and columns of its own.
pub(super) fn lines(text: &str) -> String {
    let is_kept = |letter| matches!(letter, '\n' | '\t') || is_harmless(letter);
    text.chars().map(|letter| if is_kept(letter) { letter } else { ' ' }).collect()
}

/// A text on one line, of bounded length.
pub(super) fn shortened(text: &str) -> String {
    let mut letters = text.chars();
    let mut shown = line(&letters.by_ref().take(SHOWN_MAX).collect::<String>());
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// An answer each of whose texts is on one line.
pub(super) fn value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(line(&text)),
        Value::Array(rows) => rows.into_iter().map(self::value).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, field)| (line(&key), self::value(field))).collect()
        }
        other => other,
    }
}

fn is_harmless(letter: char) -> bool {
    // These are no control characters, but they turn the direction of what follows.
    let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !turns
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn d10_what_moves_a_cursor_is_replaced_and_the_rest_stays() {
        let text = "é…\u{1b}[2J\u{9b}\r\u{8}\u{202e}\u{2066}\n\tx";
        assert_eq!(line(text), "é… [2J       x");
        assert_eq!(lines(text), "é… [2J     \n\tx");
    }

    #[test]
    fn d10_texts_and_names_in_an_answer_are_cleaned_however_deep() {
        let told = json!({"a\n": [{"b": "c\u{1b}"}, 7, null, true]});
        assert_eq!(value(told), json!({"a ": [{"b": "c "}, 7, null, true]}));
    }

    #[test]
    fn d10_only_a_text_that_is_too_long_is_cut() {
        let just = "é".repeat(SHOWN_MAX);
        assert_eq!(shortened(&just), just);
        assert_eq!(shortened(&format!("{just}é")), format!("{just}…"));
    }
}
