//! The limits of a request's tenant: checked before its body is read and before it is queued,
//! settled when it ends.

use flow::{Band, Time};
use http::request::Parts;

use super::{Request, RequestRecord};
use crate::backend::Attempt;
use crate::clock;
use crate::config::Config;
use crate::ingress::{Caller, path};
use crate::reply::{Fault, Refused};
use crate::state::State;
use crate::tenants::{Now, UsedUp};

// === impl Request ===

impl Request {
    /// Charges the request to its tenant, unless a limit is used up.
    pub(super) fn charge_tenant(&mut self) -> Result<(), Refused> {
        let Some(caller) = &self.intent.caller else { return Ok(()) };
        let now = now(self.record.now());
        // Limits of a minute are for interactive requests. A batch would only be refused again and
        // again, and would take the minute away from the interactive requests of its tenant.
        let amount = (self.intent.tokens, caller.is_batch);
        let charge = match self.state.tenants.charge(&caller.tenant, amount, now) {
            Err(_) if caller.is_batch => return Err(Fault::BatchQuotaExceeded.into()),
            charge => charge.map_err(refused)?,
        };
        if charge.demoted && !self.intent.direct {
            self.intent.band = Band::BestEffort;
            self.record.band = Some(Band::BestEffort);
        }
        self.record.hold(charge);
        Ok(())
    }

    /// The request goes to a backend. What only reads uses nothing.
    pub(super) fn note_sent(&mut self) {
        if !self.intent.direct {
            self.record.owe(self.intent.prompt);
        }
    }

    /// An attempt has failed; the backend may never have had the request.
    pub(crate) fn attempt_failed(&mut self, attempt: Attempt, reached: bool) {
        self.record.attempt_failed(attempt, reached);
    }
}

/// The caller of a request whose body is not read yet. A request that its tenant may not make now,
/// or never, is refused.
pub(crate) fn arrive(
    state: &State,
    config: &Config,
    parts: &mut Parts,
    record: &mut RequestRecord,
) -> Result<Option<Caller>, Refused> {
    let Some(caller) = state.caller(config, parts)? else { return Ok(None) };
    record.attribute(Some(&caller));
    let path = parts.uri.path();
    path::check(path)?;
    if path::changes_models(&parts.method, path) {
        return Err(Fault::AdminOnly.into());
    }
    if !path::is_offered(path) {
        return Err(Fault::NoSuchPath(path::meant(path)).into());
    }
    if !caller.is_batch {
        state.tenants.arrive(&caller.tenant, now(state.clock.now())).map_err(refused)?;
    }
    Ok(Some(caller))
}

fn now(core: Time) -> Now {
    Now { core, secs: clock::date_secs() }
}

fn refused(used_up: UsedUp) -> Refused {
    let (what, wait) = match used_up {
        UsedUp::Quota(wait) => {
            return Refused { fault: Fault::QuotaExceeded, retry_after: Some(wait) };
        }
        UsedUp::Requests(wait) => ("requests", wait),
        UsedUp::Tokens(wait) => ("tokens", wait),
    };
    Refused { fault: Fault::RateLimited(what), retry_after: Some(wait) }
}
