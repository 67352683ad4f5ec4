//! Configuration in two stages: what a file says, and what that means.
//!
//! `file` reads the text into a tree of values, `aliases` moves the sources' spellings to where
//! they belong, and `resolve` checks every value on its way into `resolved`, which is what everyone
//! else uses. All that is wrong is reported at once, before anything runs. `reload` does it again
//! when the file changes.

mod aliases;
mod file;
pub(crate) mod keywords;
mod quantity;
pub mod reload;
mod report;
mod resolve;
pub mod resolved;
mod section;
mod suggest;
mod summary;
mod tree;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use resolve::batch::BATCH_QUEUE;
pub use resolved::Resolved;
pub use summary::Summary;

use file::Format;
use report::Report;

/// Where configuration comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file, TOML or YAML by its ending.
    pub file: Option<PathBuf>,
    /// Backends given as flags: `URL` or `ID=URL`.
    pub backends: Vec<String>,
    /// A file that lists more backends, given as a flag.
    pub endpoints: Option<PathBuf>,
    /// The listener's address given as a flag.
    pub listen: Option<String>,
    /// The picker's other addresses given as flags.
    pub health_listen: Option<String>,
    /// See `health_listen`.
    pub metrics_listen: Option<String>,
    /// The folder of the Batch API given as a flag.
    pub batch: Option<PathBuf>,
    /// The dispatcher's Redis given as flags.
    pub redis: Vec<String>,
    /// The dispatcher's queues given as flags.
    pub queues: Vec<String>,
    /// Where messages go of queues that do not say, given as a flag.
    pub target: Option<String>,
}

/// Configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Each problem names its key, what is wrong with it, and what would be right.
    pub problems: Vec<String>,
}

/// The files that are used where none is named.
const DEFAULT_FILES: [&str; 3] = ["tidegate.toml", "tidegate.yaml", "tidegate.yml"];

/// Reads and checks the configuration.
pub fn load(source: &Source) -> Result<Resolved, ConfigError> {
    let text = read(source)?;
    resolve(source, &text)
}

/// What the file says; nothing where there is none.
fn read(source: &Source) -> Result<String, ConfigError> {
    let Some(path) = &source.file else { return Ok(String::new()) };
    let text = read_bounded(path);
    text.map_err(|error| ConfigError::of(format!("{}: cannot be read: {error}", path.display())))
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(file::FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > file::FILE_MAX {
        let most = quantity::show_size(file::FILE_MAX);
        return Err(io::Error::other(format!("it is larger than {most}")));
    }
    Ok(text)
}

/// Checks what the file and the flags say.
fn resolve(source: &Source, text: &str) -> Result<Resolved, ConfigError> {
    let name = source.file.as_ref().map_or(String::new(), |path| path.display().to_string());
    let format = match &source.file {
        Some(path) => Format::of(path).ok_or_else(|| {
            ConfigError::of(format!("{name}: the name must end in .toml, .yaml or .yml"))
        })?,
        None => Format::Toml,
    };
    let report = Report::new(name);
    let mut table = file::parse(text, format, &report);
    aliases::translate(&mut table, &report);
    let mut resolved = resolve::resolve(table, source, &report);
    resolved.notices = report.finish()?;
    Ok(resolved)
}

// === impl Source ===

impl Source {
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

// === impl ConfigError ===

impl ConfigError {
    fn of(problem: String) -> Self {
        Self { problems: vec![problem] }
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ConfigError {}
