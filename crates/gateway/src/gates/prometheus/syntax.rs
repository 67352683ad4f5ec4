//! Mistakes in an expression of PromQL that are found without its grammar. This module does no IO.
//! The whole grammar would need a parser generator, for one key of one kind of gate.
//!
//! It finds quotes and brackets that do not match, operators without an operand, two names without
//! an operator between them, values of labels without quotes, and characters that PromQL does not
//! have, such as the variables of Grafana. It refuses nothing that a server accepts, also not the
//! names, words and templates of VictoriaMetrics. It does not find misspelt names and functions, or
//! wrong arguments. The server refuses those, and the gate then shows the server's error.

use std::fmt;
use std::iter::Peekable;
use std::str::CharIndices;

use crate::schema::Section;

/// Words that stand after an operand and need something after them. The last four are
/// VictoriaMetrics's.
const WORDS: [&str; 11] =
    ["and", "or", "unless", "atan2", "offset", "by", "without", "default", "if", "ifnot", "limit"];
/// Words that stand after an operand and need nothing after them.
const SUFFIXES: [&str; 3] = ["keep_metric_names", "anchored", "smoothed"];
/// Words between an operator and its right operand. All but the first may have a list of labels.
const MODIFIERS: [&str; 5] = ["bool", "on", "ignoring", "group_left", "group_right"];

/// An expression that is being read.
struct Expression<'a> {
    text: &'a str,
    letters: Peekable<CharIndices<'a>>,
    /// The brackets that are open, each with the operator whose operand comes after it.
    open: Vec<(char, Option<&'a str>)>,
    /// Whether an argument has begun.
    begun: bool,
    /// The operator before this place, if its right operand has not come.
    due: Option<&'a str>,
    /// Whether a parenthesis here is the list of labels of a modifier.
    modified: bool,
    /// The name or number before this place.
    name: Option<&'a str>,
    /// Whether it has a template of VictoriaMetrics, in which names may stand for anything.
    is_template: bool,
}

/// A mistake in an expression. It reads on after the name of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mistake {
    Empty,
    /// A quote or a bracket that is not closed.
    Unclosed(char),
    ClosesNothing(char),
    WrongBracket {
        found: char,
        due: char,
    },
    EndsAfter(String),
    NothingAfter(String),
    NothingBefore(String),
    NothingBetween(String, String),
    NoOperatorBetween(String, String),
    ValueWithoutQuotes(String),
    NotAnOperator(char),
    UnknownCharacter(char),
}

/// Refuses the expressions of these keys if they have a mistake.
pub(in crate::gates) fn refuse_mistakes(section: &Section<'_>, keys: &[&str]) {
    for key in keys {
        let expression: Option<String> = section.given(key);
        if let Some(Err(mistake)) = expression.as_deref().map(check) {
            section.refuse(key, mistake.to_string());
        }
    }
}

/// Finds the first mistake.
fn check(text: &str) -> Result<(), Mistake> {
    let letters = text.char_indices().peekable();
    let (open, begun, due, modified, name) = (Vec::new(), false, None, false, None);
    let upper = text.to_ascii_uppercase();
    let is_template = ["WITH (", "WITH("].iter().any(|start| upper.contains(start));
    let mut expression =
        Expression { text, letters, open, begun, due, modified, name, is_template };
    while let Some((at, letter)) = expression.letters.next() {
        expression.token(at, letter)?;
    }
    match (expression.open.last(), expression.due) {
        (Some((open, _)), _) => Err(Mistake::Unclosed(*open)),
        (None, Some(operator)) => Err(Mistake::EndsAfter(operator.to_owned())),
        (None, None) if !expression.begun => Err(Mistake::Empty),
        (None, None) => Ok(()),
    }
}

/// Whether a letter is part of a name, a number or a duration. VictoriaMetrics has names with
/// letters of any language and with escapes.
fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | ':' | '.' | '\\')
}

// === impl Mistake ===

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::Unclosed(open) => write!(f, "has a {open} that is not closed"),
            Self::ClosesNothing(bracket) => write!(f, "has a {bracket} that closes nothing"),
            Self::WrongBracket { found, due } => write!(f, "has a {found} where {due} is due"),
            Self::EndsAfter(operator) => write!(f, "ends after {operator:?}"),
            Self::NothingAfter(operator) => write!(f, "has nothing after {operator:?}"),
            Self::NothingBefore(operator) => write!(f, "has nothing before {operator:?}"),
            Self::NothingBetween(one, other) => {
                write!(f, "has nothing between {one:?} and {other:?}")
            }
            Self::NoOperatorBetween(one, other) => {
                write!(f, "has no operator between {one:?} and {other:?}")
            }
            Self::ValueWithoutQuotes(word) => {
                write!(f, "has {word:?} as the value of a label, which needs quotes")
            }
            Self::NotAnOperator(letter) => write!(f, "has a {letter}, which is not an operator"),
            Self::UnknownCharacter(letter) => write!(f, "has a {letter}, which is not PromQL"),
        }
    }
}

impl std::error::Error for Mistake {}

