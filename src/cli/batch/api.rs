//! The Batch API, as a client sees it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use gateway::client::{self, Client, ClientError, ClientResponse};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::form::{self, Sent};
use super::info::Info;
use crate::cli::remote::Remote;

/// The longest answer that is not a file.
const ANSWER_MAX: usize = 64 << 20;
/// How long an answer may take that is not a file.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is asked where an answer makes no sense.
const MEANT: &str = "Tidegate with a Batch API";

/// A gateway.
#[derive(Debug)]
pub(super) struct Api {
    remote: Remote,
    client: Client,
    headers: HeaderMap,
    /// The flag that leads to it, where that is needed.
    flag: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Problem {
    /// Nobody is there at all: perhaps not yet, or elsewhere.
    Nobody(String),
    /// It is there, but not now: it may help to try again.
    Away(String),
    /// It was refused, in these words.
    Refused(String),
}

/// What a new batch is to be.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) file: &'a str,
    pub(super) endpoint: &'a str,
    pub(super) window: &'a str,
    pub(super) metadata: Value,
}

// === impl Api ===

impl Api {
    pub(super) fn new(url: &str, headers: &[String]) -> Result<Self> {
        let remote = Remote::read(url)?;
        let headers = headers.iter().map(|header| read_header(header)).collect::<Result<_>>()?;
        let flag = if url == super::URL { String::new() } else { format!(" --url {url}") };
        Ok(Self { remote, client: Client::default(), headers, flag })
    }

    /// What to type next.
    pub(super) fn command(&self, words: &str) -> String {
        format!("`{}`", self.typed(words))
    }

    /// The same to be copied.
    pub(super) fn typed(&self, words: &str) -> String {
        format!("tidegate batch {words}{}", self.flag)
    }

    /// What to type to see why requests wait.
    pub(super) fn explain(&self) -> String {
        format!("`tidegate dispatch explain --url {}`", self.remote.at(""))
    }

    /// Queues and gates, as the gateway shows them.
    pub(super) async fn overview(&self) -> Result<Value, Problem> {
        self.call(Method::GET, "/dispatch", None).await
    }

    /// A batch.
    pub(super) async fn batch(&self, id: &str) -> Result<Info, Problem> {
        let path = format!("/v1/batches/{}", checked(id)?);
        Info::read(self.call(Method::GET, &path, None).await?)
    }

    /// The newest batch.
    pub(super) async fn newest(&self) -> Result<Info, Problem> {
        let newest = self.batches(1).await?.into_iter().next();
        newest.ok_or_else(|| Problem::Refused("there is no batch yet".into()))
    }

    /// The newest batches.
    pub(super) async fn batches(&self, limit: u32) -> Result<Vec<Info>, Problem> {
        let mut page = self.page(limit).await?;
        let Value::Array(rows) = page["data"].take() else {
            return Err(self.strange("/v1/batches", "a list"));
        };
        rows.into_iter().map(Info::read).collect()
    }

    /// The newest batches as the gateway tells them.
    pub(super) async fn page(&self, limit: u32) -> Result<Value, Problem> {
        self.call(Method::GET, &format!("/v1/batches?limit={limit}"), None).await
    }

