//! The meaning of files, their problems, and the agreement of the documents.

mod dispatch;
mod documents;
mod flags;
mod fuzz;
mod json_schema;
mod key_aliases;
mod open_telemetry;
mod overrides;
mod problems;
mod profiles;
mod sections;
mod table;

use super::{Config, ConfigError, Source, resolve};

fn source(file: &str) -> Source {
    Source { file: Some(file.into()), ..Source::default() }
}

fn toml(text: &str) -> Result<Config, ConfigError> {
    resolve(&source("t.toml"), text)
}

fn yaml(text: &str) -> Result<Config, ConfigError> {
    resolve(&source("t.yaml"), text)
}

#[track_caller]
fn good(text: &str) -> Config {
    toml(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[track_caller]
fn bad(text: &str) -> Vec<String> {
    toml(text).expect_err(text).lines()
}
