//! Metrics and the access log.
//!
//! Each request ends in one [`Record`], which updates counters and histograms and becomes a line of
//! the access log. Gauges are read from the core when Prometheus scrapes them.
//!
//! The registry is our own because it is small: a request finds its counters once and then updates
//! fields, names that clients invent must not become series, and the text format is one short file.

mod access_line;
mod access_log;
mod backend_counters;
mod decision_lines;
pub(crate) mod dispatch;
mod histogram;
mod labels;
pub mod log;
mod metrics;
mod model_counters;
mod outcome;
mod prometheus_writer;
mod snapshot;
mod ticket_labels;
mod timestamp;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use outcome::UNSEEN;
pub(crate) use prometheus_writer::MEDIA_TYPE as METRICS_TYPE;
pub(crate) use snapshot::Snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BANDS, BackendId, Band, Controller, ModelId, Span, Ticket, Time};
use http::{HeaderValue, Method};

use crate::backend::Attempt;
use crate::config::settings::Log;
use crate::places::PlacesUsage;
use access_log::AccessLog;
use backend_counters::{BackendCounters, CountersByBackend};
use labels::ModelLabels;
use metrics::Scrape;
use model_counters::ModelCounters;
use prometheus_writer::MetricsText;
use ticket_labels::TicketLabels;

/// The names of the bands in metrics, logs and pages, from best-effort to critical.
pub(crate) const BAND_NAMES: [&str; BANDS] = ["best_effort", "normal", "high", "critical"];

/// The outcome of a request, for metrics and the access log.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) request_id: HeaderValue,
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The requested model and its target model.
    pub(crate) model: Option<Arc<str>>,
    pub(crate) target: Option<Arc<str>>,
    pub(crate) flow: String,
    /// `None` for a request that the gateway answers itself, without the queue.
    pub(crate) band: Option<Band>,
    /// The workload id that the client gave; empty without one.
    pub(crate) workload: String,
    /// The prefix of the id that the log generates instead.
    pub(crate) workload_prefix: &'static str,
    /// From 1 to 5; 0 before the request is read.
    pub(crate) criticality: u8,
    /// The name of the backend, empty if no backend was reached, and why it was chosen.
    pub(crate) backend: String,
    pub(crate) reason: &'static str,
    pub(crate) boost: f64,
    pub(crate) score: f64,
    pub(crate) queue_penalty: f64,
    pub(crate) attempts: u32,
    /// The status that was sent, 499 if the client disconnected, or 0 if it is unknown.
    pub(crate) status: u16,
    /// The error code, or `ok`.
    pub(crate) outcome: &'static str,
    /// Whether it bypassed the queue.
    pub(crate) bypassed: bool,
    /// The wait in the queue; `None` if it was never queued.
    pub(crate) waited: Option<Span>,
    /// The client's objective for the time to a first token.
    pub(crate) slo_ttft: Option<Span>,
    /// From the arrival of the request to the first byte of the response, and to its end.
    pub(crate) first_byte: Option<Span>,
    pub(crate) total: Span,
    /// From the grant of the backend that served it to the end, without waits and failed attempts.
    pub(crate) at_backend: Span,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    /// Whether the backend did not report them both.
    pub(crate) usage_estimated: bool,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// The names of the core's ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdNames<'a> {
    pub(crate) backends: BTreeMap<BackendId, &'a str>,
    pub(crate) models: BTreeMap<ModelId, &'a str>,
    /// The ids of subsets, each with the id of its model.
    pub(crate) subsets: BTreeMap<ModelId, ModelId>,
}

/// The counters of a request and of its last attempt, found once per request.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    model: Option<Arc<ModelCounters>>,
    backend: Option<Arc<BackendCounters>>,
}

/// Counters, histograms and the access log.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    model_labels: ModelLabels,
    backends: CountersByBackend,
    ticket_labels: TicketLabels,
    access: Option<AccessLog>,
    /// Whether the log has a line for each request, and lines for each decision.
    logs_requests: bool,
    logs_decisions: bool,
    /// The metrics of the dispatcher.
    pub(crate) dispatch: Arc<dispatch::DispatchMetrics>,
    /// Whether metrics are also written under the names of llm-d's picker.
    llm_d: bool,
}

// === impl Record ===

impl Record {
    /// The requested model and its target model; empty without a model.
    pub(crate) fn models(&self) -> (&str, &str) {
        (self.model.as_deref().unwrap_or_default(), self.target.as_deref().unwrap_or_default())
    }

    /// Whether the request was served successfully.
    fn succeeded(&self) -> bool {
        self.outcome == outcome::OK && self.status < 400
    }

