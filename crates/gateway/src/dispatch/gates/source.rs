//! Where a gate looks, made from what is configured. What cannot work is an error at the start.

use std::sync::Arc;

use flow::aimd::{Aimd, AimdSettings};
use flow::budget::{Basis, BudgetSettings};
use flow::start_limiter::{StartLimiter, StartLimiterSettings};
use flow::{OutOfRange, Span, Time};

use super::book::Book;
use super::fetch::Server;
use super::inside::Inside;
use super::look::{Look, size};
use super::page::{Page, Wanted, split};
use super::prometheus::{Asks, Prometheus};
use super::promql::Number;
use super::redis::{Address, Key};
use crate::clock::{Clock, span};
use crate::config::resolved::dispatch::{Gate as Spec, GateKind, System, Unit};
use crate::state::State;
use crate::upstream::client::{BaseUrl, Client};

/// How long a request may be on its way to the system, or the news of its end on its way back.
/// Readings are told so much later: the core must know what had ended when they were taken.
pub(super) const TRANSIT: std::time::Duration = std::time::Duration::from_millis(20);

/// What gates are made with.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) inside: Option<Arc<State>>,
    pub(super) clock: Clock,
    pub(super) client: Arc<Client>,
}

/// Where a gate looks.
#[derive(Debug)]
pub(super) enum Source {
    /// At a number that never changes, with the size of the system.
    Constant(f64, f64),
    /// At the window that its answers set.
    Answers,
    Inside(Inside),
    Away(Box<tokio::sync::Mutex<Away>>),
}

/// Somewhere that takes time to look at.
#[derive(Debug)]
pub(super) enum Away {
    Key(Key),
    Page(Page),
    Prometheus(Prometheus),
}

/// A gate's source and what is kept of it.
pub(super) fn made(spec: &Spec, parts: &Parts) -> Result<(Source, Book), String> {
    check(spec)?;
    let (source, words) = source(spec, parts)?;
    let window = match spec.kind {
        GateKind::Aimd { min, max } => {
            let law = AimdSettings::new(min, max, span(spec.hold));
            Some(Aimd::new(law.map_err(|error| error.to_string())?))
        }
        _ => None,
    };
    let start_limiter = match spec.kind {
        GateKind::Gateway { rest } => {
            let law = StartLimiterSettings::new(rest).map_err(|error| error.to_string())?;
            Some(StartLimiter::new(law))
        }
        _ => None,
    };
    let law = law(spec).map_err(|error| error.to_string())?;
    let mut book = Book::new(spec.kind.name(), words, law);
    (book.window, book.start_limiter) = (window, start_limiter);
    Ok((source, book))
}

fn law(spec: &Spec) -> Result<BudgetSettings, OutOfRange> {
    let basis = match spec.kind {
        GateKind::Constant(_) | GateKind::RedisKey { .. } | GateKind::Aimd { .. } => Basis::Stated,
        // The places that it leaves free may be those of a part of the backends' work.
        GateKind::Gateway { .. } => Basis::Measured { transit: span(TRANSIT), all: false },
        _ => Basis::Measured { transit: span(TRANSIT), all: true },
    };
    // A window leaves nothing to others: it is what they leave.
    let is_window = matches!(spec.kind, GateKind::Aimd { .. });
    let baseline = if is_window { 0.0 } else { spec.baseline };
    BudgetSettings::new(basis, baseline, span(spec.stale_after), span(spec.hold))
}

/// The numbers that the core takes as they are.
fn check(spec: &Spec) -> Result<(), String> {
    let each = match spec.system {
        System::Known => None,
        System::Fixed(size) => Some(size),
        System::PerServer { each, .. } => Some(each),
    };
    let servers = match spec.kind {
        GateKind::PrometheusBudget { max_concurrency, .. } => Some(max_concurrency),
        _ => None,
    };
    let good = |number: &f64| number.is_finite() && *number > 0.0;
    if let Some(bad) = each.into_iter().chain(servers).find(|number| !good(number)) {
        return Err(format!("the system cannot have {bad} at once, it must be more than 0"));
    }
    if spec.interval.is_zero() || spec.stale_after < spec.interval {
        return Err("a reading must be good for as long as it takes to the next one".into());
    }
    let looks_inside = matches!(spec.kind, GateKind::Gateway { .. });
    if looks_inside && spec.system == System::Known && spec.unit != Unit::Requests {
        return Err("this gateway counts requests: say how large the system is in the unit".into());
    }
    if spec.system == System::Known && !knows_its_size(&spec.kind) {
        return Err("it cannot tell how much the system can have at once: say so".into());
    }
    let counts_servers = matches!(spec.system, System::PerServer { .. });
    if counts_servers && matches!(spec.kind, GateKind::Constant(_) | GateKind::RedisKey { .. }) {
        return Err("it cannot tell how many servers are ready: say how large they all are".into());
    }
    Ok(())
}

