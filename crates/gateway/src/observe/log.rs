//! Operational messages: what the gateway itself has to say.
//!
//! They go to standard error, so that standard output is the access log and nothing else.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::resolved::{Log, LogFormat};

/// Where the wanted level is looked up, the first that is set wins.
const VARIABLES: [&str; 2] = ["TIDEGATE_LOG", "RUST_LOG"];

/// Sets up the log of operational messages for the whole process. Once is enough: a second call
/// changes nothing, so that tests and embedders may have set up their own.
pub(crate) fn init(log: &Log) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(VARIABLES.into_iter().find_map(|name| std::env::var(name).ok())))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let set = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    if set.is_err() {
        tracing::debug!("messages go where they went before");
    }
}

/// What a variable asks for; directives that make no sense are left out, and `info` is meant where
/// nothing is said.
fn filter(wanted: Option<String>) -> EnvFilter {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    filter.parse_lossy(wanted.unwrap_or_default())
}
