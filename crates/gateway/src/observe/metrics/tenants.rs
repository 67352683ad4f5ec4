//! Metrics of tenants: outcomes, tokens, and claims of bands that they may not have.

use std::sync::atomic::Ordering::Relaxed;

use crate::observe::model_counters;
use crate::observe::prometheus_writer::{MetricType, MetricsText};
use crate::observe::tenant_counters::CountersByTenant;

/// Writes all families of tenants; none while no tenant has sent a request.
pub(in crate::observe) fn write(text: &mut MetricsText, tenants: &CountersByTenant) {
    let tenants = tenants.all();
    if tenants.is_empty() {
        return;
    }
    let help = "Requests of a tenant that have ended, by outcome.";
    let mut family = text.family("tenant_requests_total", MetricType::Counter, help);
    for (tenant, counters) in tenants.iter() {
        for (outcome, count) in counters.endings() {
            family.add(&[("tenant", tenant), ("outcome", outcome)], count);
        }
    }
    let help = "Tokens of the prompts and the responses of a tenant.";
    let mut family = text.family("tenant_tokens_total", MetricType::Counter, help);
    for (tenant, counters) in tenants.iter() {
        let counts = model_counters::read(&counters.tokens);
        for (direction, count) in ["input", "output"].into_iter().zip(counts) {
            family.add(&[("tenant", tenant), ("direction", direction)], count);
        }
    }
    let help = "Requests of a tenant that claimed a higher band than it may have.";
    let mut family = text.family("tenant_bands_clamped_total", MetricType::Counter, help);
    for (tenant, counters) in tenants.iter() {
        family.add(&[("tenant", tenant)], counters.clamped.load(Relaxed));
    }
}
