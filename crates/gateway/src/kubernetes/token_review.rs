//! Whether a bearer token of Kubernetes may see a page: the API server says whose the token is
//! (TokenReview), and whether that account may request the path (SubjectAccessReview). So the roles
//! of the cluster decide, as for the metrics of its own components.
//!
//! A verdict is kept for a while, so that a reader of metrics costs one review in that time. A
//! token that is not accepted costs the API server one request, so few are reviewed at once.
//! Anybody can send such tokens, so one that was allowed before has places of its own for its next
//! review, and the places of the others go around among the addresses (`review_turns`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Cluster;
use super::api_server::{ApiServer, ApiServerError};
use super::objects::Status;
use super::review_turns::{REVIEWS_MAX, ReviewTurns, Turn};
use super::trouble::told;
use crate::api_keys::KeyDigest;
use crate::places::{Place, Places};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// How long a verdict counts. A right that is withdrawn lasts for so long.
const KEPT: Duration = Duration::from_secs(60);
/// How many are kept, also behind that time.
const KEPT_MAX: usize = 256;
/// The longest token. Those of service accounts have about 1,000 bytes.
const TOKEN_MAX: usize = 16 << 10;

/// What a token may do with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenVerdict {
    /// The API server does not know it.
    Unknown,
    /// Its account may not request the path.
    Denied,
    Allowed,
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewError(pub(crate) String);

