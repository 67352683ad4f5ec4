//! The series that an expression of PromQL reads. This module does no IO.
//!
//! Only the selectors are found, with their offsets and without their ranges. Everything else is
//! skipped: functions, operators, numbers and lists of labels. A server refuses an expression with
//! errors anyway, so errors need no attention here.

/// Words that are followed by a list of labels.
const LABEL_LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Operators and numbers that are spelled like names.
const NOT_NAMES: [&str; 7] = ["and", "or", "unless", "atan2", "bool", "inf", "nan"];
/// Aggregations, whose label lists may come before their parenthesis.
const AGGREGATIONS: [&str; 14] = [
    "sum",
    "min",
    "max",
    "avg",
    "group",
    "count",
    "stddev",
    "stdvar",
    "topk",
    "bottomk",
    "quantile",
    "count_values",
    "limitk",
    "limit_ratio",
];

/// The part of an expression that was not read yet.
struct Scanner<'a>(&'a str);

/// The selectors of an expression, each once, in the order of their first use.
pub(super) fn selectors(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut scanner = Scanner(expression);
    while let Some(selector) = scanner.next_selector() {
        if !found.contains(&selector) {
            found.push(selector);
        }
    }
    found
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':')
}

// === impl Scanner ===

impl Scanner<'_> {
    fn next_selector(&mut self) -> Option<String> {
        loop {
            self.skip_blanks();
            let letter = self.0.chars().next()?;
            if let Some(selector) = self.token(letter) {
                return Some(selector);
            }
        }
    }

    /// Reads the token that begins with this letter; returns it if it is a selector.
    fn token(&mut self, letter: char) -> Option<String> {
        match letter {
            '{' => return Some(self.selector(String::new())),
            '[' => self.skip_to(']'),
            '"' | '\'' | '`' => drop(self.string()),
            letter if letter.is_ascii_digit() || letter == '.' => drop(self.word()),
            letter if is_name(letter) => {
                let name = self.word();
                return self.after_name(name);
            }
            other => self.0 = &self.0[other.len_utf8()..],
        }
        None
    }

    /// The selector that a name begins, unless the name is something else.
    fn after_name(&mut self, name: String) -> Option<String> {
        let lower = name.to_ascii_lowercase();
        self.skip_blanks();
        match lower.as_str() {
            word if LABEL_LISTS.contains(&word) => self.skip_to(')'),
            word if NOT_NAMES.contains(&word) => {}
            word if AGGREGATIONS.contains(&word) && !self.0.starts_with('{') => {}
            "offset" => drop(self.signed()),
            _ if self.0.starts_with('(') => {}
            _ => return Some(self.selector(name)),
        }
        None
    }

    /// Reads the matchers and the offset of a selector, and skips its range.
    fn selector(&mut self, mut selector: String) -> String {
        if self.0.starts_with('{') {
            selector.push_str(&self.matchers());
        }
        loop {
            self.skip_blanks();
            if self.0.starts_with('[') {
                self.skip_to(']');
            } else if let Some(rest) = self.0.strip_prefix('@') {
                self.0 = rest;
                self.skip_blanks();
                let time = self.word();
                // `start()` and `end()` are the moment of an instant query.
                match self.0.strip_prefix("()") {
                    Some(rest) => self.0 = rest,
                    None => selector.push_str(&format!(" @ {time}")),
                }
            } else if self.is_offset() {
                self.0 = &self.0["offset".len()..];
                selector.push_str(&format!(" offset {}", self.signed()));
            } else {
                return selector;
            }
        }
    }

    fn is_offset(&self) -> bool {
        let word = self.0.get(.."offset".len());
        word.is_some_and(|word| word.eq_ignore_ascii_case("offset"))
            && !self.0["offset".len()..].starts_with(is_name)
    }

    fn matchers(&mut self) -> String {
        let mut text = String::new();
        while let Some(letter) = self.0.chars().next() {
            if matches!(letter, '"' | '\'' | '`') {
                text.push_str(&self.string());
                continue;
            }
            self.0 = &self.0[letter.len_utf8()..];
            text.push(letter);
            if letter == '}' {
                break;
            }
        }
        text
    }

    /// Reads a string with its quotes.
    fn string(&mut self) -> String {
        let mut letters = self.0.char_indices();
        let quote = letters.next().map_or('"', |(_, quote)| quote);
        let mut escaped = false;
        let end = letters.find(|&(_, letter)| {
            let ends = letter == quote && !escaped;
            escaped = letter == '\\' && quote != '`' && !escaped;
            ends
        });
        let (text, rest) = self.0.split_at(end.map_or(self.0.len(), |(at, _)| at + 1));
        self.0 = rest;
        text.to_owned()
    }

    /// Reads a name, a number or a duration.
    fn word(&mut self) -> String {
        let end = self.0.find(|letter| !is_name(letter) && letter != '.').unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word.to_owned()
    }

    /// Reads a duration with its sign.
    fn signed(&mut self) -> String {
        self.skip_blanks();
        let sign = if self.0.starts_with('-') { "-" } else { "" };
        self.0 = &self.0[sign.len()..];
        format!("{sign}{}", self.word())
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        loop {
            self.0 = self.0.trim_start();
            if !self.0.starts_with('#') {
                return;
            }
            self.0 = self.0.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    /// Skips up to the closing letter, if the matching one is next. A range holds no strings, and a
    /// list of labels neither.
    fn skip_to(&mut self, closing: char) {
        let opening = if closing == ')' { '(' } else { '[' };
        if self.0.starts_with(opening) {
            self.0 = self.0.split_once(closing).map_or("", |(_, rest)| rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn d06_the_series_of_an_expression_are_found() {
        for (expression, found) in [
            ("1 - 0.5", &[][..]),
            ("vector(1e3) + Inf - NaN + time() + 0x1F", &[]),
            ("free", &["free"]),
            ("1 - busy{server=\"a\"} / 10", &["busy{server=\"a\"}"]),
            ("avg_over_time(free[5m])", &["free"]),
            (
                "rate(http_requests_total{job='x'}[5m:1m] offset 10m)",
                &["http_requests_total{job='x'} offset 10m"],
            ),
            ("a offset -5m @ 1700000000.5 + b @ end()", &["a offset -5m @ 1700000000.5", "b"]),
            (
                "sum by (job, le) (rate(a:b[1m])) / on(job) group_left(x) sum(c) by (job)",
                &["a:b", "c"],
            ),
            ("1 - (sum(q{p=\"}{,\\\"(\"}) or vector(0)) # busy(", &["q{p=\"}{,\\\"(\"}"]),
            ("{__name__=~\"x|y\"} AND up unless on() up", &["{__name__=~\"x|y\"}", "up"]),
            (
                "quantile(0.9, a) > bool b and label_replace(c, \"d\", \"$1\", \"e\", \"f\")",
                &["a", "b", "c"],
            ),
            ("(a or b)[5m:] offset 1h", &["a", "b"]),
        ] {
            assert_eq!(selectors(expression), found, "{expression}");
        }
    }

    proptest! {
        #[test]
        fn d06_no_expression_causes_a_panic(
            text in ".{0,60}",
            ascii in "[a-c{}()\\[\\]\"'@#. -]{0,60}",
        ) {
            _ = selectors(&text);
            _ = selectors(&ascii);
        }
    }
}
