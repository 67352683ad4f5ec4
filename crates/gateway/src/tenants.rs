//! The limits of tenants at run time: how much each tenant has used of its minute.
//!
//! The amounts outlive a reload of the configuration, by the name of the tenant. The buckets are
//! pure functions of the time, which the caller gives.

mod quota;
mod token_bucket;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use flow::{Span, Time};

use self::quota::{QuotaUse, Until};
use self::token_bucket::TokenBucket;
use crate::calendar::DAY_SECS;
use crate::config::settings::tenants::{OnQuota, Quotas, Tenant};
use crate::upstream::RetryBudget;
use crate::usage::PeriodTokens;

/// The most tenants that are remembered when the configuration does not name them any more.
const KEPT_MAX: usize = 10_000;
/// When to try again while requests that run hold the rest of a quota.
const SETTLED_SOON: Span = Span::from_secs(5);

/// The limits of all tenants.
#[derive(Debug, Default)]
pub(crate) struct TenantLimits {
    by_name: ArcSwap<BTreeMap<String, Arc<TenantUse>>>,
}

/// What a tenant has used.
#[derive(Debug, Default)]
pub(crate) struct TenantUse {
    /// Behind one lock: a request that passes all limits is counted in the same step.
    amounts: Mutex<Amounts>,
    retries: RetryBudget,
}

#[derive(Debug, Default)]
struct Amounts {
    requests: TokenBucket,
    tokens: TokenBucket,
    quota: QuotaUse,
}

/// A limit that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsedUp {
    /// The requests of a minute, until this much time has passed.
    Requests(Span),
    /// The tokens of a minute.
    Tokens(Span),
    /// The tokens of a day or a month.
    Quota(Span),
}

/// The times of a request: of the core, and in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) core: Time,
    pub(crate) secs: u64,
}

/// What a request was charged with. If it is dropped before [`Charge::settle`], its estimate stays.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    hold: Option<Hold>,
    /// Whether the request goes to the lowest band, because a quota is used up.
    pub(crate) demoted: bool,
}

/// The tokens that a request holds of its tenant's limits.
#[derive(Debug)]
struct Hold {
    used: Arc<TenantUse>,
    /// The tokens in the bucket of a minute, and the size of the bucket.
    in_minute: Option<(u64, u64)>,
    /// The tokens that are reserved in the quotas.
    in_quota: Option<u64>,
}

// === impl TenantLimits ===

impl TenantLimits {
    /// Keeps the amounts of all tenants: one that is removed and comes back has not got a new
    /// quota. Only if a file has named very many, those that it does not name any more are
    /// forgotten.
    pub(crate) fn configure(&self, tenants: &[Arc<Tenant>]) {
        let old = self.by_name.load();
        let mut kept = BTreeMap::clone(&old);
        if kept.len() > KEPT_MAX {
            kept.retain(|name, _| tenants.iter().any(|tenant| tenant.name == *name));
        }
        for tenant in tenants {
            kept.entry(tenant.name.clone()).or_default();
        }
        self.by_name.store(Arc::new(kept));
    }

    /// Sets what tenants used in this day and month before a restart, with cached tokens or
    /// without. A tenant that is not configured now may be later.
    pub(crate) fn restore(
        &self,
        used: &BTreeMap<String, PeriodTokens>,
        charge_cached: bool,
        secs: u64,
    ) {
        let mut by_name = BTreeMap::clone(&self.by_name.load());
        for (name, PeriodTokens { day, month }) in used.iter().take(KEPT_MAX) {
            let tenant = by_name.entry(name.clone()).or_default();
            let [day, month] = [day, month].map(|used| used.charged(charge_cached));
            tenant.amounts().quota.restore(day, month, secs / DAY_SECS);
        }
        self.by_name.store(Arc::new(by_name));
    }

    /// Counts a request before its body is read, unless a limit is used up already.
    pub(crate) fn arrive(&self, tenant: &Tenant, now: Now) -> Result<(), UsedUp> {
        let Some(used) = self.used(tenant) else { return Ok(()) };
        let mut amounts = used.amounts();
        amounts.is_demoted(tenant, now.secs)?;
        amounts.has_tokens(tenant, now.core)?;
        let Some(limit) = tenant.requests_per_minute else { return Ok(()) };
        let wait = amounts.requests.wait(limit, now.core);
        if wait > Span::ZERO {
            return Err(UsedUp::Requests(wait));
        }
        amounts.requests.take(limit, 1);
        Ok(())
    }

