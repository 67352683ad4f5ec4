//! The API server: where it is, and how requests to it are made.
//!
//! In a pod everything comes from its service account. Outside of a cluster the configuration
//! names the address and the files. The token is read for each request, because Kubernetes replaces
//! it every hour.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::config::settings::Kubernetes;
use crate::plain_file;
use crate::task;
use crate::upstream::client::{self, BaseUrl, BaseUrlError, Client, ClientError, ClientResponse};

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

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum ApiServerError {
    /// The process is in no pod, and no address is configured.
    NoCluster,
    Url(BaseUrlError),
    /// A file of the service account cannot be read.
    File {
        file: PathBuf,
        source: io::Error,
    },
    Client(ClientError),
    NoAnswer {
        /// Host and port.
        place: String,
    },
    Interrupted,
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
    pub(super) fn new(settings: &Kubernetes) -> Result<Self, ApiServerError> {
        Self::with(settings, |name| std::env::var(name).ok())
    }

    pub(super) fn with(
        settings: &Kubernetes,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ApiServerError> {
        let in_cluster = settings.url.is_none();
        let of_account = |given: &Option<PathBuf>, name: &str| {
            given.clone().or_else(|| in_cluster.then(|| Path::new(ACCOUNT).join(name)))
        };
        let url = match &settings.url {
            Some(url) => url.clone(),
            None => cluster_url(variable).ok_or(ApiServerError::NoCluster)?,
        };
        let base = BaseUrl::parse(&url).map_err(ApiServerError::Url)?;
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
    pub(super) async fn list(&self, path: &str) -> Result<ClientResponse, ApiServerError> {
        let request = self.request(path).await?;
        let answer = self.client.send(&self.base, request, PAGE_MAX);
        match tokio::time::timeout(ANSWER_LIMIT, answer).await {
            Ok(answer) => answer.map_err(ApiServerError::Client),
            Err(_) => Err(self.no_answer()),
        }
    }

    /// The answer to an object that asks a question, or a refusal.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<ClientResponse, ApiServerError> {
        let mut request = self.request(path).await?;
        *request.method_mut() = Method::POST;
        *request.body_mut() = Full::new(body);
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        let answer = self.client.send(&self.base, request, REFUSAL_MAX);
        match tokio::time::timeout(ANSWER_LIMIT, answer).await {
            Ok(answer) => answer.map_err(ApiServerError::Client),
            Err(_) => Err(self.no_answer()),
        }
    }

    /// The events of a watch, or a refusal.
    pub(super) async fn watch(&self, path: &str) -> Result<WatchAnswer, ApiServerError> {
        let request = self.request(path).await?;
        let answer = tokio::time::timeout(ANSWER_LIMIT, self.begin_watch(request)).await;
        match answer {
            Ok(answer) => answer.map_err(ApiServerError::Client),
            Err(_) => Err(self.no_answer()),
        }
    }

    async fn begin_watch(&self, request: Request<Full<Bytes>>) -> Result<WatchAnswer, ClientError> {
        let request = self.base.request(request)?;
        // A watch keeps its connection for minutes, so that it has one of its own.
        let response = client::connect(&self.base).await?.send_request(request).await?;
        if response.status().is_success() {
            return Ok(WatchAnswer::Events(response));
        }
        Ok(WatchAnswer::Refused(client::read(response, REFUSAL_MAX).await?))
    }

    fn no_answer(&self) -> ApiServerError {
        ApiServerError::NoAnswer { place: self.base.place.clone() }
    }

    async fn request(&self, path: &str) -> Result<Request<Full<Bytes>>, ApiServerError> {
        let mut request = Request::builder().uri(path).header(ACCEPT, "application/json");
        if let Some(file) = self.token_file.clone() {
            let read = task::blocking(move || {
                read_token(&file).map_err(|source| ApiServerError::File { file, source })
            });
            let token = read.await.map_err(|_| ApiServerError::Interrupted)??;
            request = request.header(AUTHORIZATION, token);
        }
        request.body(Full::default()).map_err(|error| ApiServerError::Client(error.into()))
    }
}

fn cluster_url(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".into());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Some(format!("https://{host}:{port}"))
}

fn account_namespace(in_cluster: bool) -> Result<String, ApiServerError> {
    if !in_cluster {
        return Ok("default".into());
    }
    let file = Path::new(ACCOUNT).join("namespace");
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(ApiServerError::File { file, source }),
    }
}

fn read_token(file: &Path) -> io::Result<HeaderValue> {
    let mut text = String::new();
    plain_file::open(file)?.take(TOKEN_MAX).read_to_string(&mut text)?;
    let mut value = HeaderValue::from_str(&format!("Bearer {}", text.trim()))
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it has no token"))?;
    value.set_sensitive(true);
    Ok(value)
}

// === impl ApiServerError ===

impl fmt::Display for ApiServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCluster => f.write_str(
                "there is no API server: KUBERNETES_SERVICE_HOST is not set, so this is no pod; \
                 set discovery.kubernetes.url",
            ),
            Self::Url(error) => error.fmt(f),
            Self::File { file, source } => write!(f, "{}: {source}", file.display()),
            Self::Client(error) => write!(f, "the API server: {error}"),
            Self::NoAnswer { place } => {
                write!(f, "the API server at {place} did not answer in {ANSWER_LIMIT:?}")
            }
            Self::Interrupted => f.write_str("the gateway ends"),
        }
    }
}

impl std::error::Error for ApiServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Url(error) => Some(error),
            Self::File { source, .. } => Some(source),
            Self::Client(error) => Some(error),
            Self::NoCluster | Self::NoAnswer { .. } | Self::Interrupted => None,
        }
    }
}
