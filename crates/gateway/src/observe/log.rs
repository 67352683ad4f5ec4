//! The log of operational messages.
//!
//! It goes to standard error, so that standard output carries the access log only.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::settings::{Log, LogFormat};

/// The variables with the log level; the first that is set wins.
const VARIABLES: [&str; 2] = ["TIDEGATE_LOG", "RUST_LOG"];

/// Sets up the log for the whole process. A second call has no effect, so tests and embedding
/// programs may set up their own.
pub(crate) fn init(log: &Log) {
    let wanted = VARIABLES.into_iter().find_map(|name| std::env::var(name).ok());
    let registry = tracing_subscriber::registry().with(filter(&wanted.unwrap_or_default()));
    let layer =
        fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let set = match log.format {
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => registry.with(layer.json()).try_init(),
    };
    if set.is_err() {
        tracing::debug!("a log is already set up");
    }
}

/// The filter of a variable: levels and `target=level` pairs, separated by commas. Invalid
/// directives are ignored; the default is `info`.
///
/// Directives for spans are not known here: the gateway has no spans, and they would cost a
/// regular expression engine.
fn filter(wanted: &str) -> Targets {
    let valid = |directive: &&str| !directive.is_empty() && directive.parse::<Targets>().is_ok();
    let directives: Vec<&str> = wanted.split(',').map(str::trim).filter(valid).collect();
    let parsed = directives.join(",").parse().ok().filter(|_| !directives.is_empty());
    parsed.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::filter;

    #[test]
    fn invalid_directives_are_ignored_and_info_is_the_default() {
        let enabled =
            |wanted: &str, target: &str, level: Level| filter(wanted).would_enable(target, &level);
        for wanted in ["", " , ", "gateway=loud"] {
            assert!(enabled(wanted, "gateway::serve", Level::INFO), "{wanted}");
            assert!(!enabled(wanted, "gateway::serve", Level::DEBUG), "{wanted}");
        }
        let wanted = "warn, gateway::serve=debug,gateway=loud";
        assert!(enabled(wanted, "gateway::serve::accept", Level::DEBUG));
        assert!(enabled(wanted, "gateway::epp", Level::WARN));
        assert!(!enabled(wanted, "gateway::epp", Level::INFO));
        assert!(enabled("DEBUG", "anything", Level::DEBUG));
    }
}
