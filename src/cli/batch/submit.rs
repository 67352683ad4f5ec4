//! `tidegate batch submit`: checks and uploads a file of requests, and creates a batch.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gateway::batch_api::input::{self, CheckedInput, InputError, InputRules};
use serde_json::Value;

use super::api::{Api, NewBatch};
use super::batch_info::{self, BatchInfo};
use super::wait_output::{Progress, say};
use super::{OutputFiles, Server, fetch, poll_until_end};

/// The line limit of the local check; the gateway has its own limit.
const LINE_MAX: usize = 1 << 30;

/// Submit a file with one request per line.
///
/// The command checks the file first and prints all errors with their lines. It uploads nothing if
/// there is an error.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate batch submit questions.jsonl
      Print the id of the batch and exit.
  tidegate batch submit questions.jsonl --wait
      Wait for the end; write questions.jsonl.output.jsonl and, if requests failed,
      questions.jsonl.errors.jsonl.
  tidegate batch submit questions.jsonl --wait --output answers.jsonl --errors failed.jsonl
      Existing files are not overwritten without --force.
  tidegate batch submit questions.jsonl --window 30m --metadata team=search --url http://gw:8430
  tidegate batch submit questions.jsonl -H 'x-team: lab'
      The requests belong to the flow of this team, if the gateway forms flows by this header.
  id=$(tidegate batch submit questions.jsonl)
      Standard output has only the id.")]
pub(super) struct Submit {
    /// The input file, in the format of OpenAI's Batch API.
    file: PathBuf,
    /// The path of all requests; the `url` of the first line by default.
    #[arg(long, value_name = "PATH")]
    endpoint: Option<String>,
    /// The completion window, such as 90s, 30m, 24h or 7d; after it, requests expire.
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    window: String,
    /// Metadata of the batch; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Wait until the batch has ended, and fetch the responses.
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    files: OutputFiles,
    #[command(flatten)]
    server: Server,
}

// === impl Submit ===

impl Submit {
    pub(super) async fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let wants_files = self.files.output.is_some() || self.files.errors.is_some();
        if wants_files && !self.wait {
            bail!("--output and --errors need --wait: there are no responses yet");
        }
        let api = self.server.api()?;
        let checked = check(&self.file, self.endpoint.clone())?;
        let files = self.files.or_beside(&self.file);
        if self.wait {
            files.check(Some(&self.file))?;
        }
        let batch = self.send(&api, &checked).await?;
        if !self.wait {
            return announce(&api, &batch, self.server.json, out);
        }
        let count = checked.requests.len();
        let plural = if count == 1 { "" } else { "s" };
        say(&format!("{}: {count} request{plural} submitted", batch.id));
        let Some(ended) = poll_until_end::until_end(&api, batch).await? else {
            return Ok(poll_until_end::INTERRUPTED.into());
        };
        let notes = fetch::fetch(&api, &ended, &files, out).await?;
        if self.server.json {
            ended.show(out, true)?;
        }
        summarise(&ended, &notes)?;
        Ok(ended.exit_code())
    }

    /// Uploads the file and creates a batch.
    async fn send(&self, api: &Api, checked: &CheckedInput) -> Result<BatchInfo> {
        let length = self.file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        let progress = Progress::bytes(length, "uploading");
        let bar = progress.bar();
        let file = api.upload(&self.file, Box::new(move |count| bar.inc(count))).await?;
        drop(progress);
        let pairs = self.metadata.iter().cloned().map(|(key, value)| (key, Value::from(value)));
        let metadata = if self.metadata.is_empty() { Value::Null } else { pairs.collect() };
        let (endpoint, window) = (checked.endpoint.as_str(), self.window.as_str());
        let created = api.create(&NewBatch { file: &file, endpoint, window, metadata }).await;
        if created.is_err() {
            // The file is useless without a batch. The first error is the one to report.
            let _ = api.delete_file(&file).await;
        }
        Ok(created?)
    }
}

/// Checks a file line by line.
fn check(path: &Path, endpoint: Option<String>) -> Result<CheckedInput> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(named)?;
    let rules = InputRules { endpoint, line_limit: LINE_MAX, lines_max: u32::MAX };
    let checked = input::check(BufReader::new(file), &rules).with_context(named)?;
    if checked.errors.is_empty() {
        return Ok(checked);
    }
    let errors = checked.errors.iter().take(batch_info::ERRORS_SHOWN);
    let mut shown: Vec<String> = errors.map(InputError::to_string).collect();
    let last = checked.errors.last().map(|error| error.code).unwrap_or_default();
    shown.extend(batch_info::unshown(checked.errors.len(), last));
    bail!("{} is invalid:\n  {}", named(), shown.join("\n  "))
}

/// Prints the id of a batch, for a command that does not wait.
fn announce(api: &Api, batch: &BatchInfo, json: bool, out: &mut dyn Write) -> Result<ExitCode> {
    if json {
        batch.show(out, true)?;
    } else {
        writeln!(out, "{}", batch.id)?;
        let wait = api.command(&format!("status {} --watch", batch.id));
        say(&format!("wait for it with {wait}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the result of a batch after `--wait`.
fn summarise(batch: &BatchInfo, notes: &[String]) -> Result<()> {
    say(&format!("{}: {}", batch.status, batch.tally()));
    notes.iter().for_each(|note| say(note));
    if batch.status == "failed" {
        bail!("the input file is invalid:\n  {}", batch.errors().join("\n  "));
    }
    Ok(())
}

fn pair(text: &str) -> Result<(String, String)> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.context("write it as key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}