/// A token with a page: the digest of the token, the verb and the path.
type ReviewKey = ([u8; 32], &'static str, String);

/// The place of a review, given back when it is dropped.
#[derive(Debug)]
enum ReviewPlace {
    Renewal(#[expect(dead_code, reason = "it is held")] Place),
    First(#[expect(dead_code, reason = "it is held")] Turn),
}

/// The last verdicts.
#[derive(Debug, Default)]
pub(super) struct Reviews {
    kept: Mutex<BTreeMap<ReviewKey, (Instant, TokenVerdict)>>,
    turns: ReviewTurns,
    /// The places of tokens that were allowed before.
    renewals: Places,
    /// The problem that was logged last.
    told: Mutex<Option<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewAnswer {
    status: ReviewStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    authenticated: bool,
    user: Value,
    allowed: bool,
}

// === impl Cluster ===

impl Cluster {
    /// Whether a token may request a page with a verb such as `get`. Its client is at this address.
    pub(crate) async fn review(
        &self,
        (token, client): (&str, Option<String>),
        (verb, path): (&'static str, &str),
    ) -> Result<TokenVerdict, ReviewError> {
        if token.len() > TOKEN_MAX {
            return Ok(TokenVerdict::Unknown);
        }
        let key = (KeyDigest::of(token).bytes(), verb, path.to_owned());
        if let Some(known) = self.reviews.known(&key) {
            return Ok(known);
        }
        let _place = self.reviews.place(&key.0, client).await?;
        let reviewed = self.ask(token, (verb, path)).await;
        self.reviews.tell(reviewed.as_ref().err());
        let verdict = reviewed?;
        self.reviews.keep(key, verdict);
        Ok(verdict)
    }

    async fn ask(
        &self,
        token: &str,
        (verb, path): (&str, &str),
    ) -> Result<TokenVerdict, ReviewError> {
        let settings = self.settings.borrow().clone();
        let settings = settings.ok_or(ReviewError("there is no API server to ask".into()))?;
        let server = ApiServer::new(&settings)?;
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        let whose = post(&server, TOKEN_REVIEWS, &review).await?;
        if !whose.authenticated {
            return Ok(TokenVerdict::Unknown);
        }
        let mut spec = json!({"nonResourceAttributes": {"path": path, "verb": verb}});
        // The names differ by one: `username` there is `user` here.
        for (theirs, ours) in
            [("username", "user"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra")]
        {
            if let Some(value) = whose.user.get(theirs) {
                spec[ours] = value.clone();
            }
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        });
        let may = post(&server, ACCESS_REVIEWS, &review).await?;
        Ok(if may.allowed { TokenVerdict::Allowed } else { TokenVerdict::Denied })
    }
}

async fn post(server: &ApiServer, path: &str, body: &Value) -> Result<ReviewStatus, ReviewError> {
    let answer = server.post(path, body.to_string().into()).await?;
    let plural = path.rsplit('/').next().unwrap_or_default();
    match answer.status.as_u16() {
        200..=299 => {}
        403 => {
            return Err(ReviewError(format!(
                "the service account may not create {plural}: its role lacks the verb create \
                 (docs/KUBERNETES.md)"
            )));
        }
        status => {
            let refusal: Status = serde_json::from_slice(&answer.body).unwrap_or_default();
            let message = told(&refusal.message);
            let text = format!("the API server answered {status} to create {plural}: {message}");
            return Err(ReviewError(text));
        }
    }
    let read: Result<ReviewAnswer, _> = serde_json::from_slice(&answer.body);
    let unreadable = |_| ReviewError(format!("the API server sent no {plural} that can be read"));
    read.map(|answer| answer.status).map_err(unreadable)
}

// === impl Reviews ===

impl Reviews {
    fn known(&self, key: &ReviewKey) -> Option<TokenVerdict> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, verdict) = kept.get(key)?;
        (at.elapsed() < KEPT).then_some(*verdict)
    }

    /// A place for the review of a token, by its digest.
    async fn place(
        &self,
        token: &[u8; 32],
        client: Option<String>,
    ) -> Result<ReviewPlace, ReviewError> {
        let place = match self.was_allowed(token) {
            true => self.renewals.take(REVIEWS_MAX).map(ReviewPlace::Renewal),
            false => self.turns.take(client).await.map(ReviewPlace::First),
        };
        place.ok_or_else(|| ReviewError("too many tokens are being reviewed".into()))
    }

    fn was_allowed(&self, token: &[u8; 32]) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.keys().any(|(known, ..)| known == token)
    }

    fn keep(&self, key: ReviewKey, verdict: TokenVerdict) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // A role that is given later should count at once.
        if verdict != TokenVerdict::Allowed {
            kept.remove(&key);
            return;
        }
        if kept.len() >= KEPT_MAX && !kept.contains_key(&key) {
            // A token with many pages takes the place of its own verdicts before those of others.
            let oldest = kept.iter().min_by_key(|(known, (at, _))| (known.0 != key.0, *at));
            if let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) {
                kept.remove(&oldest);
            }
        }
        kept.insert(key, (Instant::now(), verdict));
    }

    /// Logs a problem once, and its end.
    fn tell(&self, problem: Option<&ReviewError>) {
        let problem = problem.map(|ReviewError(text)| text.clone());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != problem {
            match &problem {
                Some(problem) => tracing::warn!("tokens of Kubernetes are not reviewed: {problem}"),
                None => tracing::info!("tokens of Kubernetes are reviewed again"),
            }
            *told = problem;
        }
    }
}

// === impl ReviewError ===

impl From<ApiServerError> for ReviewError {
    fn from(error: ApiServerError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: &str, path: usize) -> ReviewKey {
        (KeyDigest::of(token).bytes(), "get", format!("/requests/{path}"))
    }

    #[tokio::test(start_paused = true)]
    async fn x05_a_token_with_many_pages_takes_no_place_of_another() {
        let reviews = Reviews::default();
        reviews.keep(key("prometheus", 0), TokenVerdict::Allowed);
        for path in 0..2 * KEPT_MAX {
            tokio::time::advance(Duration::from_millis(1)).await;
            reviews.keep(key("many", path), TokenVerdict::Allowed);
        }
        let is_known = |key| reviews.known(&key) == Some(TokenVerdict::Allowed);
        assert!(is_known(key("prometheus", 0)));
        assert!(is_known(key("many", 2 * KEPT_MAX - 1)), "the last is kept");
        assert!(!is_known(key("many", 0)), "the oldest is not");
        tokio::time::advance(KEPT).await;
        assert!(!is_known(key("prometheus", 0)), "a right lasts for a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn x05_forged_tokens_keep_no_known_token_from_its_review() {
        let reviews = Reviews::default();
        let [prometheus, another] = ["prometheus", "another"].map(|token| key(token, 0).0);
        reviews.keep(key("prometheus", 0), TokenVerdict::Allowed);
        let mut held = Vec::new();
        for number in 0..REVIEWS_MAX {
            let forged = key(&format!("forged {number}"), 0).0;
            held.push(reviews.place(&forged, None).await.unwrap());
        }
        assert!(reviews.place(&another, None).await.is_err());
        tokio::time::advance(2 * KEPT).await;
        assert!(reviews.place(&prometheus, None).await.is_ok());
        reviews.keep(key("prometheus", 0), TokenVerdict::Unknown);
        assert!(reviews.place(&prometheus, None).await.is_err(), "it is withdrawn");
    }
}