// === impl Expression ===

impl<'a> Expression<'a> {
    /// Reads the token that begins with this letter.
    fn token(&mut self, at: usize, letter: char) -> Result<(), Mistake> {
        match letter {
            ' ' | '\t' | '\r' | '\n' => {}
            '#' => while self.letters.next_if(|&(_, letter)| letter != '\n').is_some() {},
            '"' | '\'' | '`' => {
                self.string(letter)?;
                self.operand();
            }
            '(' | '[' | '{' => {
                self.open.push((letter, self.due.filter(|_| self.modified)));
                self.operand();
                self.begun = letter != '(';
            }
            ')' | ']' | '}' => {
                self.complete()?;
                self.close(letter)?;
            }
            letter if is_name(letter) => self.word(at)?,
            '=' | '~' if self.is_inside('{') => self.due = Some("="),
            // The other operators of matchers and ranges.
            '=' | '!' | '~' | ',' | '<' | '>' | '+' | '-' | '*' | '/' | '%' | '^' | '@'
                if self.is_inside('{') || self.is_inside('[') => {}
            ',' => {
                self.complete()?;
                (self.begun, self.name) = (false, None);
            }
            '=' | '!' | '~' | '<' | '>' | '+' | '-' | '*' | '/' | '%' | '^' | '@' => {
                self.operator(at, letter)?;
            }
            other => return Err(Mistake::UnknownCharacter(other)),
        }
        Ok(())
    }

    fn operand(&mut self) {
        (self.begun, self.due, self.modified, self.name) = (true, None, false, None);
    }

    /// Whether the innermost open bracket is this one.
    fn is_inside(&self, bracket: char) -> bool {
        self.open.last().is_some_and(|(open, _)| *open == bracket)
    }

    /// Refuses an argument that ends after an operator.
    fn complete(&self) -> Result<(), Mistake> {
        match self.due {
            Some(operator) => Err(Mistake::NothingAfter(operator.to_owned())),
            None => Ok(()),
        }
    }

    fn close(&mut self, letter: char) -> Result<(), Mistake> {
        let Some((open, due)) = self.open.pop() else {
            return Err(Mistake::ClosesNothing(letter));
        };
        let closing = match open {
            '(' => ')',
            '[' => ']',
            _ => '}',
        };
        if letter != closing {
            return Err(Mistake::WrongBracket { found: letter, due: closing });
        }
        self.operand();
        self.due = due;
        Ok(())
    }

    fn word(&mut self, at: usize) -> Result<(), Mistake> {
        while self.letters.next_if(|&(_, letter)| is_name(letter)).is_some() {}
        let end = self.letters.peek().map_or(self.text.len(), |&(end, _)| end);
        let word = &self.text[at..end];
        let is_any = |words: &[&str]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
        let is_free = !self.is_inside('{') && !self.is_inside('[') && !self.is_template;
        match (self.due, self.name.take()) {
            (Some("="), _) if self.is_inside('{') && !self.is_template => {
                Err(Mistake::ValueWithoutQuotes(word.to_owned()))
            }
            (None, _) if self.begun && is_free && is_any(&WORDS) => {
                self.due = Some(word);
                Ok(())
            }
            (Some(_), _) if is_any(&MODIFIERS) => {
                self.modified = true;
                Ok(())
            }
            (None, Some(before)) if is_free && !is_any(&SUFFIXES) => {
                Err(Mistake::NoOperatorBetween(before.to_owned(), word.to_owned()))
            }
            _ => {
                self.operand();
                self.name = Some(word).filter(|_| !is_any(&SUFFIXES));
                Ok(())
            }
        }
    }

    fn operator(&mut self, at: usize, letter: char) -> Result<(), Mistake> {
        let long = self.letters.next_if(|&(_, next)| match next {
            '=' => "=!<>".contains(letter),
            '/' => "<>".contains(letter),
            _ => false,
        });
        let is_definition = letter == '=' && self.is_template;
        if long.is_none() && "=!~".contains(letter) && !is_definition {
            return Err(Mistake::NotAnOperator(letter));
        }
        let operator = &self.text[at..at + 1 + usize::from(long.is_some())];
        if !self.begun && !matches!(letter, '+' | '-') {
            return Err(Mistake::NothingBefore(operator.to_owned()));
        }
        if let Some(before) = self.due.filter(|_| !matches!(letter, '+' | '-')) {
            return Err(Mistake::NothingBetween(before.to_owned(), operator.to_owned()));
        }
        (self.due, self.modified, self.name) = (Some(operator), false, None);
        Ok(())
    }

