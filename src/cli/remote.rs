//! The server that a command calls: its address, and the text of its refusals.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use gateway::client::{BaseUrl, ClientResponse};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;

use super::plain;

/// The variable with the API key that commands send.
const KEY_VARIABLE: &str = "TIDEGATE_API_KEY";

/// The longest file of a key.
const KEY_FILE_MAX: u64 = 4096;

/// Where the API key of a command is.
#[derive(Args, Clone, Debug)]
pub(super) struct KeySource {
    /// A file with the API key. Without the flag, the command uses the variable TIDEGATE_API_KEY.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

fn read_key(file: &Path) -> Result<String> {
    let named = || format!("--key-file {}", file.display());
    let mut key = String::new();
    let opened = File::open(file).with_context(named)?;
    opened.take(KEY_FILE_MAX).read_to_string(&mut key).with_context(named)?;
    if key.trim().is_empty() {
        bail!("{}: the file is empty", named());
    }
    Ok(key)
}

// === impl KeySource ===

impl KeySource {
    /// The headers with the API key, if there is one.
    pub(super) fn headers(&self) -> Result<HeaderMap> {
        let (key, source) = match &self.key_file {
            Some(file) => (Some(read_key(file)?), file.display().to_string()),
            None => (std::env::var(KEY_VARIABLE).ok(), KEY_VARIABLE.to_owned()),
        };
        let mut headers = HeaderMap::new();
        if let Some(key) = key.filter(|key| !key.is_empty()) {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
            let mut value = value.map_err(|_| anyhow!("{source} has no API key"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }
}

/// The address of a server.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub(super) base: BaseUrl,
    url: String,
}

// === impl Remote ===

impl Remote {
    /// Parses an address. A `/v1` at its end, as OpenAI's clients need it, is dropped.
    pub(super) fn read(url: &str) -> Result<Self> {
        let plain = url.trim_end_matches('/');
        let above = plain.strip_suffix("/v1").filter(|above| !above.ends_with('/'));
        let plain = above.unwrap_or(plain);
        let base = BaseUrl::parse(plain).map_err(|why| anyhow!("--url: {why}"))?;
        Ok(Self { base, url: plain.to_owned() })
    }

    /// The URL of a path.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The message for a response that is not a success. It names the server, because the response
    /// may come from a server of another kind.
    pub(super) fn refusal(&self, response: &ClientResponse, path: &str, expected: &str) -> String {
        let (asked, status) = (self.at(path), response.status);
        let said: Option<Value> = serde_json::from_slice(&response.body).ok().map(plain::value);
        let error = said.as_ref().map(|said| &said["error"]);
        let code = error.and_then(|error| error["code"].as_str()).unwrap_or_default();
        // Tidegate says what it did not find. Another server does not know the path.
        let is_other_server = status == StatusCode::NOT_FOUND
            && !(code.ends_with("_not_found") || code.ends_with("_disabled"));
        let hint = format!("is it {expected}? set another address with --url");
        let needs_key = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        match error.and_then(|error| error["message"].as_str()) {
            Some(said) if needs_key => {
                // A key that was sent and has not the right is not missing.
                let key = if code == "admin_only" { "another key" } else { "a key" };
                format!(
                    "{said} ({asked} answered {status}): name {key} in the variable \
                     {KEY_VARIABLE} or with --key-file FILE"
                )
            }
            Some(said) if is_other_server => format!("{said} ({asked} answered {status}): {hint}"),
            Some(said) => format!("{said} ({asked} answered {status})"),
            None => format!("{asked} answered {status}: {hint}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_an_address_may_end_in_v1() {
        for url in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"] {
            assert_eq!(Remote::read(url).unwrap().at("/v1/files"), "http://h:1/v1/files", "{url}");
        }
        assert_eq!(Remote::read("http://h:1/below/v1").unwrap().at("/x"), "http://h:1/below/x");
        assert_eq!(Remote::read("http://v1").unwrap().at("/x"), "http://v1/x");
        let error = Remote::read("h:1").unwrap_err().to_string();
        assert!(error.starts_with("--url: "), "{error}");
    }

    #[test]
    fn m03_a_missing_key_is_told_where_to_put_it() {
        let remote = Remote::read("http://h:1").unwrap();
        let said = |status: StatusCode| {
            let body = "{\"error\":{\"message\":\"No.\",\"code\":\"x\"}}".into();
            remote.refusal(&ClientResponse { status, headers: HeaderMap::new(), body }, "/", "x")
        };
        let hint = "name a key in the variable TIDEGATE_API_KEY or with --key-file FILE";
        assert!(said(StatusCode::UNAUTHORIZED).ends_with(hint));
        assert!(said(StatusCode::FORBIDDEN).ends_with(hint));
        assert!(!said(StatusCode::NOT_FOUND).contains("TIDEGATE_API_KEY"));
        let body = "{\"error\":{\"message\":\"No.\",\"code\":\"admin_only\"}}".into();
        let status = StatusCode::FORBIDDEN;
        let sent = ClientResponse { status, headers: HeaderMap::new(), body };
        let said = remote.refusal(&sent, "/", "x");
        assert!(said.ends_with(&hint.replace("a key", "another key")), "{said}");
    }

    #[test]
    fn d10_a_refusal_names_the_server_the_path_and_the_status() {
        let remote = Remote::read("http://h:1/v1").unwrap();
        let said = |body: &'static str| {
            let body = body.into();
            let answer =
                ClientResponse { status: StatusCode::NOT_FOUND, headers: HeaderMap::new(), body };
            remote.refusal(&answer, "/v1/files", "Tidegate")
        };
        let asked = "http://h:1/v1/files answered 404 Not Found";
        let ours = "{\"error\":{\"message\":\"No.\",\"code\":\"batch_not_found\"}}";
        assert_eq!(said(ours), format!("No. ({asked})"));
        let hint = "is it Tidegate? set another address with --url";
        let other = "{\"error\":{\"message\":\"No.\",\"code\":404}}";
        assert_eq!(said(other), format!("No. ({asked}): {hint}"));
        let unexpected = format!("{asked}: {hint}");
        for body in ["<html>", "{\"detail\":\"Not Found\"}", "", "[1]", "{\"error\":\"no\"}"] {
            assert_eq!(said(body), unexpected, "{body}");
        }
    }
}
