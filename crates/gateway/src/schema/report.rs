//! The problems of a configuration, all of them, and notices about it.
//!
//! Reading goes on after a problem, so that one look at the report is enough to correct a file.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::tree::{Location, Origin};

/// The problems and notices found so far.
#[derive(Debug)]
pub(crate) struct Report {
    file: Option<PathBuf>,
    problems: RefCell<Vec<Problem>>,
    notices: RefCell<Vec<String>>,
}

/// One problem and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line in the file, from 1; 0 for a problem elsewhere.
    line: usize,
    text: String,
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The file's ending says neither TOML nor YAML.
    Format(PathBuf),
    /// The values have problems. Each names its key and the allowed values.
    Problems(Vec<Problem>),
    /// The task that read the file ended early.
    Interrupted(tokio::task::JoinError),
}

// === impl Report ===

impl Report {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, problems: RefCell::default(), notices: RefCell::default() }
    }

    /// The file that is being read.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The value at this place is wrong.
    pub(crate) fn problem(&self, location: &Location, what: impl fmt::Display) {
        let Location { path, line, origin } = location;
        let sentence = if path.is_empty() { what.to_string() } else { format!("{path} {what}") };
        let text = match (origin, &self.file, line) {
            (Origin::Flag(flag), ..) => format!("{flag}: {sentence}"),
            (Origin::Variable(name), ..) => format!("{name}: {sentence}"),
            (Origin::File, None, _) => sentence,
            (Origin::File, Some(file), 0) => format!("{}: {sentence}", file.display()),
            (Origin::File, Some(file), line) => format!("{}:{line}: {sentence}", file.display()),
        };
        let line = if *origin == Origin::File { *line } else { 0 };
        self.problems.borrow_mut().push(Problem { line, text });
    }

    /// Something outside of all values is wrong.
    pub(crate) fn elsewhere(&self, text: String) {
        self.problems.borrow_mut().push(Problem { line: 0, text });
    }

    /// The value at this place is accepted, but does not do what a reader might expect.
    pub(crate) fn notice(&self, location: &Location, what: &str) {
        self.notices.borrow_mut().push(format!("{} {what}", location.path));
    }

    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// The notices, if there is no problem. Problems come in the order of the file.
    pub(crate) fn finish(self) -> Result<Vec<String>, ConfigError> {
        let mut problems = self.problems.into_inner();
        if problems.is_empty() {
            return Ok(self.notices.into_inner());
        }
        problems.sort_by_key(|problem| problem.line);
        Err(ConfigError::Problems(problems))
    }
}

// === impl Problem ===

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl ConfigError ===

impl ConfigError {
    /// Each problem as one line.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Read(path, error) => vec![format!("{}: cannot be read: {error}", path.display())],
            Self::Format(path) => {
                vec![format!("{}: the name must end in .toml, .yaml or .yml", path.display())]
            }
            Self::Problems(problems) => problems.iter().map(ToString::to_string).collect(),
            Self::Interrupted(error) => vec![error.to_string()],
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(_, error) => Some(error),
            Self::Interrupted(error) => Some(error),
            Self::Format(_) | Self::Problems(_) => None,
        }
    }
}
