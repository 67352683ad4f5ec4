//! The API server: where it is, and how requests to it are made.
//!
//! In a pod everything comes from its service account. Outside of a cluster the configuration names
//! the address and the files. The token is read for each request, because it is replaced every hour.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::config::settings::Kubernetes;
use crate::plain_file;
use crate::task;
use crate::upstream::client::{self, BaseUrl, Client, ClientResponse};

/// The files of a pod's service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long a list, or the begin of a watch, may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// The longest page of a list, and the longest refusal.
const PAGE_MAX: usize = 64 << 20;
const REFUSAL_MAX: usize = 64 << 10;
const TOKEN_MAX: u64 = 64 << 10;

/// See the module's description.
#[derive(Debug)]
pub(super) struct ApiServer {
    base: BaseUrl,
    pub(super) token_file: Option<PathBuf>,
    pub(super) namespace: String,
    client: Client,
}

/// What the API server says to a watch.
#[derive(Debug)]
pub(super) enum WatchAnswer {
    Events(Response<Incoming>),
    Refused(ClientResponse),
}

// === impl ApiServer ===

impl ApiServer {
    /// The API server of the configuration, or else that of the cluster that this process is in.
    pub(super) fn new(settings: &Kubernetes) -> Result<Self, String> {
        Self::with(settings, |name| std::env::var(name).ok())
    }

    pub(super) fn with(
        settings: &Kubernetes,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let in_cluster = settings.url.is_none();
        let of_account = |given: &Option<PathBuf>, name: &str| {
            given.clone().or_else(|| in_cluster.then(|| Path::new(ACCOUNT).join(name)))
        };
        let url = match &settings.url {
            Some(url) => url.clone(),
            None => cluster_url(variable).ok_or(
                "there is no API server: KUBERNETES_SERVICE_HOST is not set, so this is no pod; \
                 set discovery.kubernetes.url",
            )?,
        };
        let base = BaseUrl::parse(&url).map_err(|error| error.to_string())?;
        let base = base.trusting(of_account(&settings.ca_file, "ca.crt"));
        let namespace = match &settings.namespace {
            Some(namespace) => namespace.clone(),
            None => account_namespace(in_cluster)?,
        };
        let token_file = of_account(&settings.token_file, "token");
        Ok(Self { base, token_file, namespace, client: Client::default() })
    }

    #[cfg(test)]
    pub(super) fn origin(&self) -> String {
        self.base.origin()
    }

    /// A page of a list, or a refusal.
    pub(super) async fn list(&self, path: &str) -> Result<ClientResponse, String> {
        let request = self.request(path).await?;
        let answer = self.client.send(&self.base, request, PAGE_MAX);
        match tokio::time::timeout(ANSWER_LIMIT, answer).await {
            Ok(answer) => answer.map_err(|error| format!("the API server: {error}")),
            Err(_) => Err(self.no_answer()),
        }
    }

    /// The events of a watch, or a refusal.
    pub(super) async fn watch(&self, path: &str) -> Result<WatchAnswer, String> {
        let request = self.request(path).await?;
        let answer = tokio::time::timeout(ANSWER_LIMIT, self.begin_watch(request)).await;
        match answer {
            Ok(answer) => answer.map_err(|error| format!("the API server: {error}")),
            Err(_) => Err(self.no_answer()),
        }
    }

    async fn begin_watch(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<WatchAnswer, client::ClientError> {
        let request = self.base.request(request)?;
        // A watch keeps its connection for minutes, so that it has one of its own.
        let response = client::connect(&self.base).await?.send_request(request).await?;
        if response.status().is_success() {
            return Ok(WatchAnswer::Events(response));
        }
        Ok(WatchAnswer::Refused(client::read(response, REFUSAL_MAX).await?))
    }

    fn no_answer(&self) -> String {
        format!("the API server at {} did not answer in {ANSWER_LIMIT:?}", self.base.place)
    }

    async fn request(&self, path: &str) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder().uri(path).header(ACCEPT, "application/json");
        if let Some(file) = self.token_file.clone() {
            let shown = file.display().to_string();
            let read = task::blocking(move || read_token(&file));
            let token = read.await.map_err(|_| "interrupted".to_owned())?;
            let token = token.map_err(|error| format!("the token in {shown}: {error}"))?;
            request = request.header(AUTHORIZATION, token);
        }
        request.body(Full::default()).map_err(|error| error.to_string())
    }
}

fn cluster_url(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".into());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Some(format!("https://{host}:{port}"))
}

fn account_namespace(in_cluster: bool) -> Result<String, String> {
    if !in_cluster {
        return Ok("default".into());
    }
    let file = Path::new(ACCOUNT).join("namespace");
    let text = std::fs::read_to_string(&file)
        .map_err(|error| format!("the namespace in {}: {error}", file.display()))?;
    Ok(text.trim().to_owned())
}

fn read_token(file: &Path) -> Result<HeaderValue, String> {
    let mut text = String::new();
    let opened = plain_file::open(file).map_err(|error| error.to_string())?;
    opened.take(TOKEN_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let mut value = HeaderValue::from_str(&format!("Bearer {}", text.trim()))
        .map_err(|_| "is not a token".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}
