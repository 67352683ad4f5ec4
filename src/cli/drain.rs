//! `tidegate drain`: no new requests for a backend, until it has none.

use std::io::Write;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use gateway::client;
use serde::Deserialize;
use serde_json::Value;

use super::plain;
use super::remote::{KeySource, Remote};

const EXPECTED: &str = "Tidegate";
/// How often `--wait` looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The exit code if requests are left at the end of the wait.
const LEFT: u8 = 1;

/// Send no new requests to a backend, and let it finish those that it has.
///
/// Requests go to the other backends of the model, or wait for one. The drain lasts until
/// `--undo`, until the backend is removed, or until the gateway restarts. Where the status pages
/// need a key, it must be an admin key that may change something.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate drain gpu-a --wait && ssh gpu-a systemctl restart vllm
  tidegate drain gpu-a --undo")]
pub(super) struct Drain {
    /// The id of the backend.
    id: String,
    /// Allow new requests again.
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until the backend has no request.
    #[arg(long)]
    wait: bool,
    /// The longest wait, in seconds. The exit code is 1 if requests are left then.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
    /// The address of the gateway's status pages.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8430")]
    url: String,
    #[command(flatten)]
    key: KeySource,
}

/// The backend after a call.
#[derive(Deserialize)]
struct Drained {
    in_flight: u64,
}

/// A backend of the page `/backends`.
#[derive(Deserialize)]
struct Listed {
    id: String,
    queue_depth: u64,
}

// === impl Drain ===

impl Drain {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let remote = Remote::read(&self.url)?;
        let id = plain::line(&self.id);
        let verb = if self.undo { "undrain" } else { "drain" };
        let path = format!("/backends/{}/{verb}", client::escaped(&self.id));
        let Drained { in_flight } = serde_json::from_value(self.ask(&remote, ("POST", &path))?)?;
        if self.undo {
            writeln!(out, "{id} gets new requests")?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(out, "{id} gets no new requests; requests that it has: {in_flight}")?;
        out.flush()?;
        if !self.wait {
            return Ok(ExitCode::SUCCESS);
        }
        let left = self.wait_until_drained(&remote, in_flight)?;
        if left > 0 {
            writeln!(out, "{id} still has requests: {left}")?;
            return Ok(LEFT.into());
        }
        writeln!(out, "{id} is drained: it has no request")?;
        Ok(ExitCode::SUCCESS)
    }

    /// Waits, and returns how many requests are left. A backend that is gone has none.
    fn wait_until_drained(&self, remote: &Remote, mut left: u64) -> Result<u64> {
        let looks = Duration::from_secs(self.timeout).as_millis() / LOOK_EVERY.as_millis();
        for _ in 0..looks {
            if left == 0 {
                break;
            }
            thread::park_timeout(LOOK_EVERY);
            let page = self.ask(remote, ("GET", "/backends"))?;
            let listed: Vec<Listed> = serde_json::from_value(page)?;
            let ours = listed.iter().filter(|listed| listed.id == self.id);
            left = ours.map(|listed| listed.queue_depth).sum();
        }
        Ok(left)
    }

    fn ask(&self, remote: &Remote, (method, path): (&str, &str)) -> Result<Value> {
        let response =
            client::ask(&remote.base, (method, path), self.key.headers()?, Vec::new())
                .with_context(|| format!("is {EXPECTED} running at {}? set --url", self.url))?;
        if !response.status.is_success() {
            anyhow::bail!("{}", remote.refusal(&response, path, EXPECTED));
        }
        let unexpected = || format!("unexpected response from {}: is it {EXPECTED}?", self.url);
        serde_json::from_slice(&response.body).with_context(unexpected)
    }
}
