//! The log of operational messages.
//!
//! It goes to standard error, so that standard output carries the access log only. What a command
//! prints at its start and at its failure has the same format as the log. A thread writes the
//! lines: a reader that stops reading must not stop the process. Under systemd the text format goes
//! to the journal with its fields.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::journal::Journal;
use super::json_line::JsonLine;
use super::log_buffer::LogBuffer;
use super::{access_line, json_line};
use crate::clock;
use crate::config::settings::{Log, LogFormat};

/// The variables with the log level; the first that is set wins.
const VARIABLES: [&str; 2] = ["TIDEGATE_LOG", "RUST_LOG"];
/// Set to anything but the empty text, it switches colours off (no-color.org).
const NO_COLOR: &str = "NO_COLOR";

const LEVELS: &str = "off, error, warn, info, debug or trace";

/// The format of the process's log, once it is set up.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// The lines on their way to standard error.
static LINES: OnceLock<Arc<LogBuffer>> = OnceLock::new();

/// A level that does not exist, as a flag has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelError(String);

/// Standard error, through the buffer if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogWriter;

/// Waits until the lines of the log are written, but not for long.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush();
    }
}

/// Sets up the log for the whole process, with the level of a flag, else that of a variable. A
/// second call has no effect, so tests and embedding programs may set up their own.
pub(crate) fn init(log: &Log, level: Option<&str>) {
    set_up(log.format, level, LevelFilter::INFO);
}

/// Sets up the log of a program that has its own output: warnings only, unless a variable says
/// otherwise.
pub fn init_warnings() {
    set_up(LogFormat::Text, None, LevelFilter::WARN);
}

/// Checks the level of a flag: a level, or `TARGET=LEVEL` pairs, separated by commas.
pub fn check_level(text: &str) -> Result<(), LevelError> {
    let is_level = |directive: &str| {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        !level.trim().is_empty() && level.trim().parse::<LevelFilter>().is_ok()
    };
    let wrong = text.split(',').find(|directive| !is_level(directive));
    wrong.map_or(Ok(()), |wrong| Err(LevelError(wrong.to_owned())))
}

/// A line for standard output, in the format of the log.
pub fn output_line(text: &str) -> String {
    access_line::message(text, format(), clock::since_epoch())
}

/// The lines for standard error about the failure that ends the process. They do not go through
/// the log, because no level may hide them.
pub fn failure_lines(text: &str) -> String {
    match format() {
        LogFormat::Text => format!("error: {text}\n"),
        LogFormat::Json => {
            text.lines().map(|line| json_line::plain(("ERROR", "tidegate"), line)).collect()
        }
    }
}

fn format() -> LogFormat {
    FORMAT.get().copied().unwrap_or_default()
}

fn set_up(format: LogFormat, level: Option<&str>, default: LevelFilter) {
    if FORMAT.set(format).is_err() {
        return;
    }
    let variable = || VARIABLES.into_iter().find_map(|name| Some((name, set(name)?)));
    let flag = level.map(|level| ("--log-level", level.to_owned()));
    let (origin, wanted) = flag.or_else(variable).unwrap_or_default();
    let (filter, wrong) = filter(&wanted, default);
    let registry = tracing_subscriber::registry().with(filter);
    let colours = io::stderr().is_terminal() && set(NO_COLOR).is_none();
    if let Ok(lines) = LogBuffer::start("log", io::stderr()) {
        // The log is set up once.
        let _ = LINES.set(lines);
    }
    let layer = fmt::layer().with_writer(|| LogWriter).with_ansi(colours);
    // A program that embeds the gateway may have a log of its own.
    let _ = match (format, Journal::of_stderr()) {
        (LogFormat::Text, Some(journal)) => registry.with(journal).try_init(),
        (LogFormat::Text, None) => registry.with(layer).try_init(),
        (LogFormat::Json, _) => registry.with(layer.event_format(JsonLine)).try_init(),
    };
    if !wrong.is_empty() {
        tracing::warn!("{origin} has {wrong:?}, which is not {LEVELS}, or TARGET=LEVEL");
    }
}

/// The value of an environment variable that is not empty.
fn set(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The filter of a variable: levels and `target=level` pairs, separated by commas; and those that
/// are neither, which are left out. A target alone has all levels.
///
/// Directives for spans are not known here: the gateway has no spans, and they would cost a
/// regular expression engine.
fn filter(wanted: &str, default: LevelFilter) -> (Targets, Vec<&str>) {
    let directives = wanted.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let (valid, wrong): (Vec<&str>, Vec<&str>) =
        directives.partition(|directive| directive.parse::<Targets>().is_ok());
    let parsed = valid.join(",").parse().ok().filter(|_| !valid.is_empty());
    (parsed.unwrap_or_else(|| Targets::new().with_default(default)), wrong)
}

// === impl LevelError ===

impl std::fmt::Display for LevelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is not {LEVELS}, or TARGET=LEVEL", self.0)
    }
}

impl std::error::Error for LevelError {}

// === impl LogWriter ===

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match LINES.get() {
            Some(lines) => lines.push(line),
            // Its thread did not start.
            None => io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn invalid_directives_are_left_out_and_info_is_the_default() {
        let enabled = |wanted: &str, target: &str, level: Level| {
            filter(wanted, LevelFilter::INFO).0.would_enable(target, &level)
        };
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

    #[test]
    fn the_level_of_a_flag_names_a_level() {
        for good in ["info", "OFF", "warn,gateway::serve=debug", "error, hyper=trace"] {
            assert_eq!(check_level(good), Ok(()), "{good}");
        }
        for bad in ["", "inof", "gateway", "info,", "gateway=", "gateway=loud"] {
            assert!(check_level(bad).is_err(), "{bad}");
        }
    }
}
