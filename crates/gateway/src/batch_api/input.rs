//! The input file of a batch: one request per line, all checked before the first is sent.
//!
//! The file is read line by line and never held in memory. Each line leaves the position of its
//! body and its model; the body is later sent from the file.

mod lines;
mod request;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead};

use serde::Serialize;

pub use self::lines::{Line, Lines};
pub use self::request::RequestLine;

/// The most errors that are reported: more of them usually have one cause.
pub const ERRORS_MAX: usize = 100;

/// The limits of an input file.
#[derive(Clone, Debug)]
pub struct InputRules {
    /// The path of all requests; the path of the first one if `None`.
    pub endpoint: Option<String>,
    /// The longest line, in bytes.
    pub line_limit: usize,
    /// The most requests.
    pub lines_max: u32,
}

/// An input file that was read to its end, or until there were too many errors.
#[derive(Clone, Debug, Default)]
pub struct CheckedInput {
    /// The requests in their order.
    pub requests: Vec<RequestSpan>,
    /// The models of the requests.
    pub models: Vec<String>,
    /// The path of the requests.
    pub endpoint: String,
    /// The errors. If there are none, all requests can be sent.
    pub errors: Vec<InputError>,
}

/// One request and the position of its body in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSpan {
    /// The number of its line, from 1.
    pub line: u64,
    /// The offset of its body.
    pub offset: u64,
    /// The length of the body in bytes.
    pub length: u64,
    /// The index of its model.
    pub model: usize,
}

/// An error in an input file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InputError {
    /// A code for programs.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
    /// The field of the line.
    pub param: Option<&'static str>,
    /// The number of the line, from 1; `None` for the whole file.
    pub line: Option<u64>,
}

/// The `custom_id`s of a file, by two keyed hashes, so that a client cannot create collisions.
#[derive(Debug, Default)]
struct CustomIds {
    keys: [RandomState; 2],
    seen: HashMap<(u64, u64), u64>,
}

/// Checks a file line by line.
pub fn check(from: impl BufRead, rules: &InputRules) -> io::Result<CheckedInput> {
    let mut lines = Lines::new(from, rules.line_limit);
    let mut names = CustomIds::default();
    let mut models = HashMap::new();
    let mut checked = CheckedInput {
        endpoint: rules.endpoint.clone().unwrap_or_default(),
        ..CheckedInput::default()
    };
    while let Some(line) = lines.next()? {
        if line.is_blank() {
            continue;
        }
        if checked.requests.len() >= rules.lines_max as usize {
            let text = format!("there are more than {} requests: split the file", rules.lines_max);
            checked.errors.push(InputError::new("too_many_requests", text, None).at(line.number));
            break;
        }
        match checked.take(&line, &mut names, &mut models) {
            Ok(entry) => checked.requests.push(entry),
            Err(error) => checked.errors.push(error.at(line.number)),
        }
        if checked.errors.len() >= ERRORS_MAX {
            let text = format!("there are {ERRORS_MAX} errors: what follows was not checked");
            checked.errors.push(InputError::new("too_many_errors", text, None).at(line.number));
            break;
        }
    }
    if checked.requests.is_empty() && checked.errors.is_empty() {
        checked.errors.push(InputError::new("empty_file", "the file has no requests", None));
    }
    Ok(checked)
}

// === impl CheckedInput ===

impl CheckedInput {
    fn take(
        &mut self,
        line: &Line<'_>,
        names: &mut CustomIds,
        models: &mut HashMap<String, usize>,
    ) -> Result<RequestSpan, InputError> {
        let request = RequestLine::read(line.text()?)?;
        if self.endpoint.is_empty() {
            self.endpoint = request.url.clone().into_owned();
        }
        if request.url != self.endpoint {
            let (url, endpoint) = (&request.url, &self.endpoint);
            let text = format!("'url' is {url:?}, but the batch goes to {endpoint:?}");
            return Err(InputError::new("mismatched_endpoint", text, Some("url")));
        }
        let model = request.model()?;
        names.add(&request.custom_id, line.number)?;
        let known = self.models.len();
        let model = *models.entry(model.into_owned()).or_insert_with_key(|model| {
            self.models.push(model.clone());
            known
        });
        let place = &request.body.place;
        let (offset, length) = (line.offset + place.start as u64, place.len() as u64);
        Ok(RequestSpan { line: line.number, offset, length, model })
    }
}

// === impl CustomIds ===

impl CustomIds {
    fn add(&mut self, name: &str, line: u64) -> Result<(), InputError> {
        let [one, two] = &self.keys;
        match self.seen.entry((one.hash_one(name), two.hash_one(name))) {
            Slot::Vacant(slot) => {
                slot.insert(line);
                Ok(())
            }
            Slot::Occupied(slot) => {
                let text = format!("'custom_id' {name:?} is that of line {} already", slot.get());
                Err(InputError::new("duplicate_custom_id", text, Some("custom_id")))
            }
        }
    }
}

// === impl InputError ===

impl InputError {
    /// An error of the whole file.
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

impl std::fmt::Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
