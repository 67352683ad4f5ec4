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
mod ended_requests;
mod enqueue_times;
mod figures;
mod histogram;
mod journal;
mod json_line;
mod labels;
mod last_answers;
pub mod log;
mod log_buffer;
mod metrics;
mod model_counters;
mod outcome;
mod prometheus_writer;
mod record;
mod size_histogram;
mod snapshot;
mod tenant_counters;
mod ticket_ids;
mod ticket_labels;
mod timestamp;
mod traces;
mod unknown_paths;
mod unknown_texts;
mod workload_counters;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use ended_requests::RequestMistake;
pub(crate) use last_answers::LastRefusals;
pub(crate) use metrics::ProcessStatus;
pub(crate) use outcome::{FAILED_BY_BACKEND, UNSEEN};
pub(crate) use prometheus_writer::MetricsFormat;
pub(crate) use record::{ChargedTokens, Record};
pub(crate) use snapshot::Snapshot;
pub(crate) use traces::{RequestTrace, TRACEPARENT, Tracer};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use flow::{BANDS, BackendId, Band, Controller, ModelId, RouteReason, Span, Ticket, Time};
use http::{HeaderMap, HeaderValue};
use store::UsageKey;

use crate::backend::Attempt;
use crate::clock;
use crate::config::settings::tenants::Tenant;
use crate::config::settings::{Log, Traces};
use crate::error_codes::{Blame, ErrorCode};
use crate::usage::Accounts;
use access_log::AccessLog;
use backend_counters::{BackendCounters, CountersByBackend};
use ended_requests::EndedRequests;
use enqueue_times::EnqueueTimes;
use labels::ModelLabels;
use metrics::Scrape;
use model_counters::ModelCounters;
use prometheus_writer::MetricsText;
use tenant_counters::CountersByTenant;
use ticket_ids::TicketIds;
use ticket_labels::TicketLabels;
use unknown_paths::UnknownPaths;
use unknown_texts::UnknownTexts;
use workload_counters::WorkloadCounters;

/// The names of the bands in metrics, logs and pages, from best-effort to critical.
pub(crate) const BAND_NAMES: [&str; BANDS] = ["best_effort", "normal", "high", "critical"];

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
    tenants: CountersByTenant,
    accounts: OnceLock<Arc<Accounts>>,
    ticket_labels: TicketLabels,
    ticket_ids: TicketIds,
    ended: EndedRequests,
    unknown_priorities: UnknownTexts,
    unknown_paths: UnknownPaths,
    /// Requests whose clients left before any response began, or while it stood still.
    left_unanswered: AtomicU64,
    /// Whether the shutdown cuts what ends unfinished.
    cuts: AtomicBool,
    access: Option<AccessLog>,
    /// Whether the log has a line for each request, and lines for each decision.
    logs_requests: bool,
    logs_decisions: bool,
    pub(crate) workloads: WorkloadCounters,
    /// The metrics of the dispatcher.
    pub(crate) dispatch: Arc<dispatch::DispatchMetrics>,
    /// The name of the pool, if metrics are also written under the names of other pickers.
    pool: Option<String>,
    /// Measured only then.
    enqueue_times: EnqueueTimes,
    /// Unless traces are off.
    tracer: Option<Arc<Tracer>>,
}

// === impl RequestCounters ===

impl RequestCounters {
    /// Keeps the time of a response that ended now, if it went well.
    pub(crate) fn responded(&self, record: &Record, now: Time) {
        if let Some(backend) = &self.backend {
            backend.responded(record, now);
        }
    }
}

// === impl Observer ===

impl Observer {
    /// Creates an observer. The access log goes to standard output if it is enabled.
    pub(crate) fn new(log: &Log, pool: Option<String>, traces: Option<&Traces>) -> Self {
        let (logs_requests, logs_decisions) = (log.access, log.decisions);
        let start = || AccessLog::start(log.format, std::io::stdout());
        let access = (logs_requests || logs_decisions).then(start).flatten();
        let tracer = traces.map(|traces| Arc::new(Tracer::new(traces)));
        Self { access, logs_requests, logs_decisions, pool, tracer, ..Self::default() }
    }

