//! Text from other programs, made safe for a terminal.
//!
//! The author of an id, a message or metadata must not move the cursor, clear the screen or reverse
//! the direction of the text.

use serde_json::Value;

/// The length at which an example message is cut.
pub(super) const SHOWN_MAX: usize = 300;

/// Replaces control characters and line breaks.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|letter| if is_harmless(letter) { letter } else { ' ' }).collect()
}

/// Replaces control characters, but keeps line breaks and tabs.
pub(super) fn lines(text: &str) -> String {
    let is_kept = |letter| matches!(letter, '\n' | '\t') || is_harmless(letter);
    text.chars().map(|letter| if is_kept(letter) { letter } else { ' ' }).collect()
}

/// Replaces control characters and line breaks, and cuts the text.
pub(super) fn shortened(text: &str) -> String {
    let mut letters = text.chars();
    let mut shown = line(&letters.by_ref().take(SHOWN_MAX).collect::<String>());
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Replaces control characters and line breaks in all strings of a JSON value.
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
    // These are not control characters, but they change the direction of the text.
    let changes_direction = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !changes_direction
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn d10_control_characters_are_replaced_and_other_characters_stay() {
        let text = "é…\u{1b}[2J\u{9b}\r\u{8}\u{202e}\u{2066}\n\tx";
        assert_eq!(line(text), "é… [2J       x");
        assert_eq!(lines(text), "é… [2J     \n\tx");
    }

    #[test]
    fn d10_strings_and_keys_of_a_json_value_are_cleaned_at_every_depth() {
        let received = json!({"a\n": [{"b": "c\u{1b}"}, 7, null, true]});
        assert_eq!(value(received), json!({"a ": [{"b": "c "}, 7, null, true]}));
    }

    #[test]
    fn d10_only_long_texts_are_cut() {
        let just = "é".repeat(SHOWN_MAX);
        assert_eq!(shortened(&just), just);
        assert_eq!(shortened(&format!("{just}é")), format!("{just}…"));
    }
}
