//! Where configuration comes from, for every verb that needs one.

use std::path::PathBuf;

use clap::Args;
use gateway::config::Source;

#[derive(Args, Debug)]
pub(super) struct Flags {
    /// The configuration, TOML or YAML; ./tidegate.toml (or .yaml) if there is one.
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same by name.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A model server, perhaps with a name of its own; may be repeated.
    #[arg(long = "backend", short, value_name = "[NAME=]URL")]
    backends: Vec<String>,
    /// A file that lists model servers and is watched for changes.
    #[arg(long, value_name = "FILE")]
    endpoints: Option<PathBuf>,
    /// Where to listen, whatever the file says; port 0 takes a free one.
    #[arg(long, short, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

// === impl Flags ===

impl Flags {
    pub(super) fn source(self) -> Source {
        let Self { file, config, backends, endpoints, listen } = self;
        let file = file.or(config);
        Source { file, backends, endpoints, listen, ..Source::default() }.or_default_file()
    }
}
