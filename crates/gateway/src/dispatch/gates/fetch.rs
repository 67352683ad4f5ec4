//! Asking somebody for a page, within bounds.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;

use crate::clock::Clock;
use crate::upstream::client::{BaseUrl, Client, ClientError};

/// So much of a refusal is told.
const COMPLAINT_MAX: usize = 200;

/// Somebody who can be asked.
#[derive(Clone, Debug)]
pub(super) struct MetricsServer {
    pub(super) client: Arc<Client>,
    pub(super) base: BaseUrl,
    pub(super) clock: Clock,
}

// === impl MetricsServer ===

impl MetricsServer {
    /// Fetches a page of at most so many bytes; once more where the connection had gone away.
    pub(super) async fn get(&self, path: &str, most: usize) -> Result<Bytes, String> {
        let request = || {
            let request = Request::get(path).body(Full::default());
            request.map_err(|error| format!("it cannot be asked: {error}"))
        };
        let answer = match self.client.send(&self.base, request()?, most).await {
            Err(ClientError::Lost(_)) => self.client.send(&self.base, request()?, most).await,
            other => other,
        };
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status.is_success() {
            true => Ok(answer.body),
            false => Err(complaint(answer.status, &answer.body)),
        }
    }
}

/// A refusal with the beginning of what it says.
fn complaint(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(COMPLAINT_MAX)]);
    let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
    format!("it answered {status}: {text}")
}
