//! The log of operational messages.
//!
//! It goes to standard error, so that standard output carries the access log only.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::resolved::{Log, LogFormat};

/// The variables with the log level; the first that is set wins.
const VARIABLES: [&str; 2] = ["TIDEGATE_LOG", "RUST_LOG"];

/// Sets up the log for the whole process. A second call has no effect, so tests and embedding
/// programs may set up their own.
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
        tracing::debug!("a log is already set up");
    }
}

/// The filter of a variable. Invalid directives are ignored; the default is `info`.
fn filter(wanted: Option<String>) -> EnvFilter {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    filter.parse_lossy(wanted.unwrap_or_default())
}
