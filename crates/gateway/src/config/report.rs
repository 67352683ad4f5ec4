//! What is wrong with a configuration, all of it, and what is worth knowing about it.
//!
//! Reading goes on after a problem, so that one look at the report is enough to mend a file.

use std::cell::RefCell;

use super::ConfigError;
use super::tree::Place;

/// The problems and notices found so far.
#[derive(Debug)]
pub(super) struct Report {
    /// The file's name, for the reader.
    file: String,
    /// Each with its line, so that they can be told in the order of the file.
    problems: RefCell<Vec<(usize, String)>>,
    notices: RefCell<Vec<String>>,
}

// === impl Report ===

impl Report {
    pub(super) fn new(file: String) -> Self {
        Self { file, problems: RefCell::default(), notices: RefCell::default() }
    }

    /// Something is wrong at this place.
    pub(super) fn problem(&self, place: &Place, what: String) {
        let Place { path, line } = place;
        let file = &self.file;
        let space = if path.is_empty() { "" } else { " " };
        let text = match line {
            0 if file.is_empty() => format!("{path}{space}{what}"),
            0 => format!("{file}: {path}{space}{what}"),
            line => format!("{file}:{line}: {path}{space}{what}"),
        };
        self.add(*line, text);
    }

    /// Something is wrong outside of the file.
    pub(super) fn flag_problem(&self, text: String) {
        self.add(0, text);
    }

    /// Something is accepted that does not do what one might think.
    pub(super) fn notice(&self, place: &Place, what: &str) {
        self.notices.borrow_mut().push(format!("{} {what}", place.path));
    }

    pub(super) fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    fn add(&self, line: usize, text: String) {
        self.problems.borrow_mut().push((line, text));
    }

    /// The notices, if there is no problem.
    pub(super) fn finish(self) -> Result<Vec<String>, ConfigError> {
        let mut problems = self.problems.into_inner();
        if problems.is_empty() {
            return Ok(self.notices.into_inner());
        }
        problems.sort_by_key(|&(line, _)| line);
        Err(ConfigError { problems: problems.into_iter().map(|(_, text)| text).collect() })
    }
}
