//! The tenants, in a few lines.

use std::fmt;

use flow::Cascade;

use super::Summary;
use crate::api_keys::AdminRight;
use crate::config::settings::tenants::Tenant;
use crate::schema::spelling;

// === impl Summary ===

impl Summary<'_> {
    pub(super) fn tenants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut title = "tenants";
        for tenant in &self.0.tenants {
            let keys = self.0.keys.count_of(tenant.index);
            let noun = if keys == 1 { "key" } else { "keys" };
            let (name, bands) = (&tenant.name, self.bands_of(tenant));
            writeln!(f, "{title:<9} {name}: {keys} {noun}{bands}{}", show_limits(tenant))?;
            title = "";
        }
        self.admin_keys(f)
    }
}

impl Summary<'_> {
    fn bands_of(&self, tenant: &Tenant) -> String {
        if matches!(self.0.flow.cascade, Cascade::Weighted(_)) {
            return format!(", always {}", spelling(tenant.one_band()));
        }
        let usual = tenant.band.map(|band| format!(", usually {}", spelling(band)));
        format!(", up to {}{}", spelling(tenant.band_max), usual.unwrap_or_default())
    }

    /// The keys of operators, if there are any keys.
    fn admin_keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = &self.0.keys;
        if keys.is_empty() {
            return Ok(());
        }
        let [read, change] =
            [AdminRight::Read, AdminRight::Change].map(|right| keys.count_admin(right));
        let noun = if read + change == 1 { "key" } else { "keys" };
        write!(f, "admin     {} {noun} for the status pages", read + change)?;
        match (read, change) {
            (0, 0) => writeln!(f),
            (read, change) => writeln!(f, ", {read} to read, {change} to change"),
        }
    }
}

fn show_limits(tenant: &Tenant) -> String {
    let then = spelling(tenant.on_quota);
    let quota = |most: u64, period| format!(", {most} tokens a {period}, then {then}");
    let models = (!tenant.models.is_empty()).then(|| tenant.models.join(", "));
    let limits = [
        tenant.requests_per_minute.map(|most| format!(", {most} requests a minute")),
        tenant.tokens_per_minute.map(|most| format!(", {most} tokens a minute")),
        tenant.quotas.day.map(|most| quota(most, "day")),
        tenant.quotas.month.map(|most| quota(most, "month")),
        models.map(|models| format!(", models {models}")),
    ];
    limits.into_iter().flatten().collect()
}
