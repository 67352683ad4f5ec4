//! The outcome of `tidegate check` as JSON, for programs.

use std::path::Path;

use serde_json::{Value, json};

use super::settings::Config;
use super::values::Setting;
use crate::schema::{ConfigError, Finding, spelling};

/// The file that was read, its problems, its notices and its meaning; with defaults if `all`.
pub fn outcome_json(
    file: Option<&Path>,
    outcome: &Result<Config, ConfigError>,
    all: bool,
) -> Value {
    let findings = |list: &[Finding]| -> Vec<Value> { list.iter().map(finding).collect() };
    let file = file.map(|path| path.display().to_string());
    match outcome {
        Ok(config) => json!({
            "valid": true,
            "file": file,
            "problems": [],
            "warnings": findings(&config.notices),
            "models": models(config),
            "objectives": objectives(config),
            "settings": settings(config, all),
        }),
        Err(error) => json!({
            "valid": false,
            "file": file,
            "problems": findings(&error.findings()),
            "warnings": findings(error.notices()),
        }),
    }
}

fn finding(finding: &Finding) -> Value {
    let at = (!finding.at.is_empty()).then_some(&finding.at);
    json!({ "at": at, "text": finding.text })
}

fn models(config: &Config) -> Vec<Value> {
    let model = |(name, targets): (&str, Vec<(flow::ResolvedModel<'_>, u64)>)| {
        let total: u64 = targets.iter().map(|(_, weight)| weight).sum();
        let target = |(resolved, weight): &(flow::ResolvedModel<'_>, u64)| {
            let share = *weight as f64 / total as f64;
            json!({ "model": resolved.target, "share": share, "band": resolved.band.map(spelling) })
        };
        json!({ "name": name, "targets": targets.iter().map(target).collect::<Vec<_>>() })
    };
    config.names.rules().map(model).collect()
}

fn objectives(config: &Config) -> Vec<Value> {
    let objective =
        |(name, band): (&String, &flow::Band)| json!({ "name": name, "band": spelling(*band) });
    config.objectives.iter().map(objective).collect()
}

fn settings(config: &Config, all: bool) -> Vec<Value> {
    let setting = |setting: Setting| {
        let Setting { key, json: value, origin, is_default, .. } = setting;
        json!({ "key": key, "value": value, "origin": origin, "default": is_default })
    };
    let settings = config.values.settings().into_iter();
    settings.filter(|setting| all || !setting.is_default).map(setting).collect()
}
