//! Where a gate looks, made from what is configured. What cannot work is an error at the start.

use std::sync::Arc;

use flow::aimd::{Aimd, AimdSettings};
use flow::budget::{Basis, BudgetSettings};
use flow::start_limiter::{StartLimiter, StartLimiterSettings};
use flow::{OutOfRange, Span, Time};

use super::fetch::MetricsServer;
use super::gate_state::GateState;
use super::local_load::LocalLoad;
use super::prometheus::{Prometheus, Query};
use super::promql::PromMetric;
use super::reading::{Reading, size};
use super::redis::{RedisAddress, RedisKey};
use super::scrape::{MetricSelector, Scrape, split};
use crate::clock::{Clock, span};
use crate::config::resolved::dispatch::{Gate as GateSettings, GateKind, System, Unit};
use crate::state::State;
use crate::upstream::client::{BaseUrl, Client};

/// How long a request may be on its way to the system, or the news of its end on its way back.
/// Readings are told so much later: the core must know what had ended when they were taken.
pub(super) const TRANSIT: std::time::Duration = std::time::Duration::from_millis(20);

/// What gates are made with.
#[derive(Clone, Debug)]
pub(super) struct GateContext {
    pub(super) local: Option<Arc<State>>,
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
    LocalLoad(LocalLoad),
    Remote(Box<tokio::sync::Mutex<Remote>>),
}

/// Somewhere that takes time to look at.
#[derive(Debug)]
pub(super) enum Remote {
    RedisKey(RedisKey),
    Scrape(Scrape),
    Prometheus(Prometheus),
}

/// A gate's source and what is kept of it.
pub(super) fn made(
    settings: &GateSettings,
    parts: &GateContext,
) -> Result<(Source, GateState), String> {
    check(settings)?;
    let (source, words) = source(settings, parts)?;
    let window = match settings.kind {
        GateKind::Aimd { min, max } => {
            let law = AimdSettings::new(min, max, span(settings.hold));
            Some(Aimd::new(law.map_err(|error| error.to_string())?))
        }
        _ => None,
    };
    let start_limiter = match settings.kind {
        GateKind::Gateway { rest } => {
            let law = StartLimiterSettings::new(rest).map_err(|error| error.to_string())?;
            Some(StartLimiter::new(law))
        }
        _ => None,
    };
    let law = law(settings).map_err(|error| error.to_string())?;
    let mut gate = GateState::new(settings.kind.name(), words, law);
    (gate.window, gate.start_limiter) = (window, start_limiter);
    Ok((source, gate))
}

fn law(settings: &GateSettings) -> Result<BudgetSettings, OutOfRange> {
    let basis = match settings.kind {
        GateKind::Constant(_) | GateKind::RedisKey { .. } | GateKind::Aimd { .. } => Basis::Stated,
        // The places that it leaves free may be those of a part of the backends' work.
        GateKind::Gateway { .. } => Basis::Measured { transit: span(TRANSIT), all: false },
        _ => Basis::Measured { transit: span(TRANSIT), all: true },
    };
    // A window leaves nothing to others: it is what they leave.
    let is_window = matches!(settings.kind, GateKind::Aimd { .. });
    let baseline = if is_window { 0.0 } else { settings.baseline };
    BudgetSettings::new(basis, baseline, span(settings.stale_after), span(settings.hold))
}

