//! Words in a picture: made harmless, measured and cut.
//!
//! Names come from users and traces. The font is the reader's, so widths are guesses on the wide
//! side.

/// Text that is safe between tags and in double quotes. What XML forbids and what would reorder
/// the letters around it becomes a visible mark.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                safe.push('\u{fffd}');
            }
            _ if letter.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

/// The guessed width of `text` in letters of `size` pixels.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// The text, or its beginning and an ellipsis where it is wider than `most` pixels.
pub(super) fn fit(text: &str, size: f64, most: f64) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let kept = beginning(text.chars(), size, most - width("…", size));
    format!("{}…", kept.trim_end())
}

/// The text, or its beginning and its end where it is wider than `most` pixels.
pub(super) fn fit_middle(text: &str, size: f64, most: f64) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let room = most - width("…", size);
    let end = beginning(text.chars().rev(), size, room / 2.0);
    let start = beginning(text.chars(), size, room - width(&end, size));
    let end: String = end.chars().rev().collect();
    format!("{}…{}", start.trim_end(), end.trim_start())
}

/// The text in at most two lines of `most` pixels, none for an empty text.
pub(super) fn wrap(text: &str, size: f64, most: f64) -> Vec<String> {
    let spaces = text.match_indices(' ').map(|(at, _)| text.split_at(at));
    let fitting = spaces.take_while(|(line, _)| width(line, size) <= most).last();
    match fitting {
        _ if text.is_empty() => Vec::new(),
        Some((line, rest)) if width(text, size) > most => {
            vec![line.to_owned(), fit(rest.trim_start(), size, most)]
        }
        _ => vec![fit(text, size, most)],
    }
}

/// The letters that fit into `room` pixels.
fn beginning(letters: impl Iterator<Item = char>, size: f64, room: f64) -> String {
    let mut used = 0.0;
    let fits = |letter: &char| {
        used += advance(*letter) * size;
        used <= room
    };
    letters.take_while(fits).collect()
}

/// The width of a letter, in parts of the size of the font.
fn advance(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 0.98,
        'A'..='Z' => 0.72,
        '\u{1100}'.. => 1.1,
        _ => 0.63,
    }
}
