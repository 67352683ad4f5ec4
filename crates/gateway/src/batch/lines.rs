//! The lines of a batch: one request each, checked before any of them is sent.
//!
//! A file is read line by line and never held. What stays of a line is where its body stands and
//! which model it asks for: the bodies themselves are sent from the file.

mod read;
mod request;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead};

use serde::Serialize;

pub use self::read::{Line, Lines};
pub use self::request::Request;

/// Mistakes that are told at most: whoever has made so many looks for one cause.
pub const FLAWS_MAX: usize = 100;

/// What lines must keep to.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The path that all of them go to; that of the first one unless given.
    pub endpoint: Option<String>,
    /// The longest line, in bytes.
    pub line_limit: usize,
    /// The most requests.
    pub lines_max: u32,
}

/// A file that was read to its end, or to too many mistakes.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The requests in their order.
    pub entries: Vec<Entry>,
    /// The models that they ask for.
    pub models: Vec<String>,
    /// The path that they go to.
    pub endpoint: String,
    /// What is wrong. Without any, all of it can be sent.
    pub flaws: Vec<Flaw>,
}

/// One request and where its body stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of its line, from 1.
    pub line: u64,
    /// Where its body begins.
    pub offset: u64,
    /// How many bytes the body has.
    pub length: u64,
    /// Which of the models it asks for.
    pub model: usize,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// In a word, for programs.
    pub code: &'static str,
    /// In a sentence, for people.
    pub message: String,
    /// The part of the line.
    pub param: Option<&'static str>,
    /// The number of the line, from 1; nothing for the file as a whole.
    pub line: Option<u64>,
}

/// The names that were given, by their hashes: keyed ones, so that nobody can make two meet.
#[derive(Debug, Default)]
struct Names {
    keys: [RandomState; 2],
    seen: HashMap<(u64, u64), u64>,
}

/// Checks a file line by line.
pub fn check(from: impl BufRead, rules: &Rules) -> io::Result<Checked> {
    let mut lines = Lines::new(from, rules.line_limit);
    let mut names = Names::default();
    let mut models = HashMap::new();
    let mut checked =
        Checked { endpoint: rules.endpoint.clone().unwrap_or_default(), ..Checked::default() };
    while let Some(line) = lines.next()? {
        if line.is_blank() {
            continue;
        }
        if checked.entries.len() >= rules.lines_max as usize {
            let text = format!("there are more than {} requests: split the file", rules.lines_max);
            checked.flaws.push(Flaw::new("too_many_requests", text, None).at(line.number));
            break;
        }
        match checked.take(&line, &mut names, &mut models) {
            Ok(entry) => checked.entries.push(entry),
            Err(flaw) => checked.flaws.push(flaw.at(line.number)),
        }
        if checked.flaws.len() >= FLAWS_MAX {
            let text = format!("there are {FLAWS_MAX} errors: what follows was not checked");
            checked.flaws.push(Flaw::new("too_many_errors", text, None).at(line.number));
            break;
        }
    }
    if checked.entries.is_empty() && checked.flaws.is_empty() {
        checked.flaws.push(Flaw::new("empty_file", "the file has no requests", None));
    }
    Ok(checked)
}

// === impl Checked ===

impl Checked {
    fn take(
        &mut self,
        line: &Line<'_>,
        names: &mut Names,
        models: &mut HashMap<String, usize>,
    ) -> Result<Entry, Flaw> {
        let request = Request::read(line.text()?)?;
        if self.endpoint.is_empty() {
            self.endpoint = request.url.clone().into_owned();
        }
        if request.url != self.endpoint {
            let (url, endpoint) = (&request.url, &self.endpoint);
            let text = format!("'url' is {url:?}, but the batch goes to {endpoint:?}");
            return Err(Flaw::new("mismatched_endpoint", text, Some("url")));
        }
        let model = request.model()?;
        names.add(&request.custom_id, line.number)?;
        let known = self.models.len();
        let model = *models.entry(model.into_owned()).or_insert_with_key(|model| {
            self.models.push(model.clone());
            known
        });
        let (offset, length) = (line.offset + request.at as u64, request.body.len() as u64);
        Ok(Entry { line: line.number, offset, length, model })
    }
}

// === impl Names ===

impl Names {
    fn add(&mut self, name: &str, line: u64) -> Result<(), Flaw> {
        let [one, two] = &self.keys;
        match self.seen.entry((one.hash_one(name), two.hash_one(name))) {
            Slot::Vacant(slot) => {
                slot.insert(line);
                Ok(())
            }
            Slot::Occupied(slot) => {
                let text = format!("'custom_id' {name:?} is that of line {} already", slot.get());
                Err(Flaw::new("duplicate_custom_id", text, Some("custom_id")))
            }
        }
    }
}

// === impl Flaw ===

impl Flaw {
    /// A mistake in the file as a whole.
    pub fn new(
        code: &'static str,
        message: impl Into<String>,
        param: Option<&'static str>,
    ) -> Self {
        Self { code, message: message.into(), param, line: None }
    }

    fn at(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
