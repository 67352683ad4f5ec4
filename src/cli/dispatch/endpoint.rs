//! The status pages of a running dispatcher, called over HTTP.

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gateway::client;
use serde::de::DeserializeOwned;

use crate::cli::plain;
use crate::cli::remote::{KeySource, Remote};

/// The server that error messages suggest where a response makes no sense.
const EXPECTED: &str = "a dispatcher, or a gateway with a Batch API";

#[derive(Args, Debug)]
pub(super) struct Endpoint {
    /// The address of the dispatcher's status pages; those of a gateway are beside its API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081")]
    url: String,
    #[command(flatten)]
    key: KeySource,
}

// === impl Endpoint ===

impl Endpoint {
    pub(super) fn call(&self, method: &str, path: &str, body: Vec<u8>) -> Result<String> {
        let remote = Remote::read(&self.url)?;
        let response = client::ask(&remote.base, (method, path), self.key.headers()?, body)
            .with_context(|| format!("is {EXPECTED} running at {}? set --url", self.url))?;
        if !response.status.is_success() {
            bail!("{}", remote.refusal(&response, path, EXPECTED));
        }
        Ok(String::from_utf8_lossy(&response.body).into_owned())
    }

    /// Parses a JSON response. Control characters in its strings are replaced, because the caller
    /// prints them.
    pub(super) fn parse<T: DeserializeOwned>(&self, text: &str, path: &str) -> Result<T> {
        let unexpected =
            || format!("unexpected response from {}{path}: is it {EXPECTED}?", self.url);
        let value = serde_json::from_str(text).with_context(unexpected)?;
        serde_json::from_value(plain::value(value)).with_context(unexpected)
    }
}
