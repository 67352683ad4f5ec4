//! A client of the Batch API.

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

use super::batch_info::BatchInfo;
use super::upload_form::{self, OnProgress};
use crate::cli::remote::Remote;

/// The largest response that is not a file.
const RESPONSE_MAX: usize = 64 << 20;
/// The timeout of calls other than uploads and downloads.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The server that error messages suggest where a response makes no sense.
const EXPECTED: &str = "Tidegate with a Batch API";

/// A gateway and how to call it.
#[derive(Debug)]
pub(super) struct Api {
    remote: Remote,
    client: Client,
    headers: HeaderMap,
    /// The `--url` flag of commands that the user can type, unless it is the default.
    flag: String,
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum ApiError {
    /// The connection failed: the gateway may start later, or have another address.
    Unreachable(String),
    /// The gateway is temporarily unavailable: another try may succeed.
    Unavailable(String),
    /// The gateway refused the call.
    Refused(String),
}

/// The fields of a new batch.
#[derive(Debug)]
pub(super) struct NewBatch<'a> {
    pub(super) file: &'a str,
    pub(super) endpoint: &'a str,
    pub(super) window: &'a str,
    pub(super) metadata: Value,
}

// === impl Api ===

impl Api {
    pub(super) fn new(url: &str, mut headers: HeaderMap, given: &[String]) -> Result<Self> {
        let remote = Remote::read(url)?;
        let given: HeaderMap =
            given.iter().map(|header| read_header(header)).collect::<Result<_>>()?;
        headers.extend(given);
        let flag = if url == super::URL { String::new() } else { format!(" --url {url}") };
        Ok(Self { remote, client: Client::default(), headers, flag })
    }

    /// A command that the user can type, in backticks.
    pub(super) fn command(&self, words: &str) -> String {
        format!("`{}`", self.typed(words))
    }

    /// A command that the user can type.
    pub(super) fn typed(&self, words: &str) -> String {
        format!("tidegate batch {words}{}", self.flag)
    }

    /// The command that explains why requests wait.
    pub(super) fn explain(&self) -> String {
        format!("`tidegate dispatch explain --url {}`", self.remote.at(""))
    }

    /// The gateway's status page of queues and gates.
    pub(super) async fn overview(&self) -> Result<Value, ApiError> {
        self.call(Method::GET, "/dispatch", None).await
    }

    /// A batch.
    pub(super) async fn batch(&self, id: &str) -> Result<BatchInfo, ApiError> {
        let path = format!("/v1/batches/{}", checked(id)?);
        BatchInfo::read(self.call(Method::GET, &path, None).await?)
    }

    /// The newest batch.
    pub(super) async fn newest(&self) -> Result<BatchInfo, ApiError> {
        let newest = self.batches(1).await?.into_iter().next();
        newest.ok_or_else(|| ApiError::Refused("there are no batches yet".into()))
    }

    /// The newest batches.
    pub(super) async fn batches(&self, limit: u32) -> Result<Vec<BatchInfo>, ApiError> {
        let mut page = self.page(limit).await?;
        let Value::Array(rows) = page["data"].take() else {
            return Err(self.unexpected("/v1/batches", "a list"));
        };
        rows.into_iter().map(BatchInfo::read).collect()
    }

    /// The newest batches as JSON.
    pub(super) async fn page(&self, limit: u32) -> Result<Value, ApiError> {
        self.call(Method::GET, &format!("/v1/batches?limit={limit}"), None).await
    }

