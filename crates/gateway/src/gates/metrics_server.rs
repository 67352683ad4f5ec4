//! An HTTP server that gates read metrics from.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;

use super::error::{ReadError, SetupError};
use super::kinds::GateContext;
use crate::clock::Clock;
use crate::schema::{Form, Misfit};
use crate::upstream::client::{BaseUrl, Client, ClientError};

/// The part of a refusal that is shown.
const REFUSAL_MAX: usize = 200;

/// The address of an HTTP server.
pub(crate) const HTTP_URL: Form = Form {
    allowed: "http://HOST:PORT[/path]",
    check: |url| BaseUrl::parse(url).map(|_| ()).map_err(|error| Misfit(error.to_string())),
    example: "http://10.0.0.5:9090",
};

/// A server and the client that calls it.
#[derive(Clone, Debug)]
pub(super) struct MetricsServer {
    client: Arc<Client>,
    pub(super) base: BaseUrl,
    pub(super) clock: Clock,
}

// === impl MetricsServer ===

impl MetricsServer {
    pub(super) fn new(base: BaseUrl, context: &GateContext) -> Self {
        Self { client: Arc::clone(&context.client), base, clock: context.clock }
    }

    pub(super) fn at(url: &str, context: &GateContext) -> Result<Self, SetupError> {
        let base = BaseUrl::parse(url).map_err(SetupError::Address)?;
        Ok(Self::new(base, context))
    }

    /// Fetches a page of at most `most` bytes. Tries again once if an idle connection was closed.
    pub(super) async fn get(&self, path: &str, most: usize) -> Result<Bytes, ReadError> {
        let request = || Request::get(path).body(Full::default()).map_err(ReadError::Request);
        let response = match self.client.send(&self.base, request()?, most).await {
            Err(ClientError::Lost(_)) => self.client.send(&self.base, request()?, most).await,
            other => other,
        };
        let response = response.map_err(ReadError::Call)?;
        match response.status.is_success() {
            true => Ok(response.body),
            false => Err(refused(response.status, &response.body)),
        }
    }
}

/// A refusal with the beginning of its text.
fn refused(status: StatusCode, body: &[u8]) -> ReadError {
    let text = String::from_utf8_lossy(&body[..body.len().min(REFUSAL_MAX)]);
    let text = text.chars().filter(|letter| !letter.is_control()).collect();
    ReadError::Refused { status, text }
}
