//! The kind `prometheus-query`: an expression of the operator for the free share, from Prometheus.

use super::{GateContext, GateKind, Kind, KindDeclaration, OpenGate};
use crate::gates::error::SetupError;
use crate::gates::prometheus::syntax::refuse_mistakes;
use crate::gates::prometheus::{PromQuery, Prometheus, URL};
use crate::gates::settings::GateSettings;
use crate::schema::{NOT_EMPTY, Section, ValueType, Variant, key};

pub(super) const KIND: KindDeclaration = KindDeclaration {
    variant: Variant {
        name: "prometheus-query",
        aliases: &[],
        doc: "The value of an expression, from Prometheus.",
        keys: &[
            URL,
            key("query", ValueType::Text(&NOT_EMPTY), "An expression for the free share.")
                .required(),
        ],
    },
    read,
    knows_capacity: false,
    counts_servers: true,
};

/// The settings of the kind `prometheus-query`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryGate {
    /// The Prometheus server.
    pub url: String,
    /// The expression.
    pub query: String,
}

fn read(section: &Section<'_>) -> Option<GateKind> {
    refuse_mistakes(section, &["query", "ready_metric"]);
    let (url, query) = (section.given("url")?, section.given("query")?);
    Some(GateKind::PrometheusQuery(QueryGate { url, query }))
}

// === impl QueryGate ===

impl Kind for QueryGate {
    fn declaration(&self) -> &'static KindDeclaration {
        &KIND
    }

    fn open(&self, gate: &GateSettings, context: &GateContext) -> Result<OpenGate, SetupError> {
        let query = PromQuery::Expression(self.query.clone());
        Prometheus::open((&self.url, None), query, gate, context)
    }
}
