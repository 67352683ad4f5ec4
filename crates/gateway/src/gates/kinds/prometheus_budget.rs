//! The kind `prometheus-budget`: how full the endpoint picker of a pool is, from Prometheus.
//!
//! The load is the largest of those that have a sample: the picker's own queue, the queues of its
//! servers, their running requests, their KV caches, and the saturation that the picker computes.
//! An empty queue alone says little: it is empty until everything is full.

use super::{GateContext, GateKind, Kind, KindDeclaration, OpenGate};
use crate::gates::error::SetupError;
use crate::gates::prometheus::promql::PromMetric;
use crate::gates::prometheus::syntax::refuse_mistakes;
use crate::gates::prometheus::{POOL, PromQuery, Prometheus, URL};
use crate::gates::settings::{GateSettings, POSITIVE, check_positive};
use crate::schema::{Section, Variant, key};

pub(super) const KIND: KindDeclaration = KindDeclaration {
    variant: Variant {
        name: "prometheus-budget",
        aliases: &[],
        doc: "How full the endpoint picker of a pool is, from Prometheus.",
        keys: &[
            URL,
            POOL,
            key("max_concurrency", POSITIVE, "Requests that one server takes.").default("100"),
        ],
    },
    read,
    knows_capacity: true,
    counts_servers: true,
};

/// The settings of the kind `prometheus-budget`.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetGate {
    /// The Prometheus server.
    pub url: String,
    /// The name of the pool.
    pub pool: String,
    /// The requests that one model server takes at once.
    pub max_concurrency: f64,
}

fn read(section: &Section<'_>) -> Option<GateKind> {
    refuse_mistakes(section, &["ready_metric"]);
    Some(GateKind::PrometheusBudget(BudgetGate {
        url: section.given("url")?,
        pool: section.given("pool")?,
        max_concurrency: section.get("max_concurrency"),
    }))
}

// === impl BudgetGate ===

impl Kind for BudgetGate {
    fn declaration(&self) -> &'static KindDeclaration {
        &KIND
    }

    fn open(&self, gate: &GateSettings, context: &GateContext) -> Result<OpenGate, SetupError> {
        check_positive(self.max_concurrency)?;
        let (measures, each) = (PromMetric::loads(&self.pool), Some(self.max_concurrency));
        let query = PromQuery::Metrics { measures, each };
        Prometheus::open((&self.url, Some(&self.pool)), query, gate, context)
    }
}
