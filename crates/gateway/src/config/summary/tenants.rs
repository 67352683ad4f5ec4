//! The tenants, in a few lines.

use std::fmt;

use super::Summary;
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
        Ok(())
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