    /// Charges a request with an estimated number of tokens, unless a limit is used up. The
    /// requests of a batch have quotas alone.
    pub(crate) fn charge(
        &self,
        tenant: &Tenant,
        (tokens, is_batch): (u64, bool),
        now: Now,
    ) -> Result<Charge, UsedUp> {
        let Some(used) = self.used(tenant) else { return Ok(Charge::default()) };
        let in_quota = (tenant.quotas != Quotas::default()).then_some(tokens);
        let day = now.secs / DAY_SECS;
        let mut amounts = used.amounts();
        let demoted = amounts.is_demoted(tenant, now.secs)?;
        let in_minute = match tenant.tokens_per_minute.filter(|_| !is_batch) {
            Some(limit) => Some((amounts.take_tokens(tenant, tokens, now.core)?, limit)),
            None => None,
        };
        amounts.quota.reserve(in_quota.unwrap_or(0), day);
        drop(amounts);
        Ok(Charge { hold: Some(Hold { used, in_minute, in_quota }), demoted })
    }

    /// Which quota of a tenant is used up (`day` or `month`), and the time until the next period.
    pub(crate) fn used_up(&self, tenant: &Tenant, secs: u64) -> Option<(&'static str, Span)> {
        let used = self.used(tenant)?;
        let mut amounts = used.amounts();
        let today = secs / DAY_SECS;
        // Requests that run may give back what they hold.
        let Until::Day(day) = amounts.quota.used_up(tenant.quotas, today)? else { return None };
        let period = if amounts.quota.is_month_over(tenant.quotas) { "month" } else { "day" };
        Some((period, Span::from_secs((day * DAY_SECS).saturating_sub(secs))))
    }

    /// What a tenant has used, also if it has no limits.
    pub(crate) fn of(&self, name: &str) -> Option<Arc<TenantUse>> {
        self.by_name.load().get(name).cloned()
    }

    /// What a tenant has used, if it has limits.
    fn used(&self, tenant: &Tenant) -> Option<Arc<TenantUse>> {
        let has_rate = tenant.requests_per_minute.is_some() || tenant.tokens_per_minute.is_some();
        let has_limits = has_rate || tenant.quotas != Quotas::default();
        has_limits.then(|| self.of(&tenant.name)).flatten()
    }
}

// === impl TenantUse ===

impl TenantUse {
    /// The budget of the tenant's repeated attempts.
    pub(crate) fn retries(&self) -> &RetryBudget {
        &self.retries
    }

    fn amounts(&self) -> MutexGuard<'_, Amounts> {
        self.amounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Amounts ===

impl Amounts {
    /// Whether a quota is used up and the request may wait. If it may not, it is refused.
    fn is_demoted(&mut self, tenant: &Tenant, secs: u64) -> Result<bool, UsedUp> {
        let Some(until) = self.quota.used_up(tenant.quotas, secs / DAY_SECS) else {
            return Ok(false);
        };
        match tenant.on_quota {
            OnQuota::Wait => Ok(true),
            OnQuota::Refuse => Err(UsedUp::Quota(match until {
                Until::Day(day) => Span::from_secs((day * DAY_SECS).saturating_sub(secs)),
                Until::Settled => SETTLED_SOON,
            })),
        }
    }

    /// Takes the tokens of a request from the bucket of the minute.
    fn take_tokens(&mut self, tenant: &Tenant, tokens: u64, now: Time) -> Result<u64, UsedUp> {
        self.has_tokens(tenant, now)?;
        let per_minute = tenant.tokens_per_minute.unwrap_or(u64::MAX);
        // What a client claims to need must not block its tenant for longer than a minute.
        let tokens = tokens.min(per_minute);
        self.tokens.take(per_minute, tokens);
        Ok(tokens)
    }

    /// Refuses a request while the tokens of the minute are used up.
    fn has_tokens(&mut self, tenant: &Tenant, now: Time) -> Result<(), UsedUp> {
        let wait = tenant.tokens_per_minute.map(|limit| self.tokens.wait(limit, now));
        match wait.filter(|wait| *wait > Span::ZERO) {
            Some(wait) => Err(UsedUp::Tokens(wait)),
            None => Ok(()),
        }
    }
}

// === impl Charge ===

impl Charge {
    /// Replaces the estimate by the tokens that the request used, `secs` after 1970; `None` keeps
    /// the estimate.
    pub(crate) fn settle(mut self, tokens: Option<u64>, secs: u64) {
        if let Some(mut hold) = self.hold.take() {
            hold.settle(tokens, Some(secs / DAY_SECS));
        }
    }
}

// === impl Hold ===

impl Hold {
    fn settle(&mut self, tokens: Option<u64>, day: Option<u64>) {
        let mut amounts = self.used.amounts();
        if let Some(reserved) = self.in_quota.take() {
            amounts.quota.settle(reserved, tokens.unwrap_or(reserved), day);
        }
        if let (Some((charged, per_minute)), Some(tokens)) = (self.in_minute.take(), tokens) {
            amounts.tokens.put(per_minute, charged);
            amounts.tokens.take(per_minute, tokens);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.settle(None, None);
    }
}

#[cfg(test)]
mod tests;