/// The numbers that the core takes as they are.
fn check(settings: &GateSettings) -> Result<(), String> {
    let each = match settings.system {
        System::Known => None,
        System::Fixed(size) => Some(size),
        System::PerServer { each, .. } => Some(each),
    };
    let servers = match settings.kind {
        GateKind::PrometheusBudget { max_concurrency, .. } => Some(max_concurrency),
        _ => None,
    };
    let succeeded = |number: &f64| number.is_finite() && *number > 0.0;
    if let Some(bad) = each.into_iter().chain(servers).find(|number| !succeeded(number)) {
        return Err(format!("the system cannot have {bad} at once, it must be more than 0"));
    }
    if settings.interval.is_zero() || settings.stale_after < settings.interval {
        return Err("a reading must be good for as long as it takes to the next one".into());
    }
    let looks_inside = matches!(settings.kind, GateKind::Gateway { .. });
    if looks_inside && settings.system == System::Known && settings.unit != Unit::Requests {
        return Err("this gateway counts requests: say how large the system is in the unit".into());
    }
    if settings.system == System::Known && !knows_its_size(&settings.kind) {
        return Err("it cannot tell how much the system can have at once: say so".into());
    }
    let counts_servers = matches!(settings.system, System::PerServer { .. });
    if counts_servers && matches!(settings.kind, GateKind::Constant(_) | GateKind::RedisKey { .. })
    {
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
fn source(settings: &GateSettings, parts: &GateContext) -> Result<(Source, String), String> {
    let system = settings.system.clone();
    let remote = match &settings.kind {
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
            let state = parts.local.clone();
            let state = state.ok_or("there is no gateway in this process: look at its metrics")?;
            let local = LocalLoad { state, system, baseline: settings.baseline };
            return Ok((Source::LocalLoad(local), "this process".into()));
        }
        GateKind::RedisKey { url, key } => {
            let (address, clock) = (RedisAddress::read(url)?, parts.clock);
            Remote::RedisKey(RedisKey {
                address,
                key: key.clone(),
                clock,
                system,
                connection: None,
            })
        }
        GateKind::Scrape { url, metric, labels, says } => {
            let (base, path) = split(url)?;
            let wanted =
                MetricSelector { metric: metric.clone(), labels: labels.clone(), says: *says };
            Remote::Scrape(Scrape { server: parts.server(base), path, wanted, system })
        }
        GateKind::PrometheusSaturation { url, pool } => {
            let asks = Query::Names { numbers: PromMetric::saturations(pool), each: None };
            Remote::Prometheus(parts.prometheus(url, Some(pool), asks, settings)?)
        }
        GateKind::PrometheusBudget { url, pool, max_concurrency } => {
            let asks =
                Query::Names { numbers: PromMetric::loads(pool), each: Some(*max_concurrency) };
            Remote::Prometheus(parts.prometheus(url, Some(pool), asks, settings)?)
        }
        GateKind::PrometheusQuery { url, query } => {
            let asks = Query::Expression(query.clone());
            Remote::Prometheus(parts.prometheus(url, None, asks, settings)?)
        }
    };
    let words = remote.source();
    Ok((Source::Remote(Box::new(tokio::sync::Mutex::new(remote))), words))
}

// === impl GateContext ===

impl GateContext {
    fn server(&self, base: BaseUrl) -> MetricsServer {
        MetricsServer { client: Arc::clone(&self.client), base, clock: self.clock }
    }

    fn prometheus(
        &self,
        url: &str,
        pool: Option<&str>,
        asks: Query,
        settings: &GateSettings,
    ) -> Result<Prometheus, String> {
        let ready = match (&settings.system, &asks) {
            (System::PerServer { ready, .. }, _) => PromMetric::readies(pool, ready.as_deref()),
            // What is at all servers is measured against what they can have.
            (_, Query::Names { each: Some(_), .. }) => PromMetric::readies(pool, None),
            _ => Vec::new(),
        };
        let server = self.server(BaseUrl::parse(url)?);
        let (system, stale_after) = (settings.system.clone(), settings.stale_after);
        Ok(Prometheus { server, asks, ready, system, stale_after, seen: None })
    }
}

// === impl Remote ===

impl Remote {
    fn source(&self) -> String {
        match self {
            Self::RedisKey(key) => key.source(),
            Self::Scrape(page) => page.source(),
            Self::Prometheus(prometheus) => prometheus.source(),
        }
    }

    pub(super) async fn read(&mut self) -> Result<Reading, String> {
        match self {
            Self::RedisKey(key) => key.read().await,
            Self::Scrape(page) => page.read().await,
            Self::Prometheus(prometheus) => prometheus.read().await,
        }
    }
}

/// A look at something that never takes time and is never old.
pub(super) fn steady(free: f64, system: f64, at: Time) -> Reading {
    Reading { free, system, at, lag: Span::ZERO, by: String::new() }
}
