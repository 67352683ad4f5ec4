//! The claims of a token whose signature is good.

use serde_json::{Map, Value};

use super::TokenProblem;

/// How far the clock of an issuer may be ahead, in seconds.
const LEEWAY_SECS: f64 = 30.0;

/// What the claims of a token must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// The claim with the name of the tenant.
    pub tenant_claim: String,
    /// The issuer of tokens (`iss`); any if there is none.
    pub issuer: Option<String>,
    /// The audience of tokens (`aud`). If there is none, tokens have none either.
    pub audience: Option<String>,
}

// === impl ClaimRules ===

impl ClaimRules {
    /// The name of the tenant in these claims, if all of them are as they must be.
    pub(super) fn tenant(
        &self,
        claims: &Map<String, Value>,
        now: u64,
    ) -> Result<String, TokenProblem> {
        check_times(claims, now as f64)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if self.issuer.is_some() && text("iss") != self.issuer.as_deref() {
            return Err(TokenProblem::Issuer);
        }
        if !self.is_audience(claims.get("aud")) {
            return Err(TokenProblem::Audience);
        }
        text(&self.tenant_claim).map(str::to_owned).ok_or(TokenProblem::NoTenant)
    }

    /// Whether a token with this `aud` is for this gateway. A token for a named audience is for no
    /// other server (RFC 7519, section 4.1.3), so a gateway without a name does not take it.
    fn is_audience(&self, claim: Option<&Value>) -> bool {
        let is_own = |value: &Value| value.as_str().is_some_and(|name| self.is_own_name(name));
        match claim {
            None => self.audience.is_none(),
            Some(Value::Array(names)) => names.iter().any(is_own),
            Some(name) => is_own(name),
        }
    }

    fn is_own_name(&self, name: &str) -> bool {
        self.audience.as_deref() == Some(name)
    }
}

fn check_times(claims: &Map<String, Value>, now: f64) -> Result<(), TokenProblem> {
    let expires = claims.get("exp").and_then(Value::as_f64).ok_or(TokenProblem::NoExpiry)?;
    if expires <= now {
        return Err(TokenProblem::Expired);
    }
    let Some(begins) = claims.get("nbf") else { return Ok(()) };
    match begins.as_f64() {
        Some(begins) if begins <= now + LEEWAY_SECS => Ok(()),
        Some(_) => Err(TokenProblem::NotYetValid),
        None => Err(TokenProblem::Malformed),
    }
}
