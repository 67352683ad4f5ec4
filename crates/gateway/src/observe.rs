//! What happened, for people and programs: metrics and the access log.
//!
//! Each request ends in one [`Record`]; counters and histograms are updated from it and a line is
//! written. Gauges are read from the truth when somebody asks.
//!
//! The registry is our own because there is so little to it: every counter is a field that is found
//! once, names that clients invent must not become series, and the text format is one small file.

mod access_line;
mod access_log;
mod backend_metrics;
pub(crate) mod dispatch;
mod gauges;
mod histogram;
mod labels;
mod llm_d;
pub(crate) mod log;
mod metrics;
mod model_metrics;
mod outcome;
mod process;
mod prometheus_writer;
mod snapshot;
mod ticket_labels;
mod timestamp;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use prometheus_writer::MEDIA_TYPE as METRICS_TYPE;
pub(crate) use snapshot::Snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BANDS, BackendId, Band, Controller, ModelId, Span, Ticket, Time};

use crate::backend::Attempt;
use crate::config::resolved::Log;
use access_log::AccessLog;
use backend_metrics::{BackendCounters, BackendMetrics};
use labels::ModelLabels;
use model_metrics::ModelMetrics;
use prometheus_writer::MetricsText;
use ticket_labels::TicketLabels;

/// How bands are called in metrics, logs and pages, from best-effort to critical.
pub(crate) const BAND_NAMES: [&str; BANDS] = ["best_effort", "normal", "high", "critical"];

/// What is known of a request when it has ended.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) request_id: String,
    pub(crate) method: http::Method,
    pub(crate) path: String,
    /// The model asked for and the one it stands for; empty where there is none.
    pub(crate) model: String,
    pub(crate) target: String,
    pub(crate) flow: String,
    /// Nothing for what is answered here and never takes a turn.
    pub(crate) band: Option<Band>,
    /// The backend's name, empty if it never reached one, and why it was chosen.
    pub(crate) backend: String,
    pub(crate) reason: &'static str,
    pub(crate) boost: f64,
    pub(crate) score: f64,
    pub(crate) queue_penalty: f64,
    pub(crate) attempts: u32,
    /// The status sent, or 499 where the client left.
    pub(crate) status: u16,
    /// The error's code, or `ok`.
    pub(crate) outcome: &'static str,
    /// Whether it passed the queue by.
    pub(crate) bypassed: bool,
    /// How long it waited in the queue, nothing if it was never taken.
    pub(crate) waited: Option<Span>,
    /// From the request's arrival to the first byte of the answer, and to its end.
    pub(crate) first_byte: Option<Span>,
    pub(crate) total: Span,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// How the core's numbers are called.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdNames<'a> {
    pub(crate) backends: BTreeMap<BackendId, &'a str>,
    pub(crate) models: BTreeMap<ModelId, &'a str>,
    /// Numbers that stand for a model which only some of its backends may serve.
    pub(crate) subsets: BTreeMap<ModelId, ModelId>,
}

/// Where a request and its last attempt are counted, found once.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    model: Option<Arc<ModelMetrics>>,
    backend: Option<Arc<BackendCounters>>,
}

/// Counters, histograms and the access log.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    model_labels: ModelLabels,
    backends: BackendMetrics,
    ticket_labels: TicketLabels,
    access: Option<AccessLog>,
    /// What the dispatcher does, where there is one.
    pub(crate) dispatch: Arc<dispatch::DispatchMetrics>,
    /// Whether metrics also stand under the names of llm-d's picker.
    llm_d: bool,
}

// === impl Record ===

impl Record {
    /// Whether it was served as asked.
    fn succeeded(&self) -> bool {
        self.outcome == outcome::OK && self.status < 400
    }
}

// === impl Observer ===

impl Observer {
    /// An observer that writes lines to standard output where the settings want them.
    pub(crate) fn new(log: &Log, llm_d: bool) -> Self {
        let access = log.access.then(|| AccessLog::start(log.format, std::io::stdout())).flatten();
        Self { access, llm_d, ..Self::default() }
    }

    /// These models' names may be label values from now on. Names that nobody listed, and those
    /// beyond the first thousand, share the value `other`.
    pub(crate) fn known<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        self.model_labels.learn(names);
    }

    /// An ask of the core stands for a request with these names: gauges count it under them.
    pub(crate) fn began(&self, ticket: Ticket, model: &str, target: &str) -> RequestCounters {
        let (index, metrics) = self.model_labels.find(model, target);
        self.ticket_labels.set(ticket.index(), index);
        RequestCounters { model: Some(metrics), backend: None }
    }

    /// An attempt at a backend has ended in one way or another.
    pub(crate) fn attempt(&self, backend: &str, attempt: Attempt, counters: &mut RequestCounters) {
        let backend = self.backends.find(backend);
        backend.count(attempt);
        counters.backend = Some(backend);
    }

    /// A request has ended.
    pub(crate) fn ended(&self, record: &Record, counters: &RequestCounters) {
        match &counters.model {
            Some(model) => model.count(record),
            None => self.model_labels.find(&record.model, &record.target).1.count(record),
        }
        if let Some(backend) = counters.backend.as_ref().filter(|_| record.succeeded()) {
            let waited = record.waited.unwrap_or(Span::ZERO);
            let served = record.total.nanos().saturating_sub(waited.nanos());
            backend.measured(Span::from_nanos(served));
        }
        if let Some(access) = &self.access {
            access.write(record);
        }
    }

    /// Every backend that was ever tried, with the attempts that it began to answer and the others.
    #[cfg(feature = "dbus")]
    pub(crate) fn attempts(&self) -> Vec<(Arc<str>, [u64; 2])> {
        let split =
            |(name, [answered, others @ ..]): (_, [u64; backend_metrics::RESULTS.len()])| {
                (name, [answered, others.iter().sum()])
            };
        self.backends.all().into_iter().map(split).collect()
    }

    /// How long a backend's answers take of late, in milliseconds, without the wait in the queue.
    pub(crate) fn latency_ms(&self, backend: &str) -> Option<f64> {
        self.backends.latency_ms(backend)
    }

    /// Copies the truth out of the core. It is short, and all that a scrape does under the lock.
    pub(crate) fn snapshot(
        &self,
        core: &mut Controller,
        now: Time,
        named: &IdNames<'_>,
    ) -> Snapshot {
        Snapshot::copy(core, now, named, &self.ticket_labels)
    }

    /// Everything in the text format, given the truth of a moment.
    pub(crate) fn metrics(&self, snapshot: &Snapshot, named: &IdNames<'_>) -> String {
        let mut text = MetricsText::default();
        let label = |(&model, name): (&ModelId, &&str)| (model, self.model_labels.label(name));
        let targets = named.models.iter().map(label).collect();
        let alive = gauges::alive(snapshot, &targets, &self.model_labels);
        gauges::write(&mut text, snapshot, named, &targets, &alive);
        metrics::write(&mut text, &self.model_labels, &self.backends);
        if self.llm_d {
            llm_d::write(&mut text, snapshot, &alive, &self.model_labels);
        }
        self.dispatch.write(&mut text);
        self.write_process(&mut text);
        text.finish()
    }

    /// What there is in a dispatcher that stands alone: it has no backends and no queue for them.
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
        process::write(text);
    }

    /// Waits until every line is written, though never long: whoever reads them may have stopped.
    pub(crate) fn flush(&self) {
        if let Some(access) = &self.access {
            access.flush();
        }
    }
}
