//! Diagnosis: what is wrong with the gateway, what an operator can do, and one sentence about it.
//!
//! The input is a [`Situation`], a copy of the state as plain data. Rules read it and return
//! findings. No rule reads a clock or another module but the table of error codes, so each rule is
//! tested with plain data.
//! [`Trends`] adds what one moment cannot show: rates, since when a finding holds, and which ended.

mod advice;
mod backend_condition;
mod backend_rules;
mod batch_attempts;
mod batch_failure_rules;
mod batch_rules;
mod causes;
mod client_error_rules;
mod config_rules;
mod expiry_rules;
mod finding;
mod first_byte_waits;
mod hang_rules;
mod history;
mod memory;
mod places_rules;
mod queue_rules;
mod quick_responses;
mod refusal_rules;
mod sentence;
pub(crate) mod situation;
mod slow_rules;
mod store_trouble;
mod token_paces;
mod token_rules;
mod trends;
mod watermark_rules;
mod whole_response_rules;

#[cfg(test)]
mod tests;

pub(crate) use finding::{EndedFinding, Level, StatusFinding};
pub(crate) use history::History;
pub(crate) use situation::Situation;
pub(crate) use trends::{Sample, Trends};

use serde::Serialize;

/// What `/status` shows: the diagnosis, and the state that it is based on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StatusPage {
    /// Whether all is well, and if not, what is wrong.
    pub(crate) sentence: String,
    pub(crate) level: Level,
    /// The worst first.
    pub(crate) findings: Vec<StatusFinding>,
    /// Those that ended in the last minutes, the last first.
    pub(crate) recent: Vec<EndedFinding>,
    #[serde(flatten)]
    pub(crate) situation: Situation,
}

/// All findings, without the time since which they hold.
fn findings(situation: &Situation) -> Vec<StatusFinding> {
    let mut found = Vec::new();
    backend_rules::check(situation, &mut found);
    watermark_rules::check(situation, &mut found);
    queue_rules::check(situation, &mut found);
    refusal_rules::check(situation, &mut found);
    client_error_rules::check(situation, &mut found);
    batch_rules::check(situation, &mut found);
    batch_failure_rules::check(situation, &mut found);
    expiry_rules::check(situation, &mut found);
    config_rules::check(situation, &mut found);
    for (at, finding) in found.iter_mut().enumerate() {
        finding.order = at;
    }
    causes::explain(&mut found, &[], situation.queue.ttl_seconds);
    found
}
