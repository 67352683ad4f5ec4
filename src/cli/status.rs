//! `tidegate status`: whether all is well, and if not, what to do.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use gateway::client;
use serde::Deserialize;
use serde_json::Value;

use super::plain;
use super::remote::{KeySource, Remote};

/// The server that error messages suggest where a response makes no sense.
const EXPECTED: &str = "Tidegate";

/// The address of a gateway on this machine.
const USUAL: &str = "http://127.0.0.1:8430";

/// The exit codes besides 0, which says that all is well.
const WARNINGS: u8 = 1;
const TROUBLE: u8 = 2;
const UNREACHABLE: u8 = 3;

/// Show whether all is well, and if not, what is wrong and what to do.
///
/// The exit code is 0 if all is well, 1 if there are warnings, 2 if there is trouble (more requests
/// fail than are served, those of a model or of a batch wait in vain, clients refuse the
/// certificate, or a store cannot be used), and 3 if the gateway cannot be reached or refuses the
/// key. Notes do not change the exit code. If the status pages need a key, put an
/// admin key into TIDEGATE_API_KEY or into the file of --key-file.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate status
  tidegate status --url http://10.0.0.5:8430 || page-the-operator
  tidegate status --json | jq '.findings[] | {id, subject, since_seconds}'

`tidegate explain FINDING` says what a finding means.")]
pub(super) struct Status {
    /// The address of the gateway's status pages.
    #[arg(long, value_name = "URL", default_value = USUAL)]
    url: String,
    #[command(flatten)]
    key: KeySource,
    /// Print the whole state as JSON.
    #[arg(long)]
    json: bool,
}

/// The page `/status`, as far as it is shown.
#[derive(Deserialize)]
struct Diagnosis {
    sentence: String,
    level: String,
    findings: Vec<Symptom>,
    /// An older gateway has none.
    #[serde(default)]
    recent: Vec<PastSymptom>,
}

/// One finding.
#[derive(Deserialize)]
struct Symptom {
    id: String,
    level: String,
    text: String,
    since_seconds: f64,
    advice: String,
}

/// A finding that has ended.
#[derive(Deserialize)]
struct PastSymptom {
    id: String,
    text: String,
    lasted_seconds: f64,
    ended_seconds_ago: f64,
}

// === impl Status ===

impl Status {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let read = match self.read() {
            Ok(read) => read,
            Err(error) => {
                writeln!(std::io::stderr(), "error: {error:#}")?;
                return Ok(UNREACHABLE.into());
            }
        };
        let (value, diagnosis) = read;
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
        } else {
            diagnosis.write(&self.url, out)?;
        }
        Ok(match diagnosis.level.as_str() {
            "ok" => ExitCode::SUCCESS,
            "warning" => WARNINGS.into(),
            _ => TROUBLE.into(),
        })
    }

    fn read(&self) -> Result<(Value, Diagnosis)> {
        let remote = Remote::read(&self.url)?;
        let response =
            client::ask(&remote.base, ("GET", "/status"), self.key.headers()?, Vec::new())
                .with_context(|| format!("is {EXPECTED} running at {}? set --url", self.url))?;
        if !response.status.is_success() {
            anyhow::bail!("{}", remote.refusal(&response, "/status", EXPECTED));
        }
        let unexpected = || format!("unexpected response from {}: is it {EXPECTED}?", self.url);
        let value: Value = serde_json::from_slice(&response.body).with_context(unexpected)?;
        let value = plain::value(value);
        let diagnosis = Diagnosis::deserialize(&value).with_context(unexpected)?;
        Ok((value, diagnosis))
    }
}

// === impl Diagnosis ===

impl Diagnosis {
    fn write(&self, url: &str, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "{}", self.sentence)?;
        for symptom in &self.findings {
            let Symptom { id, level, text, since_seconds, advice } = symptom;
            writeln!(out, "\n{level}: {text}")?;
            writeln!(out, "  {id}, for {since_seconds:.0} s")?;
            writeln!(out, "  {}", advice_at(advice, url))?;
            writeln!(out, "  More: tidegate explain {id}")?;
        }
        for past in &self.recent {
            let PastSymptom { id, text, lasted_seconds, ended_seconds_ago } = past;
            writeln!(out, "\nended {ended_seconds_ago:.0} s ago, it said: {text}")?;
            writeln!(out, "  {id}, for {lasted_seconds:.0} s")?;
        }
        Ok(())
    }
}

/// Advice whose command finds the same process, such as a picker.
fn advice_at(advice: &str, url: &str) -> String {
    match url {
        USUAL => advice.to_owned(),
        _ => advice.replace("--undo`", &format!("--undo --url {url}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m03_a_command_in_advice_asks_the_same_address() {
        let advice = "`tidegate drain a --undo` lets it serve again.";
        let elsewhere = "`tidegate drain a --undo --url http://10.0.0.5:9004` lets it serve again.";
        assert_eq!(advice_at(advice, USUAL), advice);
        assert_eq!(advice_at(advice, "http://10.0.0.5:9004"), elsewhere);
    }
}
