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
    problems: RefCell<Vec<Finding>>,
    notices: RefCell<Vec<Finding>>,
}

/// A problem or a notice, and its location.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The line in the file, from 1; 0 for a finding elsewhere.
    line: usize,
    /// `file:line`, the name of a variable or a flag; empty if none of them is known.
    pub at: String,
    /// The key and what is to be said about it.
    pub text: String,
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The file's ending says neither TOML nor YAML.
    Format(PathBuf),
    /// The values have problems. Each names its key and the allowed values.
    Problems {
        /// All of them, in the order of the file.
        problems: Vec<Finding>,
        /// The notices beside them.
        notices: Vec<Finding>,
    },
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
        let finding = self.finding(location, what);
        self.problems.borrow_mut().push(finding);
    }

    /// Something outside of all values is wrong.
    pub(crate) fn elsewhere(&self, text: String) {
        self.problems.borrow_mut().push(Finding::elsewhere(text));
    }

    /// The value at this place is accepted, but does not do what a reader might expect. Where
    /// nobody wrote the value, there is no such reader.
    pub(crate) fn notice(&self, location: &Location, what: impl fmt::Display) {
        if matches!(location.origin, Origin::Implied(_)) {
            return;
        }
        let finding = self.finding(location, what);
        self.notices.borrow_mut().push(finding);
    }

    fn finding(&self, location: &Location, what: impl fmt::Display) -> Finding {
        let Location { path, line, origin } = location;
        let text = if path.is_empty() { what.to_string() } else { format!("{path} {what}") };
        let at = match (origin, &self.file, line) {
            (Origin::Flag(flag), ..) => flag.clone(),
            (Origin::Variable(name), ..) => name.clone(),
            (Origin::Implied(cause), ..) => cause.clone(),
            (Origin::File, None, _) => String::new(),
            (Origin::File, Some(file), 0) => file.display().to_string(),
            (Origin::File, Some(file), line) => format!("{}:{line}", file.display()),
        };
        let line = if *origin == Origin::File { *line } else { 0 };
        Finding { line, at, text }
    }

    /// Adds a problem that was found beside the reading of the values.
    pub(crate) fn add_problem(&self, finding: Finding) {
        self.problems.borrow_mut().push(finding);
    }

    /// Adds a notice that was found beside the reading of the values.
    pub(crate) fn add_notice(&self, finding: Finding) {
        self.notices.borrow_mut().push(finding);
    }

    /// Whether a value of one of these sections has a problem. What follows from the section's
    /// other values is then uncertain.
    pub(crate) fn has_problems_in(&self, sections: &[&str]) -> bool {
        let section = |finding: &Finding| {
            let name = finding.text.split(['.', '[', ' ']).next();
            name.is_some_and(|name| sections.contains(&name))
        };
        self.problems.borrow().iter().any(section)
    }

    /// The notices, if there is no problem. Both come in the order of the file.
    pub(crate) fn finish(self) -> Result<Vec<Finding>, ConfigError> {
        let (mut problems, mut notices) = (self.problems.into_inner(), self.notices.into_inner());
        notices.sort_by_key(|notice| notice.line);
        problems.sort_by_key(|problem| problem.line);
        match problems.is_empty() {
            true => Ok(notices),
            false => Err(ConfigError::Problems { problems, notices }),
        }
    }
}

// === impl Finding ===

impl Finding {
    /// A finding that concerns no value.
    pub(crate) fn elsewhere(text: String) -> Self {
        Self { line: 0, at: String::new(), text }
    }

    /// A finding about a value with this origin.
    pub(crate) fn of(at: String, text: String) -> Self {
        Self { line: 0, at, text }
    }
}

/// The same finding on another line is no news.
impl PartialEq for Finding {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, text, .. } = self;
        if at.is_empty() { f.write_str(text) } else { write!(f, "{at}: {text}") }
    }
}

// === impl ConfigError ===

impl ConfigError {
    /// Each problem with its location.
    pub fn findings(&self) -> Vec<Finding> {
        let of_file =
            |path: &Path, text: String| vec![Finding::of(path.display().to_string(), text)];
        match self {
            Self::Read(path, error) => of_file(path, format!("cannot be read: {error}")),
            Self::Format(path) => of_file(path, "the name must end in .toml, .yaml or .yml".into()),
            Self::Problems { problems, .. } => problems.clone(),
            Self::Interrupted(error) => vec![Finding::elsewhere(error.to_string())],
        }
    }

    /// The notices beside the problems.
    pub fn notices(&self) -> &[Finding] {
        match self {
            Self::Problems { notices, .. } => notices,
            Self::Read(..) | Self::Format(_) | Self::Interrupted(_) => &[],
        }
    }

    /// Each problem as one line.
    pub fn lines(&self) -> Vec<String> {
        self.findings().iter().map(ToString::to_string).collect()
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
            Self::Format(_) | Self::Problems { .. } => None,
        }
    }
}