    pub(super) async fn create(&self, batch: &NewBatch<'_>) -> Result<BatchInfo, ApiError> {
        let body = json!({"input_file_id": batch.file, "endpoint": batch.endpoint,
            "completion_window": batch.window, "metadata": batch.metadata});
        BatchInfo::read(self.call(Method::POST, "/v1/batches", Some(body)).await?)
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<BatchInfo, ApiError> {
        let path = format!("/v1/batches/{}/cancel", checked(id)?);
        BatchInfo::read(self.call(Method::POST, &path, None).await?)
    }

    pub(super) async fn delete_file(&self, id: &str) -> Result<(), ApiError> {
        let path = format!("/v1/files/{}", checked(id)?);
        self.call(Method::DELETE, &path, None).await.map(|_| ())
    }

    /// Uploads a file and returns its id. `on_progress` is called for every chunk.
    pub(super) async fn upload(&self, path: &Path, on_progress: OnProgress) -> Result<String> {
        let form = upload_form::read(path, on_progress)?;
        let path_of_files = "/v1/files";
        let mut request = self.request(Method::POST, path_of_files, form.body)?;
        request.headers_mut().insert(CONTENT_TYPE, form.content_type);
        let mut sender = client::connect(&self.remote.base).await.map_err(ApiError::from)?;
        let response = sender.send_request(self.remote.base.request(request)?).await;
        let answer =
            client::read(response.context("the upload was interrupted")?, RESPONSE_MAX).await?;
        let file = self.json(path_of_files, &answer)?;
        let id = file["id"].as_str().map(str::to_owned);
        Ok(id.ok_or_else(|| self.unexpected(path_of_files, "a file with an id"))?)
    }

    /// The content of a file, as a stream.
    pub(super) async fn content(&self, id: &str) -> Result<Response<Incoming>, ApiError> {
        let path = format!("/v1/files/{}/content", checked(id)?);
        let request = self.request(Method::GET, &path, Full::<Bytes>::default())?;
        let mut sender = client::connect(&self.remote.base).await?;
        let request = self.remote.base.request(request).map_err(ClientError::from)?;
        let response = sender.send_request(request).await.map_err(ClientError::from)?;
        if response.status().is_success() {
            return Ok(response);
        }
        self.json(&path, &client::read(response, RESPONSE_MAX).await?)?;
        Err(self.unexpected(&path, "a file"))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, ApiError> {
        let bytes = body.map(|body| body.to_string()).unwrap_or_default();
        let mut request = self.request(method, path, Full::from(bytes))?;
        let kind = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        let answer = self.client.send(&self.remote.base, request, RESPONSE_MAX);
        let answer = tokio::time::timeout(CALL_TIMEOUT, answer).await;
        let timed_out =
            |_| ApiError::Unavailable(format!("{} did not respond in time", self.remote.at(path)));
        self.json(path, &answer.map_err(timed_out)??)
    }

    fn request<B>(&self, method: Method, path: &str, body: B) -> Result<Request<B>, ApiError> {
        let request = Request::builder().method(method).uri(path).body(body);
        let mut request = request.map_err(|error| ApiError::Refused(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        Ok(request)
    }

    /// The JSON of a successful response, or the error of a refusal.
    fn json(&self, path: &str, response: &ClientResponse) -> Result<Value, ApiError> {
        if response.status.is_success() {
            let value = serde_json::from_slice(&response.body);
            return value.map_err(|_| self.unexpected(path, "JSON"));
        }
        let text = self.remote.refusal(response, path, EXPECTED);
        // A gateway or a proxy returns these statuses during a restart.
        match response.status.as_u16() {
            408 | 429 | 502..=504 => Err(ApiError::Unavailable(text)),
            _ => Err(ApiError::Refused(text)),
        }
    }

    fn unexpected(&self, path: &str, expected: &str) -> ApiError {
        let url = self.remote.at(path);
        ApiError::Refused(format!("the response of {url} is not {expected}: is it {EXPECTED}?"))
    }
}

/// Checks that an id can be part of a path.
fn checked(id: &str) -> Result<&str, ApiError> {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    if !id.is_empty() && id.bytes().all(plain) {
        return Ok(id);
    }
    Err(ApiError::Refused(format!("{id:?} is not an id: list ids with `tidegate batch list`")))
}

fn read_header(header: &str) -> Result<(HeaderName, HeaderValue)> {
    let wrong = || anyhow!("--header {header:?}: write it as \"Name: value\"");
    let (name, value) = header.split_once(':').ok_or_else(wrong)?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
    Ok((name, HeaderValue::try_from(value.trim()).map_err(|_| wrong())?))
}

// === impl ApiError ===

impl From<ClientError> for ApiError {
    fn from(why: ClientError) -> Self {
        match why {
            ClientError::Unreached { .. } => Self::Unreachable(why.to_string()),
            ClientError::TooLong => Self::Refused(why.to_string()),
            _ => Self::Unavailable(why.to_string()),
        }
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(text) => {
                write!(f, "{text}: is `tidegate serve --batch FOLDER` running there? ")?;
                f.write_str("set another address with --url")
            }
            Self::Unavailable(text) | Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ApiError {}
