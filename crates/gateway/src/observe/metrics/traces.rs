//! Metrics of the traces that are sent, and of those that are not.

use crate::observe::prometheus_writer::{MetricType, MetricsText};
use crate::observe::traces::{DROP_REASONS, Tracer};

/// Writes how many traces were sent and dropped.
pub(in crate::observe) fn write(text: &mut MetricsText, tracer: &Tracer) {
    let (sent, dropped) = tracer.counts();
    let help = "Traces of requests that the receiver has taken.";
    text.family("traces_sent_total", MetricType::Counter, help).add(&[], sent);
    let help = "Traces of requests that were dropped, by reason.";
    let mut family = text.family("traces_dropped_total", MetricType::Counter, help);
    for (reason, count) in DROP_REASONS.into_iter().zip(dropped) {
        family.add(&[("reason", reason)], count);
    }
}