fn knows_its_size(kind: &GateKind) -> bool {
    matches!(
        kind,
        GateKind::Gateway { .. } | GateKind::PrometheusBudget { .. } | GateKind::Aimd { .. }
    )
}

/// The source and its words.
fn source(spec: &Spec, parts: &Parts) -> Result<(Source, String), String> {
    let system = spec.system.clone();
    let away = match &spec.kind {
        GateKind::Constant(free) => {
            if !(0.0..=1.0).contains(free) {
                return Err(format!("the free share is {free}, it must be from 0 to 1"));
            }
            let system = size(&system, None, None)?;
            return Ok((Source::Constant(*free, system), format!("always {free}")));
        }
        GateKind::Aimd { min, max } => {
            return Ok((Source::Answers, format!("answers, {min} to {max} under way")));
        }
        GateKind::Gateway { .. } => {
            let state = parts.inside.clone();
            let state = state.ok_or("there is no gateway in this process: look at its metrics")?;
            let inside = Inside { state, system, baseline: spec.baseline };
            return Ok((Source::Inside(inside), "this process".into()));
        }
        GateKind::RedisKey { url, key } => {
            let (address, clock) = (Address::read(url)?, parts.clock);
            Away::Key(Key { address, key: key.clone(), clock, system, connection: None })
        }
        GateKind::Scrape { url, metric, labels, says } => {
            let (base, path) = split(url)?;
            let wanted = Wanted { metric: metric.clone(), labels: labels.clone(), says: *says };
            Away::Page(Page { server: parts.server(base), path, wanted, system })
        }
        GateKind::PrometheusSaturation { url, pool } => {
            let asks = Asks::Names { numbers: Number::saturations(pool), each: None };
            Away::Prometheus(parts.prometheus(url, Some(pool), asks, spec)?)
        }
        GateKind::PrometheusBudget { url, pool, max_concurrency } => {
            let asks = Asks::Names { numbers: Number::loads(pool), each: Some(*max_concurrency) };
            Away::Prometheus(parts.prometheus(url, Some(pool), asks, spec)?)
        }
        GateKind::PrometheusQuery { url, query } => {
            let asks = Asks::Expression(query.clone());
            Away::Prometheus(parts.prometheus(url, None, asks, spec)?)
        }
    };
    let words = away.source();
    Ok((Source::Away(Box::new(tokio::sync::Mutex::new(away))), words))
}

// === impl Parts ===

impl Parts {
    fn server(&self, base: BaseUrl) -> Server {
        Server { client: Arc::clone(&self.client), base, clock: self.clock }
    }

    fn prometheus(
        &self,
        url: &str,
        pool: Option<&str>,
        asks: Asks,
        spec: &Spec,
    ) -> Result<Prometheus, String> {
        let ready = match (&spec.system, &asks) {
            (System::PerServer { ready, .. }, _) => Number::readies(pool, ready.as_deref()),
            // What is at all servers is measured against what they can have.
            (_, Asks::Names { each: Some(_), .. }) => Number::readies(pool, None),
            _ => Vec::new(),
        };
        let server = self.server(BaseUrl::parse(url)?);
        let (system, stale_after) = (spec.system.clone(), spec.stale_after);
        Ok(Prometheus { server, asks, ready, system, stale_after, seen: None })
    }
}

// === impl Away ===

impl Away {
    fn source(&self) -> String {
        match self {
            Self::Key(key) => key.source(),
            Self::Page(page) => page.source(),
            Self::Prometheus(prometheus) => prometheus.source(),
        }
    }

    pub(super) async fn look(&mut self) -> Result<Look, String> {
        match self {
            Self::Key(key) => key.look().await,
            Self::Page(page) => page.look().await,
            Self::Prometheus(prometheus) => prometheus.look().await,
        }
    }
}

/// A look at something that never takes time and is never old.
pub(super) fn steady(free: f64, system: f64, at: Time) -> Look {
    Look { free, system, at, lag: Span::ZERO, by: String::new() }
}
