//! The flags that say where configuration comes from.

use std::path::PathBuf;

use clap::Args;
use gateway::config::{Flag, Source};
use gateway::log::{self, LevelError};

/// The file and `--set`, for every command that reads a configuration.
#[derive(Args, Debug)]
pub(super) struct File {
    /// The configuration file, TOML or YAML. Without it, ./tidegate.toml (or .yaml) is read if it
    /// exists.
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same as a flag.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set any key of the configuration, such as queue.total_capacity=500; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The level of log messages: off, error, warn, info, debug or trace, also for one module, such
    /// as info,gateway::serve=debug. Without the flag, TIDEGATE_LOG or RUST_LOG sets the level. The
    /// default is info.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    log_level: Option<String>,
}

/// The flags of `serve`, `epp` and `check`.
#[derive(Args, Debug)]
pub(super) struct Flags {
    #[command(flatten)]
    file: File,
    /// Add a model server, optionally with a name; may be repeated.
    #[arg(long = "backend", short, value_name = "[NAME=]URL")]
    backends: Vec<String>,
    /// Read further model servers from this file, and watch it for changes.
    #[arg(long, value_name = "FILE")]
    endpoints: Option<PathBuf>,
    /// Listen on this address; port 0 takes a free port.
    #[arg(long, short, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

/// A flag that stands for one key.
pub(super) fn value(flag: &'static str, key: &'static str, value: Option<String>) -> Option<Flag> {
    value.map(|value| Flag::Value { flag, key, value })
}

fn level(text: &str) -> Result<String, LevelError> {
    log::check_level(text).map(|()| text.to_owned())
}

/// A path as text, which every path of a configuration is.
pub(super) fn path(path: Option<PathBuf>) -> Option<String> {
    path.map(|path| path.to_string_lossy().into_owned())
}

// === impl File ===

impl File {
    /// The source with further flags. `--set` is the last, so that it goes before the others.
    pub(super) fn source(self, flags: impl IntoIterator<Item = Flag>) -> Source {
        let Self { file, config, set, log_level } = self;
        let flags = flags.into_iter().chain(set.into_iter().map(Flag::Set)).collect();
        let source = Source { file: file.or(config), flags, log_level, ..Source::default() };
        source.with_environment().or_default_file()
    }
}

// === impl Flags ===

impl Flags {
    /// The source of a command whose `--listen` stands for this key, with further flags.
    pub(super) fn source(
        self,
        listen_key: &'static str,
        more: impl IntoIterator<Item = Flag>,
    ) -> Source {
        let Self { file, backends, endpoints, listen } = self;
        let backends = backends.into_iter().map(Flag::Backend);
        let endpoints = value("--endpoints", "discovery.endpoints_file", path(endpoints));
        let listen = value("--listen", listen_key, listen);
        file.source(backends.chain(endpoints).chain(more).chain(listen))
    }
}
