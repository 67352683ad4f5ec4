//! What happened, for people and programs: metrics and the access log.
//!
//! Each request ends in one [`Record`]; counters and histograms are updated from it and a line is
//! written. Gauges are read from the truth when somebody asks.
//!
//! The registry is our own because there is so little to it: every counter is a field that is found
//! once, names that clients invent must not become series, and the text format is one small file.

mod access;
mod book;
pub(crate) mod dispatch;
mod gauges;
mod histogram;
mod line;
mod llm_d;
pub(crate) mod log;
mod metrics;
mod outcome;
mod page;
mod process;
mod servers;
mod stamp;
mod tags;
mod text;
mod truth;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use text::MEDIA_TYPE as METRICS_TYPE;
pub(crate) use truth::Truth;

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BANDS, BackendId, Band, Controller, ModelId, Span, Ticket, Time};

use crate::backend::Attempt;
use crate::config::resolved::Log;
use access::AccessLog;
use book::Book;
use page::Page;
use servers::{Server, Servers};
use tags::Tags;
use text::Text;

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
pub(crate) struct Nameplates<'a> {
    pub(crate) backends: BTreeMap<BackendId, &'a str>,
    pub(crate) models: BTreeMap<ModelId, &'a str>,
    /// Numbers that stand for a model which only some of its backends may serve.
    pub(crate) subsets: BTreeMap<ModelId, ModelId>,
}

/// Where a request and its last attempt are counted, found once.
#[derive(Debug, Default)]
pub(crate) struct Account {
    page: Option<Arc<Page>>,
    server: Option<Arc<Server>>,
}

/// Counters, histograms and the access log.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    book: Book,
    servers: Servers,
    tags: Tags,
    access: Option<AccessLog>,
    /// What the dispatcher does, where there is one.
    pub(crate) board: Arc<dispatch::Board>,
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
        self.book.learn(names);
    }

    /// An ask of the core stands for a request with these names: gauges count it under them.
    pub(crate) fn began(&self, ticket: Ticket, model: &str, target: &str) -> Account {
        let (number, page) = self.book.find(model, target);
        self.tags.set(ticket.index(), number);
        Account { page: Some(page), server: None }
    }

    /// An attempt at a backend has ended in one way or another.
    pub(crate) fn attempt(&self, backend: &str, attempt: Attempt, account: &mut Account) {
        let server = self.servers.find(backend);
        server.count(attempt);
        account.server = Some(server);
    }

    /// A request has ended.
    pub(crate) fn ended(&self, record: &Record, account: &Account) {
        match &account.page {
            Some(page) => page.count(record),
            None => self.book.find(&record.model, &record.target).1.count(record),
        }
        if let Some(server) = account.server.as_ref().filter(|_| record.succeeded()) {
            let waited = record.waited.unwrap_or(Span::ZERO);
            let served = record.total.nanos().saturating_sub(waited.nanos());
            server.measured(Span::from_nanos(served));
        }
        if let Some(access) = &self.access {
            access.write(record);
        }
    }

    /// Every backend that was ever tried, with the attempts that it began to answer and the others.
    #[cfg(feature = "dbus")]
    pub(crate) fn attempts(&self) -> Vec<(Arc<str>, [u64; 2])> {
        let split = |(name, [answered, others @ ..]): (_, [u64; servers::RESULTS.len()])| {
            (name, [answered, others.iter().sum()])
        };
        self.servers.all().into_iter().map(split).collect()
    }

    /// How long a backend's answers take of late, in milliseconds, without the wait in the queue.
    pub(crate) fn latency_ms(&self, backend: &str) -> Option<f64> {
        self.servers.latency_ms(backend)
    }

    /// Copies the truth out of the core. It is short, and all that a scrape does under the lock.
    pub(crate) fn look(&self, core: &mut Controller, now: Time, named: &Nameplates<'_>) -> Truth {
        Truth::copy(core, now, named, &self.tags)
    }

    /// Everything in the text format, given the truth of a moment.
    pub(crate) fn metrics(&self, truth: &Truth, named: &Nameplates<'_>) -> String {
        let mut text = Text::default();
        let label = |(&model, name): (&ModelId, &&str)| (model, self.book.label(name));
        let targets = named.models.iter().map(label).collect();
        let alive = gauges::alive(truth, &targets, &self.book);
        gauges::write(&mut text, truth, named, &targets, &alive);
        metrics::write(&mut text, &self.book, &self.servers);
        if self.llm_d {
            llm_d::write(&mut text, truth, &alive, &self.book);
        }
        self.board.write(&mut text);
        self.write_process(&mut text);
        text.finish()
    }

    /// What there is in a dispatcher that stands alone: it has no backends and no queue for them.
    pub(crate) fn metrics_alone(&self) -> String {
        let mut text = Text::default();
        metrics::write_ended(&mut text, &self.book);
        self.board.write(&mut text);
        self.write_process(&mut text);
        text.finish()
    }

    fn write_process(&self, text: &mut Text) {
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
