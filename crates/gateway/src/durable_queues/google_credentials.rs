//! The credentials for Pub/Sub: a service account's key, or the account of the machine or pod.
//!
//! A key signs its own tokens, which Google's interfaces accept without an exchange. Without a key
//! the metadata server of Google Cloud gives a token: that of the machine's account, or on
//! Kubernetes that of the pod (workload identity).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;
use store::Moment;
use tokio::sync::Mutex as AsyncMutex;

use crate::clock::moment;
use crate::upstream::client::{BaseUrl, BaseUrlError, Client, ClientError};

/// The interface that a token is for.
const AUDIENCE: &str = "https://pubsub.googleapis.com/";
const METADATA_SERVER: &str = "metadata.google.internal";
const TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const RESPONSE_MAX: usize = 64 << 10;
const RESPONSE_LIMIT: Duration = Duration::from_secs(10);
/// How long a token that is signed here is valid: the most that Google accepts.
const VALID_FOR: Duration = Duration::from_secs(3600);
/// A token is replaced so long before its end. The metadata server has a new one then.
const MARGIN: Duration = Duration::from_secs(200);

/// How long the source of tokens is not asked again after it failed.
const FAILURE_LASTS: Duration = Duration::from_secs(1);

/// Tokens, each for as long as it is valid.
#[derive(Debug)]
pub(super) struct GoogleCredentials {
    source: TokenSource,
    kept: Mutex<Kept>,
    /// Held by the caller that asks for a token.
    asking: AsyncMutex<()>,
}

/// What is known of the source.
#[derive(Debug, Default)]
struct Kept {
    token: Option<Token>,
    /// Why there was no new token, and until when this counts.
    failure: Option<(Moment, Arc<CredentialsError>)>,
}

/// A token, which is replaced some time before its end.
#[derive(Debug)]
struct Token {
    value: HeaderValue,
    replaced_at: Moment,
    ends_at: Moment,
}

/// Where tokens come from.
#[derive(Debug)]
enum TokenSource {
    Key(Box<ServiceAccount>),
    MetadataServer(BaseUrl, Client),
}

/// The key of a service account.
#[derive(Debug)]
struct ServiceAccount {
    email: String,
    key_id: String,
    key: RsaKeyPair,
}

/// The file of a key, as Google's console gives it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyFile {
    r#type: String,
    client_email: String,
    private_key: String,
    private_key_id: String,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: u64,
}

/// Why there is no token.
#[derive(Debug)]
pub(crate) enum CredentialsError {
    Read(PathBuf, io::Error),
    Json(PathBuf, serde_json::Error),
    /// The file is of another type.
    Type(PathBuf, String),
    Key(PathBuf),
    MetadataAddress(BaseUrlError),
    MetadataServer(ClientError),
    /// The metadata server answered otherwise.
    NoToken(u16),
    Sign,
}

// === impl GoogleCredentials ===

impl GoogleCredentials {
    /// The key in a file, or else the account of the machine. `variable` reads the environment.
    pub(super) fn new(
        file: Option<&Path>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, CredentialsError> {
        let named = variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
        let source = match file.map(Path::to_owned).or(named) {
            Some(file) => TokenSource::Key(Box::new(ServiceAccount::read(&file)?)),
            None => {
                let host = variable("GCE_METADATA_HOST").unwrap_or_else(|| METADATA_SERVER.into());
                let base = BaseUrl::parse(&format!("http://{host}"));
                let base = base.map_err(CredentialsError::MetadataAddress)?;
                TokenSource::MetadataServer(base, Client::default())
            }
        };
        Ok(Self { source, kept: Mutex::default(), asking: AsyncMutex::default() })
    }

    /// The value of the header `authorization`. A token serves until its end while there is no new
    /// one, and callers that wait share one answer.
    pub(super) async fn authorization(&self) -> Result<HeaderValue, Arc<CredentialsError>> {
        let valid = {
            let (kept, now) = (self.kept(), moment());
            if let Some(known) = kept.known(now) {
                return known;
            }
            kept.valid(now)
        };
        let _one_at_a_time = match (self.asking.try_lock(), valid) {
            (Ok(first), _) => first,
            (Err(_), Some(value)) => return Ok(value),
            (Err(_), None) => self.asking.lock().await,
        };
        // Another caller may have asked meanwhile.
        if let Some(known) = self.kept().known(moment()) {
            return known;
        }
        match self.ask(moment()).await {
            Ok(token) => {
                let value = token.value.clone();
                *self.kept() = Kept { token: Some(token), failure: None };
                Ok(value)
            }
            Err(error) => {
                let (mut kept, now, error) = (self.kept(), moment(), Arc::new(error));
                kept.failure = Some((now.after(FAILURE_LASTS), Arc::clone(&error)));
                kept.valid(now).ok_or(error)
            }
        }
    }

    async fn ask(&self, now: Moment) -> Result<Token, CredentialsError> {
        let (token, valid_for) = match &self.source {
            TokenSource::Key(account) => (account.token(now)?, VALID_FOR),
            TokenSource::MetadataServer(base, client) => metadata_token(client, base).await?,
        };
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| CredentialsError::NoToken(200))?;
        value.set_sensitive(true);
        let replaced_at = now.after(valid_for.saturating_sub(MARGIN));
        Ok(Token { value, replaced_at, ends_at: now.after(valid_for) })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Kept ===

impl Kept {
    /// The answer, if the source need not be asked.
    fn known(&self, now: Moment) -> Option<Result<HeaderValue, Arc<CredentialsError>>> {
        if let Some(token) = self.token.as_ref().filter(|token| token.replaced_at > now) {
            return Some(Ok(token.value.clone()));
        }
        let (_, error) = self.failure.as_ref().filter(|(until, _)| *until > now)?;
        Some(self.valid(now).ok_or_else(|| Arc::clone(error)))
    }

    /// The token, if it has not ended.
    fn valid(&self, now: Moment) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|token| token.ends_at > now);
        token.map(|token| token.value.clone())
    }
}

