//! Mistakes in an expression of PromQL that are found without its grammar. This module does no IO.
//! The whole grammar would need a parser generator, for one key of one kind of gate.
//!
//! It finds quotes and brackets that do not match, operators without an operand at the ends of an
//! expression or of an argument, and characters that PromQL does not have, such as the variables of
//! Grafana. It refuses nothing that a server accepts. It does not find misspelt names and
//! functions, wrong arguments, or operands without an operator between them. The server refuses
//! those, and the gate then shows the server's error.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::schema::Section;

/// Operators that are spelled like names.
const WORDS: [&str; 4] = ["and", "or", "unless", "atan2"];

/// An expression that is being read.
struct Expression<'a> {
    text: &'a str,
    letters: Peekable<CharIndices<'a>>,
    /// The brackets that are open.
    open: Vec<char>,
    /// Whether an argument has begun.
    begun: bool,
    /// The operator before this place, if its right operand has not come.
    due: Option<&'a str>,
}

/// Refuses the expressions of these keys if they have a mistake.
pub(in crate::gates) fn refuse_mistakes(section: &Section<'_>, keys: &[&str]) {
    for key in keys {
        let expression: Option<String> = section.given(key);
        if let Some(Err(mistake)) = expression.as_deref().map(check) {
            section.refuse(key, mistake);
        }
    }
}

/// Finds the first mistake.
fn check(text: &str) -> Result<(), String> {
    let letters = text.char_indices().peekable();
    let mut expression = Expression { text, letters, open: Vec::new(), begun: false, due: None };
    while let Some((at, letter)) = expression.letters.next() {
        expression.token(at, letter)?;
    }
    match (expression.open.last(), expression.due) {
        (Some(open), _) => Err(format!("has a {open} that is not closed")),
        (None, Some(operator)) => Err(format!("ends after {operator:?}")),
        (None, None) if !expression.begun => Err("is empty".into()),
        (None, None) => Ok(()),
    }
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':' | '.')
}

// === impl Expression ===

impl<'a> Expression<'a> {
    /// Reads the token that begins with this letter.
    fn token(&mut self, at: usize, letter: char) -> Result<(), String> {
        match letter {
            ' ' | '\t' | '\r' | '\n' => {}
            '#' => while self.letters.next_if(|&(_, letter)| letter != '\n').is_some() {},
            '"' | '\'' | '`' => {
                self.string(letter)?;
                self.operand();
            }
            '(' | '[' | '{' => {
                self.open.push(letter);
                (self.begun, self.due) = (letter != '(', None);
            }
            ')' | ']' | '}' => {
                self.complete()?;
                self.close(letter)?;
                self.operand();
            }
            letter if is_name(letter) => self.word(at),
            // The operators of matchers and ranges are other ones.
            '=' | '!' | '~' | ',' | '<' | '>' | '+' | '-' | '*' | '/' | '%' | '^' | '@'
                if self.open.last().is_some_and(|open| *open != '(') => {}
            ',' => {
                self.complete()?;
                self.begun = false;
            }
            '=' | '!' | '~' | '<' | '>' | '+' | '-' | '*' | '/' | '%' | '^' | '@' => {
                self.operator(at, letter)?;
            }
            other => return Err(format!("has a {other}, which is not PromQL")),
        }
        Ok(())
    }

    fn operand(&mut self) {
        (self.begun, self.due) = (true, None);
    }

    /// Refuses an argument that ends after an operator.
    fn complete(&self) -> Result<(), String> {
        match self.due {
            Some(operator) => Err(format!("has nothing after {operator:?}")),
            None => Ok(()),
        }
    }

    fn close(&mut self, letter: char) -> Result<(), String> {
        let due = match self.open.pop() {
            Some('(') => ')',
            Some('[') => ']',
            Some(_) => '}',
            None => return Err(format!("has a {letter} that closes nothing")),
        };
        if letter == due { Ok(()) } else { Err(format!("has a {letter} where {due} is due")) }
    }

    fn word(&mut self, at: usize) {
        let mut end = at + 1;
        while let Some((at, letter)) = self.letters.next_if(|&(_, letter)| is_name(letter)) {
            end = at + letter.len_utf8();
        }
        let word = &self.text[at..end];
        let is_any = |words: &[&str]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
        match self.due {
            None if self.begun && is_any(&WORDS) => self.due = Some(word),
            Some(_) if is_any(&["bool"]) => {}
            _ => self.operand(),
        }
    }

    fn operator(&mut self, at: usize, letter: char) -> Result<(), String> {
        let long = self.letters.next_if(|&(_, next)| next == '=' && "=!<>".contains(letter));
        if long.is_none() && "=!~".contains(letter) {
            return Err(format!("has a {letter}, which is not an operator"));
        }
        let operator = &self.text[at..at + 1 + usize::from(long.is_some())];
        if !self.begun && !matches!(letter, '+' | '-') {
            return Err(format!("has nothing before {operator:?}"));
        }
        self.due = Some(operator);
        Ok(())
    }

    /// Reads a string after its first quote. Only a raw one may have several lines.
    fn string(&mut self, quote: char) -> Result<(), String> {
        let is_raw = quote == '`';
        while let Some((_, letter)) = self.letters.next() {
            match letter {
                _ if letter == quote => return Ok(()),
                '\n' if !is_raw => break,
                '\\' if !is_raw => _ = self.letters.next(),
                _ => {}
            }
        }
        Err(format!("has a {quote} that is not closed"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn d06_expressions_without_a_mistake_are_accepted() {
        for expression in [
            "1 - 0.5",
            "vector(1e-3) + +Inf - NaN + time() + 0x1F",
            "a > bool b and on(x) c UNLESS ignoring(y) d atan2 e",
            "and",
            "a or or",
            "sum(a </ 3)",
            "label_replace(c, \"d\", '$1', \"e\", `\\`) @ 1700000000.5",
            "(a or b)[5m:] offset -1h",
            "{__name__=~\"x|y\", a!~'(', \"utf.8\"!=\"\\\\\"}",
            "1 # (\n- a",
        ] {
            assert_eq!(check(expression), Ok(()), "{expression}");
        }
    }

    #[test]
    fn d06_the_first_mistake_of_an_expression_is_told() {
        for (expression, why) in [
            ("", "is empty"),
            ("f(a, / b)", "has nothing before \"/\""),
            ("f(a +, b)", "has nothing after \"+\""),
            ("a > bool", "ends after \">\""),
            ("a >=", "ends after \">=\""),
            ("a{b='x\n'}", "has a ' that is not closed"),
            ("a{b=\"\\\"}", "has a \" that is not closed"),
            ("a !~ b", "has a !, which is not an operator"),
            ("{a=\"b\")", "has a ) where } is due"),
            ("a && b", "has a &, which is not PromQL"),
        ] {
            assert_eq!(check(expression), Err(why.into()), "{expression}");
        }
    }

    proptest! {
        #[test]
        fn d06_no_expression_panics(text in ".{0,60}", ascii in "[a-c{}()\\[\\]\"'@#=<. -]{0,60}") {
            _ = check(&text);
            _ = check(&ascii);
        }
    }
}
