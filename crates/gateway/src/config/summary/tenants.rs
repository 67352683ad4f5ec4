//! The tenants, in a few lines.

use std::fmt;

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
            writeln!(f, "{title:<9} {}: {keys} {noun}{}", tenant.name, show_limits(tenant))?;
            title = "";
        }
        self.admin_keys(f)
    }
}

impl Summary<'_> {
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
    let mut shown = format!(", up to {}", spelling(tenant.band_max));
    if let Some(band) = tenant.band {
        shown += &format!(", usually {}", spelling(band));
    }
    if let Some(most) = tenant.requests_per_minute {
        shown += &format!(", {most} requests a minute");
    }
    if let Some(most) = tenant.tokens_per_minute {
        shown += &format!(", {most} tokens a minute");
    }
    let quotas = [(tenant.quotas.day, "day"), (tenant.quotas.month, "month")];
    for (most, period) in quotas.into_iter().filter_map(|(most, period)| Some((most?, period))) {
        let then = spelling(tenant.on_quota);
        shown += &format!(", {most} tokens a {period}, then {then}");
    }
    if !tenant.models.is_empty() {
        shown += &format!(", models {}", tenant.models.join(", "));
    }
    shown
}