async fn metadata_token(
    client: &Client,
    base: &BaseUrl,
) -> Result<(String, Duration), CredentialsError> {
    let request = Request::get(TOKEN_PATH).header("metadata-flavor", "Google");
    let request = request.body(Full::new(Bytes::new())).map_err(ClientError::from);
    let request = request.map_err(CredentialsError::MetadataServer)?;
    let sent = tokio::time::timeout(RESPONSE_LIMIT, client.send(base, request, RESPONSE_MAX));
    let sent = sent.await.unwrap_or(Err(ClientError::TimedOut(RESPONSE_LIMIT)));
    let response = sent.map_err(CredentialsError::MetadataServer)?;
    let refused = CredentialsError::NoToken(response.status.as_u16());
    match serde_json::from_slice::<TokenResponse>(&response.body) {
        Ok(token) if response.status.is_success() => {
            Ok((token.access_token, Duration::from_secs(token.expires_in)))
        }
        _ => Err(refused),
    }
}

// === impl ServiceAccount ===

impl ServiceAccount {
    fn read(file: &Path) -> Result<Self, CredentialsError> {
        let at = || file.to_owned();
        let text = std::fs::read(file).map_err(|error| CredentialsError::Read(at(), error))?;
        let found: KeyFile =
            serde_json::from_slice(&text).map_err(|error| CredentialsError::Json(at(), error))?;
        if found.r#type != "service_account" {
            return Err(CredentialsError::Type(at(), found.r#type));
        }
        let key = PrivatePkcs8KeyDer::from_pem_slice(found.private_key.as_bytes());
        let key = key.ok().and_then(|key| RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).ok());
        let key = key.ok_or_else(|| CredentialsError::Key(at()))?;
        Ok(Self { email: found.client_email, key_id: found.private_key_id, key })
    }

    /// A token that the key signs (RFC 7519, RS256).
    fn token(&self, now: Moment) -> Result<String, CredentialsError> {
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.key_id});
        let claims = json!({
            "iss": self.email, "sub": self.email, "aud": AUDIENCE,
            "iat": now.secs(), "exp": now.after(VALID_FOR).secs(),
        });
        let [header, claims] = [header, claims].map(|part| base64url(part.to_string().as_bytes()));
        let text = format!("{header}.{claims}");
        let mut signature = vec![0; self.key.public().modulus_len()];
        let random = SystemRandom::new();
        self.key
            .sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
            .map_err(|_| CredentialsError::Sign)?;
        Ok(format!("{text}.{}", base64url(&signature)))
    }
}

/// Base64 with `-` and `_`, without padding (RFC 7515, section 2).
fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..=group.len() {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(char::from(letter));
        }
    }
    text
}

// === impl CredentialsError ===

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(file, error) => write!(f, "{} cannot be read: {error}", file.display()),
            Self::Json(file, error) => write!(f, "{} is not JSON: {error}", file.display()),
            Self::Type(file, found) => write!(
                f,
                "{} has credentials of the type {found:?}; supported is \"service_account\". \
                 Without a file the account of the machine or pod is used",
                file.display()
            ),
            Self::Key(file) => write!(f, "{} has no private RSA key", file.display()),
            Self::MetadataAddress(error) => write!(f, "GCE_METADATA_HOST: {error}"),
            Self::MetadataServer(error) => write!(
                f,
                "no token from the metadata server of Google Cloud: {error}. Elsewhere, name the \
                 key of a service account in dispatch.pubsub.credentials"
            ),
            Self::NoToken(status) => {
                write!(f, "the metadata server of Google Cloud gave no token: status {status}")
            }
            Self::Sign => f.write_str("the key of the service account cannot sign"),
        }
    }
}

impl std::error::Error for CredentialsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(_, error) => Some(error),
            Self::Json(_, error) => Some(error),
            Self::MetadataAddress(error) => Some(error),
            Self::MetadataServer(error) => std::error::Error::source(error),
            Self::Type(..) | Self::Key(_) | Self::NoToken(_) | Self::Sign => None,
        }
    }
}

#[cfg(test)]
mod tests;
