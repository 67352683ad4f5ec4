//! Configuration: one table of keys, and the values that a file, the environment and flags give.
//!
//! `keys` states every key once. A value is taken from a flag, else from the environment, else from
//! the file, else from the table's default. `file` parses the file, `key_aliases` replaces other
//! spellings, `overrides` adds the environment and the flags, `profiles` adds the values of a
//! design, and `resolve` turns the validated values into `settings`, the types that the rest of the
//! program uses. All problems are reported at once, before anything runs. `reload` does it again
//! when the file changes.

#[cfg(test)]
mod document;
mod file;
mod json_schema;
mod key_aliases;
pub(crate) mod keyword_tables;
mod outcome;
mod overrides;
mod profiles;
pub mod reload;
mod resolve;
mod secrets;
pub(crate) mod sections;
pub mod settings;
mod summary;
mod values;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use crate::schema::{ConfigError, Finding, nearest};
pub use json_schema::json_schema;
pub use outcome::outcome_json;
pub use overrides::PREFIX;
pub use resolve::batch::BATCH_QUEUE;
pub use settings::Config;
use settings::Log;
pub use summary::Summary;
pub use values::{Setting, Values};

use crate::schema::{Report, Table, show_size};
use file::Format;

/// Where configuration comes from. A reload reads the file again and keeps the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file, TOML or YAML by its ending.
    pub file: Option<PathBuf>,
    /// The environment's variables, by name. Those with the prefix `TIDEGATE_` count, and those
    /// of OpenTelemetry about traces.
    pub variables: Vec<(String, String)>,
    /// Flags, in the order of the command line. A later one replaces an earlier one.
    pub flags: Vec<Flag>,
    /// The server for requests of queues that name none, given as a flag.
    pub target: Option<String>,
    /// The level of log messages, given as a flag.
    pub log_level: Option<String>,
    /// Whether traces are wanted, if a flag says so. If not, none are sent, whatever else is given.
    pub tracing: Option<bool>,
}

/// A flag that gives a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `--set KEY=VALUE`: the text after `--set`.
    Set(String),
    /// A flag of its own for one key.
    Value {
        /// The flag, such as `--listen`.
        flag: &'static str,
        /// The key, such as `server.listen`.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// What the presence of other flags implies. Every value that is given goes before it.
    Implied {
        /// The flag that would give the value.
        flag: &'static str,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A flag that is given once for each entry of a list.
    List {
        /// The flag, such as `--redis`.
        flag: &'static str,
        /// The key, such as `dispatch.redis.urls`.
        key: &'static str,
        /// The whole list.
        values: Vec<String>,
    },
    /// `--backend URL` or `--backend ID=URL` adds a backend.
    Backend(String),
    /// `--queue NAME` adds a queue of the dispatcher, unless there is one of that name.
    Queue(String),
}

/// The files that are read where no file is named, the first that exists.
const DEFAULT_FILES: [&str; 3] = ["tidegate.toml", "tidegate.yaml", "tidegate.yml"];

/// Reads and checks the configuration.
pub fn load(source: &Source) -> Result<Config, ConfigError> {
    let text = read(source)?;
    resolve(source, &text).and_then(|config| with_secrets(source, config))
}

/// The same, with a check that adds to the report.
pub(crate) fn load_with(
    source: &Source,
    check: impl FnOnce(&Config, &Report),
) -> Result<Config, ConfigError> {
    let text = read(source)?;
    let (table, report) = tree(source, &text, format(source)?);
    let mut config = resolve::resolve(table, source, &report);
    secrets::fill(&mut config, &report);
    check(&config, &report);
    Ok(Config { notices: report.finish()?, ..config })
}

/// The settings of the log, as far as a configuration with problems states them.
pub(crate) fn log_settings(source: &Source) -> Log {
    let text = read(source).unwrap_or_default();
    let format = source.file.as_deref().and_then(Format::of).unwrap_or(Format::Toml);
    let (table, report) = tree(source, &text, format);
    resolve::resolve(table, source, &report).log
}

/// The text of the file; empty where there is none.
fn read(source: &Source) -> Result<String, ConfigError> {
    let Some(path) = &source.file else { return Ok(String::new()) };
    read_bounded(path).map_err(|error| ConfigError::Read(path.clone(), error))
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(file::FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > file::FILE_MAX {
        let most = show_size(file::FILE_MAX);
        return Err(io::Error::other(format!("it is larger than {most}")));
    }
    Ok(text)
}

/// Resolves the text of the file, the environment and the flags.
fn resolve(source: &Source, text: &str) -> Result<Config, ConfigError> {
    let (table, report) = tree(source, text, format(source)?);
    resolve_table(source, table, report)
}

/// The format of the file, by its name.
fn format(source: &Source) -> Result<Format, ConfigError> {
    match &source.file {
        Some(path) => Format::of(path).ok_or_else(|| ConfigError::Format(path.clone())),
        None => Ok(Format::Toml),
    }
}

/// The values of the file, the environment and the flags.
fn tree(source: &Source, text: &str, format: Format) -> (Table, Report) {
    let report = Report::new(source.file.clone());
    let mut table = file::parse(text, format, &report);
    let implied = profiles::implied(&table, (format, &report));
    key_aliases::translate(&mut table, &report);
    overrides::apply(&mut table, source, &report);
    let profile = profiles::apply(&mut table, implied);
    key_aliases::fill_flow_capacity(&mut table, profile);
    (table, report)
}

fn resolve_table(source: &Source, table: Table, report: Report) -> Result<Config, ConfigError> {
    let mut config = resolve::resolve(table, source, &report);
    config.notices = report.finish()?;
    Ok(config)
}

/// The configuration with the secrets that it names. A file that cannot be used is a problem.
fn with_secrets(source: &Source, mut config: Config) -> Result<Config, ConfigError> {
    let report = Report::new(source.file.clone());
    secrets::fill(&mut config, &report);
    config.notices.extend(report.finish()?);
    Ok(config)
}

// === impl Source ===

impl Source {
    /// Adds the variables of the process's environment.
    pub fn with_environment(mut self) -> Self {
        let pair = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        let mut variables: Vec<_> = std::env::vars_os().filter_map(pair).collect();
        let prefixes = [PREFIX, overrides::OPEN_TELEMETRY];
        variables.retain(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        self.variables = variables;
        self
    }

    /// Takes `tidegate.toml`, `.yaml` or `.yml` of the present folder where no file is named.
    pub fn or_default_file(self) -> Self {
        self.or_default_file_in(Path::new(""))
    }

    /// Default files of the present folder that are not read, because another one of them is.
    pub fn passed_over(&self) -> Vec<&'static str> {
        let read = self.file.as_deref().and_then(Path::to_str);
        if !DEFAULT_FILES.iter().any(|name| read == Some(name)) {
            return Vec::new();
        }
        let passed_over = |name: &&str| read != Some(name) && Path::new(name).is_file();
        DEFAULT_FILES.into_iter().filter(passed_over).collect()
    }

    fn or_default_file_in(mut self, folder: &Path) -> Self {
        let mut files = DEFAULT_FILES.iter().map(|name| folder.join(name));
        self.file = self.file.or_else(|| files.find(|path| path.is_file()));
        self
    }
}
