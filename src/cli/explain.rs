//! `tidegate explain`: where a request is, and why; or what a finding means.

use std::io::Write;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gateway::client;
use serde_json::Value;

use super::plain;
use super::remote::{KeySource, Remote};
use super::runbook;

/// The server that error messages suggest where a response makes no sense.
const EXPECTED: &str = "Tidegate";

/// Show where a request is, how many requests are ahead of it, and why it went to its backend; or
/// what a finding means.
///
/// A finding is one of `tidegate status`, such as disk_full. Its text is part of the program.
///
/// The gateway knows the requests that wait or are at a backend, and the last thousand that ended.
/// The id is the value of the header X-Request-ID, which each response has. If the status pages
/// need a key, put an admin key into TIDEGATE_API_KEY.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate explain 5f3c9a
  tidegate explain 5f3c9a --json | jq .estimated_wait_seconds
  tidegate explain backend_slow                      what this finding means, and what to do")]
pub(super) struct Explain {
    /// The id of the request, or a finding.
    #[arg(value_name = "REQUEST-ID|FINDING")]
    id: String,
    /// The address of the gateway's status pages.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8430")]
    url: String,
    #[command(flatten)]
    key: KeySource,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

// === impl Explain ===

impl Explain {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        if let Some(section) = runbook::section(&self.id).filter(|_| !self.json) {
            writeln!(out, "{section}")?;
            return Ok(());
        }
        let remote = Remote::read(&self.url)?;
        let path = format!("/requests/{}", client::escaped(&self.id));
        let response =
            client::ask(&remote.base, ("GET", &path), self.key.headers()?, Vec::new())
                .with_context(|| format!("is {EXPECTED} running at {}? set --url", self.url))?;
        if !response.status.is_success() {
            let meant = runbook::meant(&self.id).unwrap_or_default();
            bail!("{}{meant}", remote.refusal(&response, &path, EXPECTED));
        }
        let page: Value = serde_json::from_slice(&response.body)
            .with_context(|| format!("unexpected response from {}: is it {EXPECTED}?", self.url))?;
        let page = plain::value(page);
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&page)?)?;
            return Ok(());
        }
        writeln!(out, "{}", page["text"].as_str().unwrap_or_default())?;
        for (name, value) in page.as_object().into_iter().flatten() {
            let shown = match value {
                Value::Null => continue,
                _ if name == "text" => continue,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            writeln!(out, "  {:<22} {shown}", name.replace('_', " "))?;
        }
        Ok(())
    }
}
