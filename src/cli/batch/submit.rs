//! `tidegate batch submit`: a file of requests on its way to the gateway.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gateway::batch::lines::{self, Checked, Flaw, Rules};
use serde_json::Value;

use super::api::{Api, Wanted};
use super::info::{self, Info};
use super::meter::Meter;
use super::{Files, Server, fetch, follow};

/// The longest line here; the gateway has a limit of its own.
const LINE_MAX: usize = 1 << 30;

/// Send a file of requests, one a line.
///
/// The file is checked here first: mistakes are told with their lines before anything is sent.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate batch submit questions.jsonl                prints the batch's id and ends
  tidegate batch submit questions.jsonl --wait         writes questions.jsonl.output.jsonl and, if
                                                       something failed, ….errors.jsonl
  tidegate batch submit questions.jsonl --wait --output answers.jsonl --errors failed.jsonl
                                                       files that are there stay, without --force
  tidegate batch submit questions.jsonl --window 30m --metadata team=search --url http://gw:8080
  id=$(tidegate batch submit questions.jsonl)          the id alone is on standard output")]
pub(super) struct Submit {
    /// The requests, in OpenAI's format.
    file: PathBuf,
    /// The path they go to; what the first line says unless given.
    #[arg(long, value_name = "PATH")]
    endpoint: Option<String>,
    /// How long it may take, such as 90s, 30m, 24h or 7d; what is not answered then is given up.
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    window: String,
    /// Something to know it by later; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Wait until it has ended, and fetch the answers.
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    server: Server,
}

// === impl Submit ===

impl Submit {
    pub(super) async fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let wants_files = self.files.output.is_some() || self.files.errors.is_some();
        if wants_files && !self.wait {
            bail!("--output and --errors need --wait: there are no answers yet");
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
        let count = checked.entries.len();
        say(&format!("{} has {count} request{}", batch.id, if count == 1 { "" } else { "s" }));
        let Some(ended) = follow::until_end(&api, batch).await? else {
            return Ok(follow::INTERRUPTED.into());
        };
        let told = fetch::fetch(&api, &ended, &files, out).await?;
        if self.server.json {
            ended.show(out, true)?;
        }
        summarise(&ended, &told)?;
        Ok(ended.exit_code())
    }

    /// Uploads the file and makes a batch of it.
    async fn send(&self, api: &Api, checked: &Checked) -> Result<Info> {
        let length = self.file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        let meter = Meter::bytes(length, "uploading");
        let bar = meter.bar();
        let file = api.upload(&self.file, Box::new(move |count| bar.inc(count))).await?;
        drop(meter);
        let pairs = self.metadata.iter().cloned().map(|(key, value)| (key, Value::from(value)));
        let metadata = if self.metadata.is_empty() { Value::Null } else { pairs.collect() };
        let (endpoint, window) = (checked.endpoint.as_str(), self.window.as_str());
        let made = api.create(&Wanted { file: &file, endpoint, window, metadata }).await;
        if made.is_err() {
            // The file alone is of no use; why there is no batch is what counts.
            let _ = api.delete_file(&file).await;
        }
        Ok(made?)
    }
}

/// Checks a file line by line.
fn check(path: &Path, endpoint: Option<String>) -> Result<Checked> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(named)?;
    let rules = Rules { endpoint, line_limit: LINE_MAX, lines_max: u32::MAX };
    let checked = lines::check(BufReader::new(file), &rules).with_context(named)?;
    if checked.flaws.is_empty() {
        return Ok(checked);
    }
    let flaws = checked.flaws.iter().take(info::FLAWS_SHOWN);
    let mut shown: Vec<String> = flaws.map(Flaw::to_string).collect();
    let last = checked.flaws.last().map(|flaw| flaw.code).unwrap_or_default();
    shown.extend(info::unshown(checked.flaws.len(), last));
    bail!("{} cannot be sent:\n  {}", named(), shown.join("\n  "))
}

/// Tells of a batch that is left to itself.
fn announce(api: &Api, batch: &Info, json: bool, out: &mut dyn Write) -> Result<ExitCode> {
    if json {
        batch.show(out, true)?;
    } else {
        writeln!(out, "{}", batch.id)?;
        let wait = api.command(&format!("status {} --watch", batch.id));
        say(&format!("{wait} waits for it"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells how a batch that was waited for has ended.
fn summarise(batch: &Info, told: &[String]) -> Result<()> {
    say(&format!("{}: {}", batch.status, batch.tally()));
    fetch::tell(told);
    if batch.status == "failed" {
        bail!("the gateway cannot do it:\n  {}", batch.flaws().join("\n  "));
    }
    Ok(())
}

fn say(text: &str) {
    // There is nobody to tell if this fails.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("write it as key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}