    /// Whether its wait ended well: it was served, as far as is known.
    fn waited_well(&self) -> bool {
        self.succeeded() || self.outcome == UNSEEN
    }
}

// === impl Observer ===

impl Observer {
    /// Creates an observer. The access log goes to standard output if it is enabled.
    pub(crate) fn new(log: &Log, llm_d: bool) -> Self {
        let (logs_requests, logs_decisions) = (log.access, log.decisions);
        let start = || AccessLog::start(log.format, std::io::stdout());
        let access = (logs_requests || logs_decisions).then(start).flatten();
        Self { access, logs_requests, logs_decisions, llm_d, ..Self::default() }
    }

    /// Allows these model names as label values. Names that are not listed, and those beyond the
    /// first thousand, share the value `other`.
    pub(crate) fn known<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        self.model_labels.learn(names);
    }

    /// Assigns the model names of a request to its ticket, under which gauges count it.
    pub(crate) fn began(&self, ticket: Ticket, model: &str, target: &str) -> RequestCounters {
        let (index, metrics) = self.model_labels.find(model, target);
        self.ticket_labels.set(ticket.index(), index);
        RequestCounters { model: Some(metrics), backend: None }
    }

    /// Counts an attempt at a backend.
    pub(crate) fn attempt(&self, backend: &str, attempt: Attempt, counters: &mut RequestCounters) {
        let backend = self.backends.find(backend);
        backend.count(attempt);
        counters.backend = Some(backend);
    }

    /// Counts a request that has ended, and logs it.
    pub(crate) fn ended(&self, record: &Record, counters: &RequestCounters) {
        match &counters.model {
            Some(model) => model.count(record),
            None => {
                let (model, target) = record.models();
                self.model_labels.find(model, target).1.count(record);
            }
        }
        if let Some(backend) = counters.backend.as_ref().filter(|_| record.succeeded()) {
            backend.measured(record.at_backend);
        }
        if let Some(access) = self.access.as_ref().filter(|_| self.logs_requests) {
            access.write(record);
        }
    }

    /// Logs the choice of a backend, if that is enabled. `pending` are the requests that were at
    /// the backend before.
    pub(crate) fn routed(&self, record: &Record, pending: [u32; BANDS]) {
        if let Some(access) = self.access.as_ref().filter(|_| self.logs_decisions) {
            access.write_decision(record, pending);
        }
    }

    /// All backends with their successful and failed attempts.
    #[cfg(feature = "dbus")]
    pub(crate) fn attempts(&self) -> Vec<(Arc<str>, [u64; 2])> {
        let split =
            |(name, [answered, others @ ..]): (_, [u64; backend_counters::RESULTS.len()])| {
                (name, [answered, others.iter().sum()])
            };
        self.backends.all().into_iter().map(split).collect()
    }

    /// The recent mean time of requests at a backend in milliseconds.
    pub(crate) fn latency_ms(&self, backend: &str) -> Option<f64> {
        self.backends.latency_ms(backend)
    }

    /// Copies the state of the core. A scrape does nothing else under the lock.
    pub(crate) fn snapshot(
        &self,
        core: &mut Controller,
        now: Time,
        named: &IdNames<'_>,
    ) -> Snapshot {
        Snapshot::copy(core, now, named, &self.ticket_labels)
    }

    /// All metrics in the text format.
    pub(crate) fn metrics(
        &self,
        snapshot: &Snapshot,
        named: &IdNames<'_>,
        hold: PlacesUsage,
    ) -> String {
        let mut text = MetricsText::default();
        let scrape = Scrape {
            snapshot,
            named,
            hold,
            model_labels: &self.model_labels,
            backends: &self.backends,
            llm_d: self.llm_d,
        };
        scrape.write(&mut text);
        self.dispatch.write(&mut text);
        self.write_process(&mut text);
        text.finish()
    }

    /// The metrics of a stand-alone dispatcher, which has no backends and no request queue.
    pub(crate) fn metrics_alone(&self) -> String {
        let mut text = MetricsText::default();
        metrics::write_ended(&mut text, &self.model_labels);
        self.dispatch.write(&mut text);
        self.write_process(&mut text);
        text.finish()
    }

    fn write_process(&self, text: &mut MetricsText) {
        let dropped = self.access.as_ref().map_or(0, AccessLog::dropped);
        metrics::write_lines_dropped(text, dropped);
        metrics::write_process(text);
    }

    /// Waits until all lines are written, for a second at most: the reader may have stopped.
    pub(crate) fn flush(&self) {
        if let Some(access) = &self.access {
            access.flush();
        }
    }
}
