//! `tidegate check`: whether a configuration can be used, and what it means.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use gateway::config::{self, Config, Finding, Setting, Source, Summary};

use super::existing_picker::{Mapping, Outcome, Translation};
use super::source::Flags;

/// Check a configuration, and show what it means and where each value comes from.
///
/// Reads the file, the environment and the flags as `serve` does. Prints a summary, and then each
/// value that is not a default with its origin: a flag, an environment variable or a line of the
/// file. If there are problems, it prints all of them, each with its line, its key and the
/// allowed values, and exits with 1.
///
/// Warnings are about values that are allowed but probably a mistake, such as a model name whose
/// target no backend serves, or a flow rule that never applies. They go to standard
/// error and do not change the exit code.
///
/// The command connects to no server. It tries the folder of the Batch API and reads the endpoints
/// file with the rights of the user who runs it. So run it as the user of the gateway.
///
/// A flag has precedence over the environment, the environment over the file, and the file over the
/// default. docs/CONFIGURATION.md describes every key.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate check                                     ./tidegate.toml, .yaml or .yml
  tidegate check examples/tidegate.toml
  tidegate check --all                               every key, including the defaults
  tidegate check --json | jq .warnings               for programs
  tidegate check --backend http://127.0.0.1:8000     flags alone, or with a file
  tidegate check --set queue.total_capacity=500 tidegate.toml
  TIDEGATE_QUEUE__TOTAL_CAPACITY=500 tidegate check
  tidegate check --endpoint-picker-config epp.yaml   from llm-d's picker
  tidegate check --schema > tidegate.schema.json     for the completion of an editor")]
pub(super) struct Check {
    #[command(flatten)]
    flags: Flags,
    /// Show what the EndpointPickerConfig of the existing picker means, and check the result.
    #[arg(long, value_name = "FILE")]
    endpoint_picker_config: Option<PathBuf>,
    /// Show every key, including those that have their default.
    #[arg(long)]
    all: bool,
    /// Print problems, warnings and values as one JSON document.
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of a configuration file, and check nothing.
    #[arg(long, conflicts_with = "json")]
    schema: bool,
}

// === impl Check ===

impl Check {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        if self.schema {
            write!(out, "{}", config::json_schema())?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut existing = Translation::default();
        if let Some(file) = &self.endpoint_picker_config {
            let mapping = Mapping::read(file)?;
            if !self.json {
                write_mapping(&mapping, out)?;
            }
            existing.add_config(&mapping);
        }
        let source = self.flags.source("server.listen", existing.flags);
        let outcome = gateway::check(&source);
        if self.json {
            let json = config::outcome_json(source.file.as_deref(), &outcome, self.all);
            writeln!(out, "{json:#}")?;
            return Ok(ExitCode::from(u8::from(outcome.is_err())));
        }
        match outcome {
            Ok(config) => {
                writeln!(out, "file      {}", file_of(&source))?;
                write!(out, "{}", Summary(&config))?;
                for certificate in gateway::certificates(&config) {
                    writeln!(out, "tls       {certificate}")?;
                }
                write_values(&config, self.all, out)?;
                // After the rest, so that they are the last lines in a terminal.
                out.flush()?;
                write_warnings(&config.notices, &mut std::io::stderr())?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                // Before the problems, so that these are the last lines.
                write_warnings(error.notices(), &mut std::io::stderr())?;
                let count = error.findings().len();
                let noun = if count == 1 { "problem" } else { "problems" };
                bail!("{count} {noun} in the configuration\n{error}")
            }
        }
    }
}

/// Each setting of the existing picker, and the key that it sets or why it sets none.
fn write_mapping(mapping: &Mapping, out: &mut dyn Write) -> Result<()> {
    let width = mapping.rows.iter().map(|row| row.theirs.chars().count()).max();
    let width = width.unwrap_or_default().min(60);
    for row in &mapping.rows {
        let ours = match &row.outcome {
            Outcome::Key(key, value) => format!("{key} = {value}"),
            Outcome::Same(why) => format!("the same: {why}"),
            Outcome::Nothing(why) => format!("no effect: {why}"),
        };
        writeln!(out, "{:<width$}  {ours}", row.theirs)?;
    }
    writeln!(out)?;
    Ok(())
}

fn write_warnings(notices: &[Finding], out: &mut dyn Write) -> Result<()> {
    for notice in notices {
        writeln!(out, "warning: {notice}")?;
    }
    Ok(())
}

/// The file that was read, and the default files that were not.
fn file_of(source: &Source) -> String {
    let Some(file) = &source.file else {
        return "none: defaults, environment and flags".to_owned();
    };
    let mut text = file.display().to_string();
    for other in source.passed_over() {
        text += &format!("; {other} is there too and is not read");
    }
    text
}

/// Each value and where it comes from.
fn write_values(config: &Config, all: bool, out: &mut dyn Write) -> Result<()> {
    let mut settings = config.values.settings();
    settings.retain(|setting| all || !setting.is_default);
    let line = |setting: &Setting| format!("{} = {}", setting.key, setting.value);
    let width = settings.iter().map(|setting| line(setting).chars().count()).max();
    // One long value must not push the origins of all others out of sight.
    let width = width.unwrap_or_default().min(60);
    let mut title = "values";
    for setting in &settings {
        writeln!(out, "{title:<9} {:<width$}  {}", line(setting), setting.origin)?;
        title = "";
    }
    Ok(())
}