    pub(super) async fn create(&self, wanted: &Wanted<'_>) -> Result<Info, Problem> {
        let body = json!({"input_file_id": wanted.file, "endpoint": wanted.endpoint,
            "completion_window": wanted.window, "metadata": wanted.metadata});
        Info::read(self.call(Method::POST, "/v1/batches", Some(body)).await?)
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<Info, Problem> {
        let path = format!("/v1/batches/{}/cancel", checked(id)?);
        Info::read(self.call(Method::POST, &path, None).await?)
    }

    pub(super) async fn delete_file(&self, id: &str) -> Result<(), Problem> {
        let path = format!("/v1/files/{}", checked(id)?);
        self.call(Method::DELETE, &path, None).await.map(|_| ())
    }

    /// Sends a file; `sent` hears of every piece. Gives its id.
    pub(super) async fn upload(&self, path: &Path, sent: Sent) -> Result<String> {
        let form = form::read(path, sent)?;
        let place = "/v1/files";
        let mut request = self.request(Method::POST, place, form.body)?;
        request.headers_mut().insert(CONTENT_TYPE, form.content_type);
        let mut sender = client::connect(&self.remote.base).await.map_err(Problem::from)?;
        let response = sender.send_request(self.remote.base.request(request)?).await;
        let answer = client::read(response.context("the upload broke off")?, ANSWER_MAX).await?;
        let file = self.json(place, &answer)?;
        let id = file["id"].as_str().map(str::to_owned);
        Ok(id.ok_or_else(|| self.strange(place, "a file with an id"))?)
    }

    /// The content of a file, as it comes.
    pub(super) async fn content(&self, id: &str) -> Result<Response<Incoming>, Problem> {
        let path = format!("/v1/files/{}/content", checked(id)?);
        let request = self.request(Method::GET, &path, Full::<Bytes>::default())?;
        let mut sender = client::connect(&self.remote.base).await?;
        let request = self.remote.base.request(request).map_err(ClientError::from)?;
        let response = sender.send_request(request).await.map_err(ClientError::from)?;
        if response.status().is_success() {
            return Ok(response);
        }
        self.json(&path, &client::read(response, ANSWER_MAX).await?)?;
        Err(self.strange(&path, "a file"))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Problem> {
        let bytes = body.map(|body| body.to_string()).unwrap_or_default();
        let mut request = self.request(method, path, Full::from(bytes))?;
        let kind = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        let answer = self.client.send(&self.remote.base, request, ANSWER_MAX);
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        let late = |_| Problem::Away(format!("{} does not answer", self.remote.at(path)));
        self.json(path, &answer.map_err(late)??)
    }

    fn request<B>(&self, method: Method, path: &str, body: B) -> Result<Request<B>, Problem> {
        let request = Request::builder().method(method).uri(path).body(body);
        let mut request = request.map_err(|error| Problem::Refused(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        Ok(request)
    }

    /// What a good answer says, or why there is none.
    fn json(&self, path: &str, answer: &ClientResponse) -> Result<Value, Problem> {
        if answer.status.is_success() {
            let said = serde_json::from_slice(&answer.body);
            return said.map_err(|_| self.strange(path, "JSON"));
        }
        let text = self.remote.refusal(answer, path, MEANT);
        // A gateway that is being started again says so in these ways.
        match answer.status.as_u16() {
            408 | 429 | 502..=504 => Err(Problem::Away(text)),
            _ => Err(Problem::Refused(text)),
        }
    }

    fn strange(&self, path: &str, expected: &str) -> Problem {
        let asked = self.remote.at(path);
        Problem::Refused(format!("what {asked} answered is not {expected}: is it {MEANT}?"))
    }
}

/// An id that can stand in a path.
fn checked(id: &str) -> Result<&str, Problem> {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    if !id.is_empty() && id.bytes().all(plain) {
        return Ok(id);
    }
    Err(Problem::Refused(format!("{id:?} is no id: `tidegate batch list` shows them")))
}

fn read_header(header: &str) -> Result<(HeaderName, HeaderValue)> {
    let wrong = || anyhow!("--header {header:?}: write it as \"Name: value\"");
    let (name, value) = header.split_once(':').ok_or_else(wrong)?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
    Ok((name, HeaderValue::try_from(value.trim()).map_err(|_| wrong())?))
}

// === impl Problem ===

impl From<ClientError> for Problem {
    fn from(why: ClientError) -> Self {
        match why {
            ClientError::Unreached(why) => Self::Nobody(why),
            ClientError::TooLong => Self::Refused(why.to_string()),
            _ => Self::Away(why.to_string()),
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nobody(text) => {
                write!(f, "{text}: is `tidegate serve --batch FOLDER` running there? ")?;
                f.write_str("--url names another place")
            }
            Self::Away(text) | Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Problem {}