    /// Allows these model names as label values. Names that are not listed, and those beyond the
    /// first thousand, share the value `other`.
    pub(crate) fn known<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        self.model_labels.learn(names);
    }

    /// Assigns the model names of a request and the size of its body to its ticket, under which
    /// gauges count it.
    pub(crate) fn began(
        &self,
        ticket: Ticket,
        (model, target): (&str, &str),
        bytes: u64,
    ) -> RequestCounters {
        let (index, metrics) = self.model_labels.find(model, target);
        self.ticket_labels.set(ticket.index(), index, bytes);
        RequestCounters { model: Some(metrics), backend: None }
    }

    /// What ends unfinished from now on does so by the shutdown.
    pub(crate) fn begin_to_cut(&self) {
        self.cuts.store(true, Relaxed);
    }
    pub(crate) fn cuts(&self) -> bool {
        self.cuts.load(Relaxed)
    }

    /// Whether the time of the scheduler to take a request is to be measured.
    pub(crate) fn times_enqueue(&self) -> bool {
        self.pool.is_some()
    }

    /// Counts the time of the scheduler to take or refuse a request.
    pub(crate) fn enqueued(&self, band: Band, taken: bool, span: Span) {
        self.enqueue_times.add(band, taken, span);
    }

    /// Records the id of a live request, by which an operator finds it.
    pub(crate) fn identify(&self, ticket: Ticket, id: &HeaderValue) {
        self.ticket_ids.set(ticket.index(), id.as_bytes());
    }

    /// Records why a backend was chosen for an attempt of a request.
    pub(crate) fn chose(&self, ticket: Ticket, reason: RouteReason, attempt: u32) {
        self.ticket_ids.chose(ticket.index(), reason, attempt);
    }

    /// Keeps the record of a request that has ended, in exchange for an older one.
    pub(crate) fn keep(&self, record: &mut Box<Record>, now: Time) {
        // Clients that are not known must not displace the requests of others.
        if ErrorCode::of(record.outcome).blame != Blame::Stranger {
            record.bound_texts();
            self.ended.keep(record, now);
        }
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
        let is_unserved = record.first_byte.is_none() || record.stood_still;
        if record.outcome == outcome::LEFT && is_unserved && record.band.is_some() {
            self.left_unanswered.fetch_add(1, Relaxed);
        }
        self.workloads.count(record);
        // Calls that no backend serves are logged, and are no usage.
        let is_work = record.band.is_some() || record.attempts > 0;
        if let Some(tenant) = record.tenant.as_ref().filter(|_| is_work) {
            self.tenants.count(&tenant.name, record);
            self.account(tenant, record);
        }
        if let Some(backend) = &counters.backend {
            backend.ended(record);
        }
        if let Some(access) = self.access.as_ref().filter(|_| self.logs_requests) {
            access.write(record);
        }
    }

    /// Counts and logs a connection that ended so before it had a request.
    pub(crate) fn refused_connection(&self, outcome: &'static str) {
        let status = ErrorCode::of(outcome).status;
        let record = Record { band: None, status, outcome, ..Record::empty() };
        self.ended(&record, &RequestCounters::default());
    }

    /// Begins the trace of a request, if traces are on and the request is sampled.
    pub(crate) fn begin_trace(&self, headers: &HeaderMap, now: Time) -> Option<Box<RequestTrace>> {
        self.tracer.as_ref()?.begin(headers, now)
    }

    /// Takes the trace of a request that has ended and was counted.
    pub(crate) fn trace_ended(
        &self,
        (record, counters): (&Record, &RequestCounters),
        trace: Box<RequestTrace>,
        now: Time,
    ) {
        let Some(tracer) = &self.tracer else { return };
        let named = trace.exemplar_at(now);
        match &counters.model {
            Some(model) => model.exemplify(record, named),
            None => {
                let (model, target) = record.models();
                self.model_labels.find(model, target).1.exemplify(record, named);
            }
        }
        tracer.ended(record, trace, now);
    }

    /// The traces that wait to be sent, unless traces are off.
    pub(crate) fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// Writes accounts from now on.
    pub(crate) fn account_to(&self, accounts: Arc<Accounts>) {
        // It is called once, at the start.
        let _ = self.accounts.set(accounts);
    }

    /// The accounts, if there are any.
    pub(crate) fn accounts(&self) -> Option<&Arc<Accounts>> {
        self.accounts.get()
    }

    fn account(&self, tenant: &Tenant, record: &Record) {
        let Some(accounts) = self.accounts.get() else { return };
        let (model, target) = record.models();
        let model = self.model_labels.label(if target.is_empty() { model } else { target });
        let key = UsageKey {
            hour: clock::date_secs() / 3600,
            tenant: tenant.name.clone(),
            key: record.key.as_deref().unwrap_or_default().to_owned(),
            model: model.as_ref().to_owned(),
        };
        accounts.add(key, &record.amounts());
    }

    /// Logs the choice of a backend, if that is enabled. `pending` are the requests that were at
    /// the backend before.
    pub(crate) fn routed(&self, record: &Record, pending: [u32; BANDS]) {
        if let Some(access) = self.access.as_ref().filter(|_| self.logs_decisions) {
            access.write_decision(record, pending);
        }
    }

    /// Logs that a request has left its backend, if choices are logged.
    pub(crate) fn left_backend(&self, record: &Record) {
        if let Some(access) = self.access.as_ref().filter(|_| self.logs_decisions) {
            access.write_end(record);
        }
    }

    /// Counts a request that named a priority that does not exist. The first with each text is
    /// logged.
    pub(crate) fn unknown_priority(&self, header: &str, text: &str) {
        if self.unknown_priorities.add(text) {
            tracing::warn!(
                header,
                value = text,
                "the header names no band and has no effect: X-Priority is critical, high, normal \
                 or best-effort, X-Nexus-Priority is high or normal"
            );
        }
    }

    /// Counts a request to a path that does not exist.
    pub(crate) fn unknown_path(&self, path: &str, now: Time) {
        self.unknown_paths.add(path, now);
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

    /// All metrics.
    pub(crate) fn metrics(
        &self,
        snapshot: &Snapshot,
        named: &IdNames<'_>,
        process: &ProcessStatus,
        format: MetricsFormat,
    ) -> String {
        let mut text = MetricsText::new(format);
        self.backends.retain(&named.backends.values().copied().collect());
        let scrape = Scrape {
            snapshot,
            named,
            process,
            model_labels: &self.model_labels,
            backends: &self.backends,
            pool: self.pool.as_deref(),
            enqueue_times: &self.enqueue_times,
            unknown_priorities: self.unknown_priorities.read().1,
        };
        scrape.write(&mut text);
        metrics::write_tenants(&mut text, &self.tenants);
        self.workloads.write(&mut text);
        self.dispatch.write(&mut text);
        self.write_process(&mut text);
        text.finish()
    }

    /// The metrics of a stand-alone dispatcher, which has no backends and no request queue.
    pub(crate) fn metrics_alone(&self, format: MetricsFormat) -> String {
        let mut text = MetricsText::new(format);
        metrics::write_ended(&mut text, &self.model_labels);
        self.dispatch.write(&mut text);
        self.write_process(&mut text);
        text.finish()
    }

    fn write_process(&self, text: &mut MetricsText) {
        let dropped = self.access.as_ref().map_or(0, AccessLog::dropped);
        metrics::write_lines_dropped(text, dropped);
        if let Some(tracer) = &self.tracer {
            metrics::write_traces(text, tracer);
        }
        metrics::write_process(text);
    }

    /// Waits until all lines are written, for a second at most: the reader may have stopped.
    pub(crate) fn flush(&self) {
        if let Some(access) = &self.access {
            access.flush();
        }
    }
}