    /// Reads a string after its first quote. Only a raw one may have several lines.
    fn string(&mut self, quote: char) -> Result<(), Mistake> {
        let is_raw = quote == '`';
        while let Some((_, letter)) = self.letters.next() {
            match letter {
                _ if letter == quote => return Ok(()),
                '\n' if !is_raw => break,
                '\\' if !is_raw => _ = self.letters.next(),
                _ => {}
            }
        }
        Err(Mistake::Unclosed(quote))
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
            "a and on(x) and",
            "WITH (x = {job=\"y\"}) sum(a{x}) default 0",
            "größe{straße=\"x\"} / foo\\-bar",
            "sum(a </ 3)",
            "label_replace(c, \"d\", '$1', \"e\", `\\`) @ 1700000000.5",
            "(a or b)[5m:] offset -1h",
            "{__name__=~\"x|y\", a!~'(', \"utf.8\"!=\"\\\\\"}",
            "1 # (\n- a",
            "1 - -+1 ^ -2",
            "{by=\"x\", offset!=\"y\"} offset 5m @ start()",
            "sum without (by, offset) (x offset -5m) / sum by (a) (y)",
            "rate(a[5m]) keep_metric_names / 2 if b ifnot c",
            "topk(3, a) by (b) limit 5",
            "a * on(x) group_left(y) prefix \"z\" b",
            "with(x = y) a{b=x} x",
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
            ("a / on(b) group_left(c)", "ends after \"/\""),
            ("a >=", "ends after \">=\""),
            ("a{b='x\n'}", "has a ' that is not closed"),
            ("a{b=\"\\\"}", "has a \" that is not closed"),
            ("a !~ b", "has a !, which is not an operator"),
            ("{a=\"b\")", "has a ) where } is due"),
            ("a && b", "has a &, which is not PromQL"),
            ("a == * b", "has nothing between \"==\" and \"*\""),
            ("a and / b", "has nothing between \"and\" and \"/\""),
            ("rate(x offset)", "has nothing after \"offset\""),
            ("sum without", "ends after \"without\""),
            ("f(a, 1 2)", "has no operator between \"1\" and \"2\""),
            ("a{b!=3}", "has \"3\" as the value of a label, which needs quotes"),
            ("a{b=}", "has nothing after \"=\""),
        ] {
            let mistake = check(expression).unwrap_err();
            assert_eq!(mistake.to_string(), why, "{expression}");
        }
    }

    /// Expressions with one word more, less or another one, in each place.
    fn variations() -> Vec<String> {
        let expressions = [
            "1 - busy{server=\"a\"} / 10",
            "sum by (job, le) (rate(a:b[1m])) / on(job) group_left(x) sum(c) by (job)",
            "rate(a{job='x'}[5m:1m] offset 10m) > bool 3",
            "(a or b) unless ignoring(c) d @ end()",
            "quantile(0.9, a) == -b ^ 2 # c",
            "a unless on(x) b",
        ];
        let words =
            "a|and|or|on(x)|bool|by|offset|-|*|=|!=|<|(|)|{|}|[5m]|,|\"|'s'|#|1e-3|@|sum|$x|";
        let words: Vec<&str> = words.split('|').collect();
        let mut all = Vec::new();
        for expression in expressions {
            let parts: Vec<&str> = expression.split(' ').collect();
            for (at, word) in
                (0..parts.len()).flat_map(|at| words.iter().map(move |word| (at, *word)))
            {
                let (before, after) = parts.split_at(at);
                all.push([before, &[word], after].concat().join(" "));
                all.push([before, &[word], &after[1..]].concat().join(" "));
            }
        }
        all
    }

    /// promtool has the parser of the server.
    #[test]
    fn d06_no_expression_is_refused_that_prometheus_accepts() {
        let all = variations();
        let rule = |(at, expression): (usize, &String)| {
            let name = format!("r{at}");
            serde_json::json!({ "record": name, "expr": expression })
        };
        let rules: Vec<_> = all.iter().enumerate().map(rule).collect();
        let rules = serde_json::json!({ "groups": [{ "name": "g", "rules": rules }] });
        let file = std::env::temp_dir().join(format!("tidegate-rules-{}", std::process::id()));
        std::fs::write(&file, rules.to_string()).unwrap();
        let promtool =
            std::process::Command::new("promtool").args(["check", "rules"]).arg(&file).output();
        std::fs::remove_file(&file).unwrap();
        let promtool =
            promtool.unwrap_or_else(|error| panic!("promtool: {error}: run tools/setup.sh"));
        let said = String::from_utf8([promtool.stdout, promtool.stderr].concat()).unwrap();
        let numbers = said.split(", \"r").filter_map(|rest| rest.split('"').next()?.parse().ok());
        let numbers: std::collections::BTreeSet<usize> = numbers.collect();
        let refused = |at: usize| numbers.contains(&at);
        let (mut both, mut accepted) = (0, 0);
        for (at, expression) in all.iter().enumerate() {
            let ours = check(expression);
            assert!(ours.is_ok() || refused(at), "{expression}: {ours:?}");
            both += usize::from(ours.is_err());
            accepted += usize::from(!refused(at));
        }
        assert!(both > 500 && accepted > 100, "{both} and {accepted} of {}", all.len());
    }

    proptest! {
        #[test]
        fn d06_no_expression_panics(text in ".{0,60}", ascii in "[a-c{}()\\[\\]\"'@#=<. -]{0,60}") {
            _ = check(&text);
            _ = check(&ascii);
        }
    }
}
